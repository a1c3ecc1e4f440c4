"""Folders of small models, runs over them, and the module of jobs that goes to their processes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from egraph_opt.zoo import Batch, Journal, Record, discover, enter_round, latest, read_records

TEXTS = {
    "relu": "g (float[4,4] x) => (float[4,4] y) { a = Relu(x) y = Relu(a) }",
    "deep/transpose": "g (float[3,4] x) => (float[3,4] y)"
    " { a = Transpose<perm=[1,0]>(x) b = Transpose<perm=[1,0]>(a) y = Exp(b) }",
    "deep/deeper/nothing": "g (float[4] x) => (float[4] y) { y = Exp(x) }",
    "scale": "g (float[N,4] x) => (float[N,4] y) <float one = {1}> { a = Relu(x) b = Mul(a, one) y = Exp(b) }",
}
Run = Callable[..., dict[str, Record]]


@pytest.fixture(scope="session")
def jobs() -> ModuleType:
    """``jobs.py``, importable by that name here and in the processes that are started from here."""
    here = str(Path(__file__).parent)
    sys.path.insert(0, here)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    return importlib.import_module("jobs")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Does a round over a folder and returns the records that count; ``settings`` are those of the run."""

    def run(
        folder: Path,
        job: Any,
        settings: Mapping[str, Any] | None = None,
        *,
        jobs: int = 1,
        out: str = "run",
        **how: Any,
    ) -> dict[str, Record]:
        with Journal(tmp_path / out) as journal:
            enter_round(journal, folder, settings or {}, **how)
            Batch(journal, jobs, job).run(discover(folder))
        return latest(read_records(tmp_path / out))

    return run


def parse(text: str) -> onnx.ModelProto:
    """A model from ONNX text without its header."""
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A zoo of four models, three with something to gain."""
    for name, text in TEXTS.items():
        path = tmp_path / "zoo" / f"{name}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(parse(text).SerializeToString())
    return tmp_path / "zoo"


@pytest.fixture
def endless_model() -> onnx.ModelProto:
    """A loop that ends after 2^62 rounds, and a useless Relu, so that there is something to verify."""
    body = parse("b (int64 i, bool c, float[4] v) => (bool d, float[4] w) { d = Identity(c) w = Neg(v) }").graph
    loop = helper.make_node("Loop", ["rounds", "", "b"], ["z"], body=body)
    return _wrapped([loop], [numpy_helper.from_array(np.array(2**62), "rounds")])


@pytest.fixture
def greedy_model() -> onnx.ModelProto:
    """A tensor of 2 GB whose size is only known while the model runs, and a useless Relu."""
    nodes = [
        helper.make_node("ReduceMax", ["b"], ["m"], keepdims=1),
        helper.make_node("Clip", ["m", "low", "high"], ["n"]),
        helper.make_node("Cast", ["n"], ["shape"], to=onnx.TensorProto.INT64),
        helper.make_node("ConstantOfShape", ["shape"], ["large"]),
        helper.make_node("ReduceSum", ["large"], ["s"], keepdims=0),
        helper.make_node("Add", ["b", "s"], ["z"]),
    ]
    limit = np.array(2.0**29, np.float32)
    return _wrapped(nodes, [numpy_helper.from_array(limit, "low"), numpy_helper.from_array(limit, "high")])


def _wrapped(nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> onnx.ModelProto:
    first = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    x, z = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4]) for n in ("x", "z"))
    graph = helper.make_graph([*first, *nodes], "g", [x], [z], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
