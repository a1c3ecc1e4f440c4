"""Rotary embeddings that are spelled out become one operator, with angles that are stored or computed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import numpy_helper

import egraph_opt
from egraph_opt.ir import Constant, TensorGraph

LENGTH, HEADS, HALF = 3, 2, 4
DOUBLE = 2 * HALF
TURNED = "p = Slice(x, half, full, last) m = Neg(p) o = Slice(x, zero, half, last) t = Concat <axis = -1> (m, o)"


def angles(seed: int, *, doubled: bool = True) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(1, 1, LENGTH, DOUBLE)).astype(np.float32)
    return np.concatenate([drawn[..., :HALF]] * 2, axis=-1) if doubled else drawn


def model_of(turned: str = TURNED, *, doubled: bool = True, computed: bool = False, batch: int = 1) -> onnx.ModelProto:
    """Heads cut out of the last axis, turned, and put back."""
    inputs = f"float[{batch},{LENGTH},{HEADS * DOUBLE}] h"
    if computed:
        inputs += f", float[1,1,{LENGTH},{HALF}] g"
    given = "u = Cos(g) cos = Concat <axis = 3> (u, u) v = Sin(g) sin = Concat <axis = 3> (v, v)" if computed else ""
    body = f"""{given}
        r = Reshape(h, cut) x = Transpose <perm = [0, 2, 1, 3]> (r) {turned}
        a = Mul(x, cos) b = Mul(t, sin) z = Add(a, b)
        w = Transpose <perm = [0, 2, 1, 3]> (z) y = Reshape(w, flat)"""
    text = f'<ir_version: 9, opset_import: ["" : 20]> g ({inputs}) => (float[{batch},?,?] y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    stored: dict[str, object] = {
        "cut": [0, LENGTH, HEADS, DOUBLE],
        "flat": [0, LENGTH, HEADS * DOUBLE],
        "zero": [0],
        "half": [HALF],
        "full": [DOUBLE],
        "last": [3],
        "cos": angles(0, doubled=doubled),
        "sin": angles(1, doubled=doubled),
    }
    used = {i for n in model.graph.node for i in n.input} - {o for n in model.graph.node for o in n.output}
    for name in used & stored.keys():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(stored[name]), name))
    onnx.checker.check_model(model, full_check=True)
    return model


def kinds(model: onnx.ModelProto) -> set[str]:
    """What is left of a model, which computes what it computed."""
    result = egraph_opt.optimize(model, target="analytic").model
    assert isinstance(result, onnx.ModelProto)
    rng = np.random.default_rng(2)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    feeds = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    before, after = (
        ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for m in (model, result)
    )
    np.testing.assert_allclose(np.asarray(after), np.asarray(before), rtol=1e-5, atol=1e-6)
    return {node.op_type for node in result.graph.node}


def test_stored_angles() -> None:
    assert kinds(model_of()) == {"RotaryEmbedding"}


def test_computed_angles() -> None:
    left = kinds(model_of(computed=True))
    assert "RotaryEmbedding" in left
    assert "Neg" not in left


@pytest.mark.parametrize(
    "turned",
    [
        TURNED.replace("(m, o)", "(o, m)"),
        TURNED.replace("Neg(p)", "Abs(p)"),
        TURNED.replace("zero, half, last", "half, full, last"),
    ],
)
def test_halves_that_are_turned_otherwise(turned: str) -> None:
    assert "RotaryEmbedding" not in kinds(model_of(turned))


def test_angles_of_halves_that_differ() -> None:
    assert "RotaryEmbedding" not in kinds(model_of(doubled=False))


def test_angles_that_all_of_a_batch_share() -> None:
    """The operator wants them for each."""
    assert "RotaryEmbedding" not in kinds(model_of(batch=2))


@pytest.mark.parametrize(
    ("array", "wanted"),
    [
        (angles(0), True),
        (angles(0)[0, 0, 0], False),  # a vector is no such thing
        (angles(0, doubled=False), False),
        (np.zeros((2, 4), np.float32), False),
        (np.array([[1, 2, 1, 2], [1, 2, 1, 3]], np.float32), False),
        (np.array([[1, 2, 1, 2], [3, 4, 3, 4]], np.float32), True),
        (np.array([[0, 1, -0.0, 1]], np.float32), False),
        (np.array([[1, 2, 1, 2]]), False),
        (np.zeros((3, 0), np.float32), False),
    ],
)
def test_what_is_doubled(array: np.ndarray, wanted: bool) -> None:
    graph = TensorGraph()
    assert graph.is_doubled(graph.constant(Constant.of(array))) == wanted
