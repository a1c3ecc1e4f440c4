"""``egraph-opt costs``: measurements move between machines, and nothing fails without a GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egraph_opt.cli.costs import app
from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorType
from egraph_opt.runtime import CostDatabase, Entry, Scope, Signature
from egraph_opt.runtime.cuda.measure import read_signatures, write_signatures


def test_measurements_move_between_databases(tmp_path: Path) -> None:
    entries = {"Relu() float32[2]": Entry(1e-6, 2e-7, ""), "Erf() string[2]": Entry(None, 0.0, "no kernel")}
    first = CostDatabase.open(tmp_path / "a.sqlite")
    first.write(entries, Scope("card", "versions"))
    first.close()
    run, file = CliRunner(), str(tmp_path / "moved.jsonl")
    assert run.invoke(app, ["export", file, "--database", str(tmp_path / "a.sqlite")]).exit_code == 0
    assert run.invoke(app, ["import", file, "--database", str(tmp_path / "b.sqlite")]).exit_code == 0
    second = CostDatabase.open(tmp_path / "b.sqlite")
    assert second.read(entries, Scope("card", "versions")) == entries
    second.close()


_BARE = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
import importlib.util
importlib.util.find_spec = lambda name, find=importlib.util.find_spec: None if name in {blocked!r} else find(name)
sys.argv = ["egraph-opt", *{words!r}]
from egraph_opt.cli import main
main()
"""


def _bare(*words: str) -> subprocess.CompletedProcess[str]:
    """``egraph-opt`` where there is nothing but NumPy and the standard library."""
    blocked = sorted({name.lower().replace("-", "_") for name in _needs()} - {"numpy"})
    assert {"onnx", "onnx_ir", "onnxruntime", "typer", "rich", "egglog"} <= set(blocked)
    return subprocess.run(
        [sys.executable, "-c", _BARE.format(blocked=blocked, words=words)], capture_output=True, text=True, check=False
    )


def _needs() -> list[str]:
    """The packages that this one needs, without extras."""
    return [re.split(r"[^\w.-]", line)[0] for line in requires("egraph-opt") or [] if "extra ==" not in line]


def test_measuring_needs_nothing_but_numpy_and_the_gpu_libraries(tmp_path: Path) -> None:
    signatures, database = str(tmp_path / "s.jsonl"), str(tmp_path / "d.sqlite")
    write_signatures(Path(signatures), [Signature("Relu", (), (TensorType("float32", (4,)),), (False,))])
    done = _bare("costs", "measure", "--signatures", signatures, "--database", database)
    if done.returncode:  # no GPU here: that is what it says, having read the signatures
        assert done.returncode == UsageError("").exit_code, done.stderr
        assert "GPU" in done.stderr
        assert "Traceback" not in done.stderr
    else:
        assert "1 operators measured" in done.stdout
    missing = _bare("costs", "measure", "--signatures", str(tmp_path / "none"), "--database", database)
    assert missing.returncode == UsageError("").exit_code
    assert "holds no signatures" in missing.stderr


def test_import_refuses_other_files(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("[1, 2]\n")
    result = CliRunner().invoke(app, ["import", str(tmp_path / "bad"), "--database", str(tmp_path / "d.sqlite")])
    assert isinstance(result.exception, UsageError)


def test_signatures_survive_a_file(tmp_path: Path) -> None:
    x, w = TensorType("float16", (1, 8, 5, 5)), TensorType("float16", (4, 8, 3, 3))
    wanted = [
        Signature("Conv", ((1, 1), (1, 1, 1, 1), (1, 1), 1), (x, w), (False, True)),
        Signature("Relu", (), (x,), (False,)),
    ]
    assert write_signatures(tmp_path / "s.jsonl", wanted) == 2
    assert read_signatures(tmp_path / "s.jsonl") == wanted
    (tmp_path / "bad").write_text("nothing\n")
    with pytest.raises(UsageError):
        read_signatures(tmp_path / "bad")
