"""An If of which one branch leads to a node that cannot run gives way to the other one; nothing else makes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

HIDDEN = 4
SQUEEZED, AS_IT_IS = "z = Squeeze(r, axis)", "z = Identity(r)"
RECURRENT = "q = Unsqueeze(z0, first) a, h = LSTM <hidden_size = 4> (q, w, u)"


def model_of(tools: Any, then: str, other: str, tail: str, condition: str = "Equal(d, one)") -> onnx.ModelProto:
    """``z0`` is what one of two branches makes of x, by the size of its last axis."""
    body = f"""
        r = Relu(x) s = Shape(r) d = Gather(s, last) b = {condition}
        z0 = If(b) <then_branch = t () => (float[?, ?] z) {{ {then} }},
                    else_branch = e () => (float[?, ?] z) {{ {other} }}>
        {tail}"""
    model = tools.parse(f"g (float[N, {HIDDEN}, L] x) => (float[?, ?, ?] y) {{ {body} }}", opset=14)
    for branch in (a.g for n in model.graph.node if n.op_type == "If" for a in n.attribute):
        branch.output[0].type.tensor_type.ClearField("shape")
    rng = np.random.default_rng(0)
    stored: dict[str, Any] = {n: rng.normal(size=(1, 4 * HIDDEN, HIDDEN)).astype(np.float32) for n in "wu"}
    stored |= {"axis": np.array([2]), "first": np.array([0]), "last": np.array(2), "one": np.array(1)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    return model


def feeds() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(size=(3, HIDDEN, 1)).astype(np.float32)}


@pytest.mark.parametrize("turned", [False, True])
def test_the_branch_of_the_rank_that_is_wanted(tools: Any, turned: bool) -> None:
    branches = (AS_IT_IS, SQUEEZED) if turned else (SQUEEZED, AS_IT_IS)
    condition = "Greater(d, one)" if turned else "Equal(d, one)"
    trip = tools.trip(model_of(tools, *branches, f"{RECURRENT} y = Tanh(h)", condition), feeds())
    assert "If" not in trip.operators()
    assert "Squeeze" in trip.operators()


def test_an_if_behind_an_if(tools: Any) -> None:
    """The second one's condition is the rank of what the first one gives."""
    tail = """
        s2 = Shape(z0) k = Size(s2) two = Constant <value_int = 2> () c = Equal(k, two)
        z1 = If(c) <then_branch = t2 () => (float[?, ?] o) { o = Identity(z0) },
                    else_branch = e2 () => (float[?, ?] o) { o = Unsqueeze(z0, first) }>"""
    model = model_of(tools, SQUEEZED, AS_IT_IS, f"{tail} {RECURRENT.replace('z0', 'z1')} y = Tanh(h)")
    assert "If" not in tools.trip(model, feeds()).operators()


@pytest.mark.parametrize(
    "tail",
    [
        "o = Shape(z0) f = Cast <to = 1> (o) y = Mul(r, f)",  # takes any rank
        f"{RECURRENT} o = Shape(z0) f = Cast <to = 1> (o) y = Mul(r, f)",  # nobody needs what fails
        "y = If(b) <then_branch = t2 () => (float[?, ?, ?] o) { "  # which need not run
        f"{RECURRENT.replace('h =', 'o =')} }}, else_branch = e2 () => (float[?, ?, ?] o) {{ o = Identity(r) }}>",
        "q = Unsqueeze(r, first) a, h = LSTM <hidden_size = 4> (q, w, u) g = Shape(z0) f = Cast <to = 1> (g) "
        "y = Mul(h, f)",  # it fails whatever is taken
    ],
)
def test_others_stay(tools: Any, tail: str) -> None:
    assert "If" in {n.op_type for n in tools.through(model_of(tools, SQUEEZED, AS_IT_IS, tail)).graph.node}
