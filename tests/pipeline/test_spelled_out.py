"""Operators that are spelled out become one node, with the attributes that the numbers of the graph say."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

import egraph_opt


def optimized(
    inputs: str, body: str, numbers: dict[str, object], *, opset: int = 20, dtype: str = "float32"
) -> onnx.ModelProto:
    text = f'<ir_version: 9, opset_import: ["" : {opset}]> g ({inputs}) => (float[n] y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    for name, value in numbers.items():
        array = np.asarray(value)
        array = array.astype(dtype) if array.dtype.kind == "f" else array
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    model.graph.output[0].ClearField("type")
    model.graph.output[0].CopyFrom(onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output[0])
    result = egraph_opt.optimize(model, target="analytic")
    assert isinstance(result.model, onnx.ModelProto)
    return result.model


def kinds(model: onnx.ModelProto) -> list[str]:
    return sorted(node.op_type for node in model.graph.node)


def attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def norm(axes: list[int], epsilon: object, square: str, quotient: str) -> tuple[str, dict[str, object]]:
    body = f"m = ReduceMean(x, axes) d = Sub(x, m) q = {square} v = ReduceMean(q, axes) e = Add(small, v) {quotient} "
    rng = np.random.default_rng(0)
    shape = (6, 8)[-len(axes) :]
    return body + "k = Mul(n, s) y = Add(k, b)", {
        "axes": axes,
        "small": epsilon,
        "two": 2.0,
        "half": 0.5,
        "s": rng.normal(size=shape),
        "b": rng.normal(size=shape),
    }


@pytest.mark.parametrize("epsilon", [1e-5, 1e-6, 1e-12, 0.125, [1e-3], [[[1e-3]]]])
@pytest.mark.parametrize(("square", "quotient"), [
    ("Mul(d, d)", "r = Sqrt(e) n = Div(d, r)"),
    ("Pow(d, two)", "r = Pow(e, half) i = Reciprocal(r) n = Mul(i, d)"),
])  # fmt: skip
def test_layer_normalization_takes_any_epsilon(epsilon: object, square: str, quotient: str) -> None:
    model = optimized("float[2,6,8] x", *norm([-1], epsilon, square, quotient))
    assert kinds(model) == ["LayerNormalization"]
    found = attributes(model.graph.node[0])
    assert found["epsilon"] == np.float32(np.asarray(epsilon).ravel()[0])


@pytest.mark.parametrize("epsilon", [1e-3, 1e-5, 0.125])
@pytest.mark.parametrize("centred", [True, False])
def test_attributes_have_32_bits_and_float64_has_more(epsilon: float, centred: bool) -> None:
    body, numbers = norm([-1], epsilon, "Mul(d, d)", "r = Sqrt(e) n = Div(d, r)")
    body = body if centred else body.replace("d = Sub(x, m)", "d = Identity(x)")
    model = optimized("double[2,6,8] x", body, numbers, dtype="float64")
    wanted = "LayerNormalization" if centred else "RMSNormalization"
    exact = float(np.float32(epsilon)) == epsilon
    assert (wanted in kinds(model)) == exact
    assert exact or "Sqrt" in kinds(model)


def test_layer_normalization_over_several_axes() -> None:
    model = optimized("float[2,6,8] x", *norm([1, 2], 1e-5, "Mul(d, d)", "r = Sqrt(e) n = Div(d, r)"))
    assert kinds(model) == ["LayerNormalization"]
    assert attributes(model.graph.node[0])["axis"] in (1, -2)


@pytest.mark.parametrize("axes", [[1], [0, 2]])
def test_means_over_other_axes_are_no_layer_normalization(axes: list[int]) -> None:
    body, numbers = norm([-1], 1e-5, "Mul(d, d)", "r = Sqrt(e) n = Div(d, r)")
    assert "LayerNormalization" not in kinds(optimized("float[2,6,8] x", body, numbers | {"axes": axes}))


def test_an_epsilon_that_varies_is_no_epsilon() -> None:
    body, numbers = norm([-1], np.linspace(1e-5, 1e-3, 6)[:, None], "Mul(d, d)", "r = Sqrt(e) n = Div(d, r)")
    assert "LayerNormalization" not in kinds(optimized("float[2,6,8] x", body, numbers))


def test_softmax_is_put_together_on_its_axis() -> None:
    body = "m = ReduceMax(x, axes) d = Sub(x, m) e = Exp(d) t = ReduceSum(e, axes) y = Div(e, t)"
    model = optimized("float[2,6,8] x", body, {"axes": [1]})
    assert kinds(model) == ["Softmax"]
    assert attributes(model.graph.node[0])["axis"] in (1, -2)


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-2.5, 0.75)])
def test_bounds_become_one_clip(low: float, high: float) -> None:
    model = optimized("float[2,6,8] x", "a = Max(low, x) y = Min(a, high)", {"low": low, "high": high})
    assert kinds(model) == ["Clip"]
    bounds = {i.name: float(numpy_helper.to_array(i)) for i in model.graph.initializer}
    assert [bounds[name] for name in model.graph.node[0].input[1:]] == [low, high]


def test_a_bound_that_broadcasts_x_is_no_clip() -> None:
    model = optimized("float[1,8] x", "a = Max(low, x) y = Min(a, high)", {"low": np.zeros((3, 8)), "high": 6.0})
    assert "Max" in kinds(model)


def test_nodes_that_repeat_others_are_left_out() -> None:
    model = optimized("float[2,6,8] x", "a = Tanh(x) c = Tanh(x) y = Add(a, c)", {})
    assert kinds(model) == ["Add", "Tanh"]


@pytest.mark.parametrize(
    ("first", "second", "left"), [(11, 1, []), (10, 1, ["Cast", "Cast"]), (6, 1, ["Cast", "Cast"])]
)
def test_casts_cancel_where_they_are_exact(first: int, second: int, left: list[str]) -> None:
    body = f"a = Cast<to = {first}>(x) c = Cast<to = {second}>(a) y = Relu(c)"
    assert [k for k in kinds(optimized("float[2,6,8] x", body, {})) if k == "Cast"] == left


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_reduction_of_one_element_is_none(op: str, keepdims: int) -> None:
    left = kinds(optimized("float[n,1,8] x", f"r = {op} <keepdims = {keepdims}> (x, axes) y = Relu(r)", {"axes": [1]}))
    assert "Relu" in left
    assert op not in left
    whole = optimized("float[n,2,8] x", f"y = {op} <keepdims = {keepdims}> (x, axes)", {"axes": [1]})
    assert kinds(whole) == [op]


@pytest.mark.parametrize("place", [0, 2, [0], [1]])
def test_a_place_that_stays_an_axis_is_a_slice(place: object) -> None:
    body = "g = Gather <axis = 1> (x, i) y = Reshape(g, shape)"
    assert kinds(optimized("float[2,3,8] x", body, {"i": np.array(place), "shape": [2, 1, 8]})) == ["Slice"]


def test_two_places_are_no_slice() -> None:
    assert kinds(optimized("float[2,3,8] x", "y = Gather <axis = 1> (x, i)", {"i": [0, 0]})) == ["Gather"]
