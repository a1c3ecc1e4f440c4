"""Inputs and outputs without a type or a shape: ONNX's checker wants both, runtimes do not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from egraph_opt.errors import InvalidModelError
from egraph_opt.onnx_io import export_model, import_model, load_model, save_model, to_ir
from egraph_opt.onnx_io.checker import complaint

TENSOR = helper.make_tensor_value_info
BARE = {
    "no shape": TENSOR("y", TensorProto.FLOAT, None),
    "no type": onnx.ValueInfoProto(name="y"),
}


def _model(output: onnx.ValueInfoProto, x: onnx.ValueInfoProto | None = None, op: str = "Relu") -> onnx.ModelProto:
    nodes = [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node(op, ["a"], ["y"])]
    weights = numpy_helper.from_array(np.arange(300, dtype=np.float32), "w")
    inputs = [x or TENSOR("x", TensorProto.FLOAT, ["N", 300])]
    graph = helper.make_graph(nodes, "g", inputs, [output], [weights])
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("kind", BARE)
def test_an_output_stays_as_it_is_declared(kind: str, external: bool, tmp_path: Path, tools: Any) -> None:
    model = _model(BARE[kind])
    path = tmp_path / "m.onnx"
    onnx.save_model(_model(BARE[kind]), str(path), save_as_external_data=external, size_threshold=0, location="w.bin")
    for given in (load_model(path), to_ir(model)):
        imported = import_model(given)
        save_model(export_model(imported, imported.graph), tmp_path / "out.onnx")
        after = onnx.load(str(tmp_path / "out.onnx"))
        assert list(after.graph.output) == [BARE[kind]]
        x = {"x": np.ones((2, 300), np.float32)}
        np.testing.assert_array_equal(tools.run(after, x)[0], tools.run(model, x)[0])


def test_an_input_of_unknown_rank(tools: Any) -> None:
    model = _model(BARE["no shape"], TENSOR("x", TensorProto.FLOAT, None))
    imported = import_model(to_ir(model))
    after = onnx_ir.to_proto(export_model(imported, imported.graph))
    assert list(after.graph.input) == list(model.graph.input)
    x = {"x": np.ones((2, 3, 300), np.float32)}
    np.testing.assert_array_equal(tools.run(after, x)[0], tools.run(model, x)[0])


@pytest.mark.parametrize("kind", BARE)
def test_the_checker_still_sees_everything_else(kind: str, tmp_path: Path) -> None:
    for model in (_model(BARE[kind], op="Reluu"), _model(BARE[kind])):
        model.graph.node[1].input[0] = "a" if model.graph.node[1].op_type == "Reluu" else "nothing"
        said = model.SerializeToString()
        assert complaint(model)
        assert model.SerializeToString() == said
        (tmp_path / "m.onnx").write_bytes(said)
        for given in (model, tmp_path / "m.onnx"):
            with pytest.raises(InvalidModelError):
                to_ir(given)


def test_a_complaint_is_whole() -> None:
    """The checker writes several lines, of which the first ends with a colon."""
    model = _model(TENSOR("y", TensorProto.FLOAT, ["N", 300]))
    model.graph.node.append(model.graph.node[0])
    del model.graph.node[0]
    said = complaint(model)
    assert said is not None
    assert "is not output of any previous nodes" in said
    assert "\n" not in said


def test_inference_still_sees_a_wrong_shape() -> None:
    model = _model(BARE["no shape"])
    model.graph.output.append(TENSOR("a", TensorProto.FLOAT, ["N", 7]))
    assert complaint(model) is None
    assert "300" in (complaint(model, full=True) or "")


@pytest.mark.parametrize("fault", ["missing", "cut off", "outside", "link"])
def test_external_data_is_still_checked(fault: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path, weights = folder / "m.onnx", folder / "w.bin"
    onnx.save_model(_model(BARE["no shape"]), str(path), save_as_external_data=True, size_threshold=0, location="w.bin")
    (tmp_path / "w.bin").write_bytes(weights.read_bytes())
    match fault:
        case "missing":
            weights.unlink()
        case "cut off":
            os.truncate(weights, 7)
        case "link":
            weights.unlink()
            weights.symlink_to(tmp_path / "w.bin")
        case _:
            model = onnx.load(str(path), load_external_data=False)
            next(e for e in model.graph.initializer[0].external_data if e.key == "location").value = "../w.bin"
            path.write_bytes(model.SerializeToString())
    with pytest.raises(InvalidModelError, match=r"w\.bin"):
        load_model(path)
