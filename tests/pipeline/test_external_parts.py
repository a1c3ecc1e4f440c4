"""External data of what is no weight of the main graph: attributes, subgraphs, functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

import egraph_opt
from egraph_opt import InvalidModelError, Outcome
from egraph_opt.onnx_io import load_model
from egraph_opt.onnx_io.checker import tensors

WEIGHT = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
STORED = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(WEIGHT))
TWICE = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["y"])]


def _attribute() -> onnx.ModelProto:
    return _model([STORED, helper.make_node("MatMul", ["x", "w"], ["a"]), *TWICE])


def _subgraph() -> onnx.ModelProto:
    def branch(name: str, op: str) -> onnx.GraphProto:
        nodes = [
            helper.make_node("MatMul", ["x", name], [f"{name}m"]),
            helper.make_node(op, [f"{name}m"], [f"{name}o"]),
        ]
        out = helper.make_tensor_value_info(f"{name}o", TensorProto.FLOAT, [4, 16])
        return helper.make_graph(nodes, name, [], [out], [numpy_helper.from_array(WEIGHT, name)])

    asked = [helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0), helper.make_node("IsNaN", ["m"], ["c"])]
    chosen = helper.make_node("If", ["c"], ["a"], then_branch=branch("v", "Exp"), else_branch=branch("u", "Neg"))
    return _model([*asked, chosen, *TWICE])


def _function() -> onnx.ModelProto:
    nodes = [STORED, helper.make_node("MatMul", ["x", "w"], ["a"]), *TWICE]
    function = helper.make_function("local", "F", ["x"], ["y"], nodes, [helper.make_opsetid("", 18)])
    return _model([helper.make_node("F", ["x"], ["y"], domain="local")], function)


def _model(nodes: list[onnx.NodeProto], *functions: onnx.FunctionProto) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 16]) for name in "xy")
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y])
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


def _outside(model: onnx.ModelProto, path: Path) -> Path:
    """Writes the model, and what it stores to a file in a folder beside it: that file."""
    data, offset = path.parent / "a folder" / "data.bin", 0
    data.parent.mkdir()
    with data.open("wb") as file:
        for tensor in [t for t in tensors(model) if t.raw_data]:
            set_external_data(tensor, "a folder/data.bin", offset, len(tensor.raw_data))
            offset += file.write(tensor.raw_data)
            tensor.ClearField("raw_data")
    assert offset
    path.write_bytes(model.SerializeToString())
    return data


def _run(model: onnx.ModelProto | Path, x: Any) -> Any:
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


PARTS = pytest.mark.parametrize("build", [_attribute, _subgraph, _function])


@PARTS
def test_the_model_is_verified_and_needs_no_file(build: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
    expected, source = _run(build(), x), tmp_path / "in.onnx"
    data = _outside(build(), source)
    report = egraph_opt.optimize_file(source, tmp_path / "out.onnx", target="analytic", measure=False)
    assert report.outcome == Outcome.OPTIMIZED, report.reason
    data.unlink()
    np.testing.assert_allclose(_run(tmp_path / "out.onnx", x), expected, rtol=1e-5, atol=1e-5)


@PARTS
@pytest.mark.parametrize("fault", ["missing", "short"])
def test_a_file_that_is_missing_or_cut_off_is_named(build: Any, fault: str, tmp_path: Path) -> None:
    data = _outside(build(), tmp_path / "in.onnx")
    if fault == "missing":
        data.unlink()
    else:
        data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(InvalidModelError, match=r"data\.bin"):
        load_model(tmp_path / "in.onnx")
