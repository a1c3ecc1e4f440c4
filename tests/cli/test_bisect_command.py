"""``rules bisect`` on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

QUICK = ("--target", "analytic", "--extractor", "dag-greedy", "-q")


@pytest.fixture
def check(tmp_path: Path) -> str:
    """Finds fault with models of fewer than three nodes."""
    script = tmp_path / "check.py"
    script.write_text("import onnx, sys\nsys.exit(len(onnx.load(sys.argv[1]).graph.node) < 3)\n")
    return f"{sys.executable} {script} {{model}}"


def test_the_rules_are_named_and_the_pair_is_written(
    cli: Callable[..., Any], model: Path, check: str, tmp_path: Path
) -> None:
    done = cli(
        "rules", "bisect", model, "--check", check, "-o", tmp_path / "pair", "--json", tmp_path / "found.json", *QUICK
    )
    assert done.code == 1, done.err
    assert "of them are enough (none of them can be left out" in done.out
    assert "  mul-one: " in done.out  # what makes one Relu of two is left to the rules that ship
    assert len(onnx.load(str(tmp_path / "pair" / "original.onnx")).graph.node) >= 3
    assert len(onnx.load(str(tmp_path / "pair" / "faulty.onnx")).graph.node) < 3
    found = json.loads((tmp_path / "found.json").read_text())
    assert [Path(path).name for path in found["written"]] == ["original.onnx", "faulty.onnx"]
    names = {r["name"] for r in found["rules"]}
    assert "mul-one" in names
    assert any("relu" in name for name in names)
    assert len(names) <= 4
    assert found["minimal"] is True


def test_no_fault(cli: Callable[..., Any], model: Path) -> None:
    done = cli("rules", "bisect", model, *QUICK)
    assert done.code == 0
    assert "No fault shows" in done.out
    found = json.loads(cli("rules", "bisect", model, "--check", "true {model}", "--json", "-", *QUICK).out)
    assert (found["fault"], found["rules"], found["written"]) == ("", [], [])


def test_two_checks(cli: Callable[..., Any], model: Path, check: str) -> None:
    cli("rules", "bisect", model, "--check", check, "--slower").complains(2, "--check", "--slower")
