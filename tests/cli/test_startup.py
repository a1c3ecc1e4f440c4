"""How a command starts: with what it needs, and with nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from egraph_opt.cli.app import COMMANDS, program

AFTERWARDS = """
import json, os, sys
from egraph_opt.cli import main
try:
    main()
finally:
    print(json.dumps([sorted(sys.modules), os.environ["OPENBLAS_NUM_THREADS"]]))
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """``(x @ w) / 2`` with a symbolic number of rows."""
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, value.shape, value.ravel())
        for name, value in (("w", np.ones((8, 4), np.float32)), ("half", np.array(2, np.float32)))
    ]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Div", ["y", "half"], ["z"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ("N", k)) for n, k in (("x", 8), ("z", 4))]
    graph = helper.make_graph(nodes, "small", ends[:1], ends[1:], weights)
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def run(*words: str | Path, **environment: str) -> tuple[set[str], str]:
    """The modules that a command has loaded in the end, and for how many threads it asked."""
    clean = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", AFTERWARDS, *map(str, words)],
        capture_output=True, text=True, timeout=300, check=True, env=clean | environment,
    )  # fmt: skip
    modules, threads = json.loads(done.stdout.splitlines()[-1])
    return set(modules), threads


def test_optimizing_loads_no_library_that_it_does_not_use(model: Path) -> None:
    modules, threads = run("optimize", model, "-o", model.with_name("out.onnx"), "--target", "analytic", "-q")
    assert "egraph_opt.pipeline.run" in modules
    for unused in ("sympy.core", "onnx_shape_inference", "matplotlib", "z3", "jinja2", "egraph_opt.compare",
                   "egraph_opt.zoo", "egraph_opt.runtime.cuda.executor", "egraph_opt.runtime.ort_cpu"):  # fmt: skip
        assert unused not in modules
    assert threads == "1"


def test_the_environment_of_the_user_decides_about_threads(model: Path) -> None:
    assert run("verify", model, model, OPENBLAS_NUM_THREADS="3")[1] == "3"


def test_a_library_that_is_loaded_when_needed_is_whole() -> None:
    code = """
from egraph_opt.startup import quick_start
quick_start()
import sys, onnx_ir
assert "sympy.core" not in sys.modules
assert str(onnx_ir.SymbolicDim("N") + 1) == "N + 1"
assert "sympy.core" in sys.modules
from sympy.core.symbol import Symbol
import sympy
assert sympy.Symbol is Symbol
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_each_command_is_there_with_and_without_the_others() -> None:
    every = program()
    names = {c.name for c in every.registered_commands} | {g.name for g in every.registered_groups}
    assert names == set(COMMANDS)
    for name in COMMANDS:
        one = program([name, "--help"])
        assert [c.name for c in one.registered_commands] + [g.name for g in one.registered_groups] == [name]


def test_the_package_is_the_command_too(tmp_path: Path) -> None:
    def out(*words: str) -> str:
        return subprocess.run(words, capture_output=True, text=True, timeout=300, check=True, cwd=tmp_path).stdout

    assert out(sys.executable, "-m", "egraph_opt", "--help").startswith("Usage: ")
    tried = ("axioms", "validate", "add-commutative", "mul-commutative", "--sample", "2", "--jobs", "2")
    assert "2 axioms: " in out(sys.executable, "-m", "egraph_opt", *tried)  # in processes that are spawned
