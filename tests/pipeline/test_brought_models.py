"""Models as people bring them: what ONNX allows and few tools expect, through the whole pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import egraph_opt
from egraph_opt import Outcome

FLOAT = TensorProto.FLOAT
X = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
TWICE = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) y = Relu(a) }"


def _agree(after: onnx.ModelProto, before: onnx.ModelProto, feeds: dict[str, Any], tools: Any) -> None:
    for new, old in zip(tools.run(after, feeds), tools.run(before, feeds), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-6)


# --- interfaces


@pytest.mark.parametrize("kind", ["shape", "type"])
def test_an_output_without_its_shape_or_type(kind: str, tools: Any) -> None:
    model = tools.parse(TWICE)
    bare = model.graph.output[0]
    bare.type.tensor_type.ClearField("shape") if kind == "shape" else bare.ClearField("type")
    result = tools.optimize(model)
    assert result.report.outcome == Outcome.OPTIMIZED, result.report.reason
    assert list(result.model.graph.output) == list(model.graph.output)
    assert "onnx.checker rejects the original too" not in str(result.report.verdict)
    _agree(result.model, model, {"x": X}, tools)


def test_an_input_without_a_shape(tools: Any) -> None:
    model = tools.parse(
        "g (float[N,4] x, float[N,4] z) => (float[N,4] y)"
        " { a = Relu(x) b = Relu(a) c = Relu(z) d = Relu(c) y = Add(b, d) }"
    )
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    refused = tools.optimize(model)
    assert refused.report.outcome == Outcome.REJECTED
    assert "--shape x:" in refused.report.reason
    for options in ({"shapes": {"x": (2, 4)}}, {"verify_inputs": {"x": X, "z": X}}):
        result = tools.optimize(model, **options)
        assert result.report.outcome == Outcome.OPTIMIZED, result.report.reason
        _agree(result.model, model, {"x": X, "z": X}, tools)


def test_one_value_is_two_outputs(tools: Any) -> None:
    model = tools.parse(TWICE)
    model.graph.output.append(model.graph.output[0])
    result = tools.optimize(model)
    assert result.report.outcome == Outcome.OPTIMIZED
    assert list(result.model.graph.output) == list(model.graph.output)
    _agree(result.model, model, {"x": X}, tools)


def test_what_is_said_of_inputs_and_outputs_stays(tools: Any) -> None:
    model = tools.parse(TWICE)
    for value in (*model.graph.input, *model.graph.output):
        value.doc_string = f"about {value.name}"
        value.metadata_props.add(key="k", value="v")
        value.type.denotation = "TENSOR"
        value.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
        annotation = model.graph.quantization_annotation.add(tensor_name=value.name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    for options in ({}, {"shapes": {"x": (3, 4)}}):
        result = tools.optimize(model, **options)
        assert result.changed
        wanted = onnx.ModelProto()
        wanted.CopyFrom(model)
        if options:
            wanted.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
        assert list(result.model.graph.input) == list(wanted.graph.input)
        assert list(result.model.graph.output) == list(wanted.graph.output)
        assert list(result.model.graph.quantization_annotation) == list(model.graph.quantization_annotation)


# --- what cannot be compared: the original stays, and the reason says why


@pytest.mark.parametrize("measure", [False, True])
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("g (float[N,4] x) => (float[N,4] y) { a = Relu(x) b = Relu(a) y = nowhere.Magic(b) }", "Magic"),
        ("g (double[N,2,4] x) => (double[N,2,4] y) <double[2,2,1] w={1,2,3,4}>"
         " { a = Relu(x) b = Relu(a) y = Conv(b, w) }", "Conv"),
        ("g (optional(float[2]) o, float[2] x) => (bool h, float[2] y)"
         " { h = OptionalHasElement(o) a = Relu(x) y = Relu(a) }", "optional"),
        ("g (seq(float[2]) s, float[2] x) => (int64 n, float[2] y)"
         " { n = SequenceLength(s) a = Relu(x) y = Relu(a) }", "sequence"),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_run_here(text: str, word: str, measure: bool, tools: Any) -> None:
    model = tools.parse(text, opset=18, domains=', "nowhere" : 1')
    result = tools.optimize(model, target="ort-cpu" if measure else "analytic", measure=measure)
    assert result.report.outcome == Outcome.REJECTED
    assert not result.verified
    assert word in result.report.reason
    assert result.model == onnx_ir.to_proto(onnx_ir.from_proto(model))  # the same, as that library writes it


def test_kinds_of_value_that_are_not_read(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", FLOAT, ["N", 3])
    maps = helper.make_sequence_type_proto(
        helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, []))
    )
    zipped = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])
    places = helper.make_tensor("p", TensorProto.INT64, [2], [1, 5])
    sparse = helper.make_sparse_tensor(helper.make_tensor("v", FLOAT, [2], [1.0, 2.0]), places, [3, 3])
    constant = helper.make_node("Constant", [], ["w"], sparse_value=sparse)
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    y = helper.make_tensor_value_info("y", FLOAT, ["N", 3])
    imports = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 3)]
    for nodes, output, word in (
        ([zipped], helper.make_value_info("y", maps), "'zipmap': False"),
        ([constant, product], y, "sparse"),
    ):
        model = helper.make_model(helper.make_graph(nodes, "g", [x], [output]), ir_version=8, opset_imports=imports)
        onnx.checker.check_model(model)
        onnx.save(model, str(tmp_path / "m.onnx"))
        for given in (model, tmp_path / "m.onnx"):
            with pytest.raises(egraph_opt.InvalidModelError, match=word) as caught:
                egraph_opt.optimize(given)
            assert "\n" not in str(caught.value)


# --- rounding is not a wrong rule


def test_no_rule_is_blamed_for_rounding_that_the_runtime_adds(tools: Any) -> None:
    """ONNX Runtime computes a product with 4-bit weights coarsely where one activation follows, and exactly where two
    do: a candidate with one is refused, and nobody is to blame."""
    weights = helper.make_tensor("w", TensorProto.INT4, [8, 4], np.random.default_rng(0).integers(-8, 8, 32).tolist())
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, FLOAT, ["N", k]) for n, k in (("x", 8), ("y", 4)))
    scale = numpy_helper.from_array(np.array(0.1, np.float32), "s")
    graph = helper.make_graph(nodes, "g", [x], [y], [weights, scale])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    report = tools.optimize(model).report
    assert not any("please report this" in note for note in report.notes), report.notes
    if report.outcome == Outcome.REJECTED:
        assert any("rounds otherwise" in note for note in report.notes), report.notes
