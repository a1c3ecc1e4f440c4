"""Model-local functions are replaced by what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

X = np.array([-1.5, 2.0], np.float32)
HEADER = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> '

MODELS = {
    "called twice, with values of equal names": (
        "g (float[2] x) => (float[2] y) { a = Relu(x) t = local.half(a) b = local.half(t) y = Add(b, t) }"
        ' <opset_import: ["" : 17], domain: "local"> half (x) => (y)'
        " { t = Constant<value_float=0.5>() a = Mul(x, t) y = Identity(a) }"
    ),
    "an attribute and its default": (
        "g (float[2] x) => (float[2] y) { a = local.leak<alpha=0.5>(x) b = local.leak(x) y = Add(a, b) }"
        ' <opset_import: ["" : 17], domain: "local"> leak <alpha: float=0.25>(x) => (y)'
        " { y = LeakyRelu<alpha: float = @alpha>(x) }"
    ),
    "one calls another": (
        "g (float[2] x) => (float[2] y) { y = local.outer(x) }"
        ' <opset_import: ["" : 17, "local" : 1], domain: "local"> outer (x) => (y)'
        " { a = local.inner(x) y = local.inner(a) }"
        ' <opset_import: ["" : 17], domain: "local"> inner (x) => (y) { y = Exp(x) }'
    ),
    "its result is the output of the model": (
        "g (float[2] x) => (float[2] y, float[2] z) { y = local.f(x) z = local.f(y) }"
        ' <opset_import: ["" : 17], domain: "local"> f (x) => (z) { z = Abs(x) }'
    ),
    "another opset, same meaning": (
        "g (float[2] x) => (float[2] y) { y = local.f(x) }"
        ' <opset_import: ["" : 15], domain: "local"> f (x) => (z) { z = Sigmoid(x) }'
    ),
    "an If inside that takes what is computed inside": (
        "g (float[2] x, bool c) => (float[2] y) { y = local.f(x, c) }"
        ' <opset_import: ["" : 17], domain: "local"> f (x, c) => (z) { a = Abs(x) z = If(c) <'
        "then_branch = t () => (float[2] u) { u = Exp(a) }, else_branch = e () => (float[2] v) { v = Neg(a) }> }"
    ),
    "called in a branch": (
        "g (float[2] x, bool c) => (float[2] y) { a = Abs(x) y = If(c) <"
        "then_branch = t () => (float[2] u) { u = local.f(a) }, else_branch = e () => (float[2] v) { v = Neg(a) }> }"
        ' <opset_import: ["" : 17], domain: "local"> f (x) => (z) { a = Exp(x) z = Abs(a) }'
    ),
    "an optional input that is left out": (
        "g (float[2] x) => (float[2] y) { y = local.f(x) }"
        ' <opset_import: ["" : 17], domain: "local"> f (x, low) => (z) { z = Clip(x, low) }'
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_function_is_inlined(tools: Any, name: str) -> None:
    model = onnx.parser.parse_model(HEADER + MODELS[name])
    feeds: list[dict[str, Any]] = [{"x": X}]
    if len(model.graph.input) == 2:
        feeds = [{"x": X, "c": True}, {"x": X, "c": False}]
    trip = tools.trip(model, *feeds)
    assert not trip.after.functions
    assert all(node.domain == "" for node in trip.after.graph.node)


def test_a_function_that_means_something_else_in_the_opset_of_the_model_stays(tools: Any) -> None:
    """Softmax of opset 11 flattens; inlined under opset 17 it would be another function."""
    model = onnx.parser.parse_model(
        HEADER + "g (float[2,2,2] x) => (float[2,2,2] y) { y = local.f(x) }"
        ' <opset_import: ["" : 11], domain: "local"> f (x) => (z) { z = Softmax<axis=1>(x) }'
    )
    after = tools.through(model)
    assert [node.op_type for node in after.graph.node] == ["f"]
    assert after.functions[0].opset_import[0].version == 11


def test_an_input_that_is_passed_through_keeps_its_name(tools: Any) -> None:
    """ONNX Runtime refuses such a function; without it there is nothing to refuse."""
    model = onnx.parser.parse_model(
        HEADER + "g (float[2] x) => (float[2] y) { a, b = local.both(x) y = Add(a, b) }"
        ' <opset_import: ["" : 17], domain: "local"> both (x) => (x, z) { z = Abs(x) }'
    )
    after = tools.trip(model).after
    np.testing.assert_array_equal(tools.run(after, {"x": X})[0], X + abs(X))
