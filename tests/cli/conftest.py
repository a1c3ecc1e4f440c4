"""The command line, in this process: what it prints, its exit code, and what it leaves on disk."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest

from egraph_opt.cli import main


@dataclass(frozen=True)
class Finished:
    """One run of the program."""

    code: int
    out: str
    err: str

    def complains(self, code: int, *words: str) -> None:
        """Asserts that it ended with ``code`` and one sentence on stderr that holds ``words``."""
        assert self.code == code, self.err
        assert "Traceback" not in self.err + self.out
        lines = [line for line in self.err.splitlines() if line.strip() and not line.endswith("...")]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("egraph-opt: ")
        for word in words:
            assert word in lines[0], f"{word!r} is not in {lines[0]!r}"


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Finished]:
    """Runs ``egraph-opt`` with arguments."""

    def run(*arguments: object) -> Finished:
        monkeypatch.setattr(sys, "argv", ["egraph-opt", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        code = ended.value.code
        return Finished(code if isinstance(code, int) else 0 if code is None else 1, printed.out, printed.err)

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with something to gain: two activations one after the other, and a scale by one."""
    path = tmp_path / "model.onnx"
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[N,4] y) <float one = {1}>'
        " { a = Relu(x) b = Relu(a) c = Mul(b, one) y = Exp(c) }"
    )
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path
