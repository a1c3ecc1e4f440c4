"""Annotations of quantization: of values that stay, with the tensors that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx_ir
import pytest

from egraph_opt import Outcome
from egraph_opt.onnx_io import load_model, save_model

Annotations = dict[str, dict[str, str]]
BOTH = {"SCALE_TENSOR": "s", "ZERO_POINT_TENSOR": "z"}


def annotate(graph: onnx.GraphProto, wanted: Annotations) -> None:
    for name, tensors in wanted.items():
        annotation = graph.quantization_annotation.add(tensor_name=name)
        for key, value in tensors.items():
            annotation.quant_parameter_tensor_names.add(key=key, value=value)


def said(graph: onnx.GraphProto) -> Annotations:
    return {
        a.tensor_name: {e.key: e.value for e in a.quant_parameter_tensor_names} for a in graph.quantization_annotation
    }


def stored(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    return {t.name: t for t in model.graph.initializer}


def optimized(model: onnx.ModelProto, tools: Any) -> tuple[onnx.ModelProto, list[str]]:
    """What came of a model of which something is left out, and notes on annotations."""
    result = tools.optimize(model)
    assert result.report.outcome == Outcome.OPTIMIZED, result.report.reason
    onnx.checker.check_model(result.model, full_check=True)
    return result.model, [note for note in result.report.notes if "annotations" in note]


QDQ = """g (float[2,4] x) => (float[2,4] y) <float s={0.5}, uint8 z={3}> {
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    a = Relu (d)
    b = Relu (a)
    y = Sigmoid (b)
}"""
PLAIN = """g (float[2,4] x) => (float[2,4] y) <float s={0.5}, uint8 z={3}, float[4] w={1,2,3,4}> {
    h = Add (x, w)
    a = Tanh (h)
    b = Relu (a)
    c = Relu (b)
    y = Sigmoid (c)
}"""


def test_values_that_stay_keep_theirs(tools: Any) -> None:
    model = tools.parse(QDQ)
    annotate(model.graph, {"q": BOTH, "d": BOTH, "s": {"SCALE_TENSOR": "s"}})
    made, notes = optimized(model, tools)
    assert said(made.graph) == said(model.graph)
    assert not notes


def test_tensors_that_only_annotations_name_stay(tools: Any, tmp_path: Path) -> None:
    model = tools.parse(PLAIN)
    wanted = {"h": BOTH, "a": {"SCALE_TENSOR": "s"}, "w": {"SCALE_TENSOR": "s"}, "x": BOTH, "y": BOTH}
    annotate(model.graph, wanted)
    made, notes = optimized(model, tools)
    assert said(made.graph) == wanted
    assert not notes
    for name in "sz":
        before, after = (onnx.numpy_helper.to_array(stored(m)[name]) for m in (model, made))
        assert (before.dtype, before.shape, before.tobytes()) == (after.dtype, after.shape, after.tobytes())
    save_model(onnx_ir.from_proto(made), tmp_path / "m.onnx")  # files are written another way
    written = onnx_ir.to_proto(load_model(tmp_path / "m.onnx"))
    assert said(written.graph) == wanted
    assert stored(written).keys() == stored(made).keys()


def test_without_annotations_nothing_more_is_stored(tools: Any) -> None:
    made, _ = optimized(tools.parse(PLAIN), tools)
    assert stored(made).keys() == {"w"}


def test_equal_tensors_keep_both_their_names(tools: Any) -> None:
    """They are one constant to the optimizer."""
    model = tools.parse(PLAIN.replace("float s={0.5}", "float s={0.5}, float t={0.5}"))
    wanted = {"h": {"SCALE_TENSOR": "s"}, "a": {"SCALE_TENSOR": "t"}}
    annotate(model.graph, wanted)
    made, _ = optimized(model, tools)
    assert said(made.graph) == wanted
    assert {"s", "t"} <= stored(made).keys()


@pytest.mark.parametrize("gone", ["value", "tensor"])
def test_what_is_left_out_is_said(gone: str, tools: Any) -> None:
    """Of two values that are the same, one stays; a scale that is computed is none where nothing computes it."""
    body = "c = Relu (b)" if gone == "value" else "c = Relu (b) n = Neg (s) k = Neg (n)"
    model = tools.parse(PLAIN.replace("c = Relu (b)", body))
    annotate(model.graph, {"a": BOTH, **({"b": BOTH, "c": BOTH} if gone == "value" else {"h": {"SCALE_TENSOR": "n"}})})
    made, (note,) = optimized(model, tools)
    values = {name for node in made.graph.node for name in node.output}
    assert said(made.graph) == {name: BOTH for name in "abc" if name in values and name in said(model.graph)}
    assert "a" in said(made.graph)
    lost = said(model.graph).keys() - said(made.graph).keys()
    assert len(lost) == 1
    assert f"of {len(lost)} values" in note
    assert note.endswith(f": {lost.pop()}")


def test_nothing_new_is_called_as_a_tensor_that_annotations_name(tools: Any) -> None:
    """The sum of two constants is a new one, and gets a name that a model made here may have had for another."""
    text = PLAIN.replace("float[4] w={1,2,3,4}", "float[4] w={1,2,3,4}, float[4] v={1,3,5,8}")
    text = text.replace("h = Add (x, w)", "g = Add (x, w) h = Add (g, v)")
    plain, _ = optimized(tools.parse(text), tools)
    (name,) = stored(plain).keys()
    model = tools.parse(text)
    annotate(model.graph, {"a": {"SCALE_TENSOR": name}})
    made, _ = optimized(model, tools)
    assert said(made.graph) == said(model.graph)
    assert len(stored(made)) == 1
    assert name not in stored(made)


BODY = """g (float[2,4] x, bool p) => (float[2,4] y) <float s={0.5}, uint8 z={3}> {
    y = If (p) <
        then_branch = t () => (float[2,4] t3) <float r={0.25}>
            { t1 = Tanh (x) t2 = Relu (t1) t4 = Relu (t2) t3 = Tanh (t4) },
        else_branch = e () => (float[2,4] e3) { e1 = Relu (x) e2 = Relu (e1) e3 = Sigmoid (e2) }
    >
}"""


def test_bodies_keep_theirs_too(tools: Any) -> None:
    model = tools.parse(BODY)
    then, other = (attribute.g for attribute in model.graph.node[0].attribute)
    annotate(then, {"t1": {"SCALE_TENSOR": "r"}})
    annotate(other, {"e1": {"SCALE_TENSOR": "s"}})  # of the graph around it, where nothing needs it
    made, (note,) = optimized(model, tools)
    graphs = {attribute.name: attribute.g for attribute in made.graph.node[-1].attribute}
    assert said(graphs["then_branch"]) == {"t1": {"SCALE_TENSOR": "r"}}
    assert [t.name for t in graphs["then_branch"].initializer] == ["r"]
    assert said(graphs["else_branch"]) == {}
    assert note.endswith(": e1")
