"""``verify --prove``: what the rules say, the numbers beside it, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

Save = Callable[[str], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes a model given by its nodes."""

    def write(body: str) -> Path:
        header = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[N,4] y, float[N,4] z) '
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.onnx"
        path.write_bytes(onnx.parser.parse_model(header + "{ " + body + " }").SerializeToString())
        return path

    return write


def test_proved(cli: Callable[..., Any], save: Save) -> None:
    done = cli("verify", save("a = Relu(x) y = Relu(a) z = Exp(x)"), save("y = Relu(x) z = Exp(x)"), "--prove")
    assert done.code == 0
    assert "proved: every output of the two is one class" in done.out
    assert "y: merged by relu-idempotent" in done.out
    assert "relu-idempotent (proved)" in done.out
    assert "equivalent: all outputs agree" in done.out


def test_one_output_is_proved_and_the_other_differs(cli: Callable[..., Any], save: Save, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    first, second = save("a = Relu(x) y = Relu(a) z = Exp(x)"), save("y = Relu(x) z = Tanh(x)")
    done = cli("verify", first, second, "--prove", "--json", report)
    assert done.code == 1
    assert "not shown: 1 of 2 outputs did not merge" in done.out
    assert "different: output 'z'" in done.out
    said = json.loads(report.read_text())
    assert said["kind"] == "different"
    assert said["proof"]["proved"] is False
    assert [(o["name"], o["merged"], o["rules"]) for o in said["proof"]["outputs"]] == [
        ("y", True, ["relu-idempotent"]),
        ("z", False, []),
    ]


def test_equal_in_numbers_but_not_shown(cli: Callable[..., Any], save: Save) -> None:
    """Equal by arithmetic that no rule says: exit 0 without ``--prove``, 1 with it."""
    first, second = save("y = Relu(x) z = Exp(x)"), save("y = Relu(x) n = Neg(x) e = Exp(n) z = Reciprocal(e)")
    assert cli("verify", first, second).code == 0
    done = cli("verify", first, second, "--prove")
    assert done.code == 1
    assert "that does not show that they differ" in " ".join(done.out.split())
    assert "equivalent: all outputs agree" in done.out


def test_another_interface(cli: Callable[..., Any], save: Save, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] u) => (float[N,4] y) { y = Relu(u) }'
    other.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    done = cli("verify", save("y = Relu(x) z = Exp(x)"), other, "--prove")
    assert done.code == 1
    assert "different interface" in done.out
