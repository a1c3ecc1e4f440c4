"""Attention that is spelled out becomes one operator, whatever scales and masks it; what is no such thing does not."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import egraph_opt
from egraph_opt.ir import Constant, TensorGraph

LOWEST = float(np.finfo(np.float32).min)
SCALES = {"": "s = Identity(p)", "times": "s = Mul(p, f)", "over": "s = Div(p, f)"}
LENGTH, HEADS, SIZE = 5, 2, 3


def causal(above: float, length: int = LENGTH, rank: int = 4) -> np.ndarray:
    return np.triu(np.full((1,) * (rank - 2) + (length, length), above, np.float32), 1)


def model_of(
    scale: str = "times",
    mask: np.ndarray | None = None,
    *,
    factor: float = 0.5,
    groups: int = HEADS,
    batch: int | str = 2,
    keys: int = LENGTH,
) -> onnx.ModelProto:
    """Heads cut out of the last axis; ``groups`` of keys and values, each written out for the heads that share it."""
    many = "k4 = Transpose <perm=[0,2,3,1]> (k1) v3 = Transpose <perm=[0,2,1,3]> (v1)"
    if groups != HEADS:
        again = " ".join(f"{x}a = Unsqueeze({x}2, two) {x}b = Expand({x}a, e) {x}3 = Reshape({x}b, c)" for x in "kv")
        turned = "k2 = Transpose <perm=[0,2,1,3]> (k1) v2 = Transpose <perm=[0,2,1,3]> (v1)"
        many = f"{turned} {again} k4 = Transpose <perm=[0,1,3,2]> (k3)"
    scores = SCALES[scale] + (" t = Add(s, m)" if mask is not None else " t = Identity(s)")
    body = f"""
        q1 = Reshape(q, a) k1 = Reshape(k, b) v1 = Reshape(v, b)
        q3 = Transpose <perm=[0,2,1,3]> (q1) {many}
        p = MatMul(q3, k4) {scores}
        w = Softmax <axis=-1> (t) o = MatMul(w, v3)
        o1 = Transpose <perm=[0,2,1,3]> (o) y = Reshape(o1, d)"""
    wide, narrow = HEADS * SIZE, groups * SIZE
    inputs = f"float[{batch},{LENGTH},{wide}] q, float[{batch},{keys},{narrow}] k, float[{batch},{keys},{narrow}] v"
    output = f"float[{batch},{LENGTH},{wide}] y"
    text = f'<ir_version: 9, opset_import: ["" : 20]> g ({inputs}) => ({output}) {{ {body} }}'
    made = onnx.parser.parse_model(text)
    numbers: dict[str, object] = {
        "a": [0, LENGTH, HEADS, SIZE],
        "b": [0, keys, groups, SIZE],
        "c": [batch, HEADS, keys, SIZE],
        "d": [0, LENGTH, wide],
        "e": [batch, groups, HEADS // groups, keys, SIZE],
        "two": [2],
        "f": np.float32(factor),
        "m": mask,
    }
    used = {i for n in made.graph.node for i in n.input}
    for name in used & numbers.keys():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(numbers[name]), name))
    onnx.checker.check_model(made, full_check=True)
    return made


def attention_of(model: onnx.ModelProto) -> dict[str, object] | None:
    """The attributes of the one attention that is left of a model, if it is; the values of both are compared."""
    result = egraph_opt.optimize(model, target="analytic").model
    assert isinstance(result, onnx.ModelProto)
    rng = np.random.default_rng(0)
    shapes = [[d.dim_value or 2 for d in i.type.tensor_type.shape.dim] for i in model.graph.input]
    feeds = {i.name: rng.normal(size=s).astype(np.float32) for i, s in zip(model.graph.input, shapes, strict=True)}
    before, after = (
        ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for m in (model, result)
    )
    np.testing.assert_allclose(np.asarray(after), np.asarray(before), rtol=1e-4, atol=1e-5)
    found = [n for n in result.graph.node if n.op_type == "Attention"]
    assert len(found) <= 1
    assert not found or "Softmax" not in {n.op_type for n in result.graph.node}
    return {a.name: helper.get_attribute_value(a) for a in found[0].attribute} if found else None


@pytest.mark.parametrize(("scale", "number"), [("", 1.0), ("times", 0.5), ("over", 2.0)])
@pytest.mark.parametrize("mask", [None, causal(LOWEST), causal(-np.inf), causal(-1e30, rank=2)])
def test_scales_and_masks_become_attributes(scale: str, number: float, mask: np.ndarray | None) -> None:
    found = attention_of(model_of(scale, mask))
    assert found is not None
    assert found.get("scale") == number
    assert found.get("is_causal", 0) == int(mask is not None)
    assert found.get("q_num_heads") == found.get("kv_num_heads") == HEADS


def test_the_batch_may_be_of_any_size() -> None:
    assert attention_of(model_of(batch="n")) is not None


def test_there_may_be_more_keys_than_queries() -> None:
    assert attention_of(model_of(keys=LENGTH + 2)) is not None


@pytest.mark.parametrize("mask", [None, causal(LOWEST)])
def test_heads_of_keys_that_are_written_out_are_shared(mask: np.ndarray | None) -> None:
    found = attention_of(model_of(mask=mask, groups=1))
    assert found is not None
    assert found.get("is_causal", 0) == int(mask is not None)


@pytest.mark.parametrize(
    "mask",
    [
        causal(-1e4),  # scores may be as low
        causal(5.0),
        causal(LOWEST).swapaxes(2, 3),  # looks ahead
        np.triu(causal(LOWEST), 2),
        np.full((1, 1, LENGTH, LENGTH), LOWEST, np.float32),  # ONNX Runtime gives zeros where nothing is let through
        np.concatenate([causal(LOWEST), causal(LOWEST) / 2], axis=1),
        np.random.default_rng(0).normal(size=(1, 1, LENGTH, LENGTH)).astype(np.float32),
    ],
)
def test_other_masks_stay_what_they_are(mask: np.ndarray) -> None:
    assert attention_of(model_of(mask=mask)) is None


@pytest.mark.parametrize("factor", [-0.5, 0.0])
def test_a_scale_has_a_root(factor: float) -> None:
    assert attention_of(model_of(factor=factor)) is None


@pytest.mark.parametrize(
    ("array", "number"),
    [
        (causal(-2.0), -2.0),
        (causal(-np.inf, rank=2), -np.inf),
        (causal(-2.0, length=1), None),
        (np.zeros((3, 3), np.float32), None),
        (np.tril(np.full((3, 3), -2.0, np.float32), -1), None),
        (-np.abs(causal(-2.0)), None),  # zeros of the other sign
        (np.stack([causal(-2.0, rank=2)] * 2), None),
        (causal(-2.0)[..., :-1], None),
        (causal(np.nan), None),
        (causal(-2.0).astype(np.int64), None),
    ],
)
def test_a_triangle_is_one_number_above_zeros(array: np.ndarray, number: float | None) -> None:
    graph = TensorGraph()
    found = graph.triangle(graph.constant(Constant.of(array)))
    assert found == number
