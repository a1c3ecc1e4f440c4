"""An If whose condition is known gives way to its branch; one that depends on the input stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

CONDITIONS = {
    "a constant": ("", "c = Constant<value_int=1>() b = Cast<to=9>(c)", True),
    "a stored scalar": ("<bool b = {0}>", "", False),
    "a size": ("<int64 one={1}>", "s = Shape(x) d = Gather(s, one) b = Equal(d, one)", True),
    "a size from the end": ("<int64 i={-2}, int64 n={7}>", "s = Shape(x) d = Gather(s, i) b = Equal(d, n)", False),
    "the rank": ("<int64 n={3}>", "s = Shape(x) k0 = Size(s) e = Equal(k0, n) b = Not(e)", False),
    "two of them": (
        "<int64[1] i={1}, int64[1] j={2}, int64[1] one={1}, int64[1] n={9}>",
        "s = Shape(x) d = Gather(s, i) h = Gather(s, j) p = Equal(d, one) o = Less(h, n) m = And(p, o) b = Squeeze(m)",
        True,
    ),
    "more than any size can be less": (
        "<int64 i={0}, int64 m={-1}>",
        "s = Shape(x) d = Gather(s, i) b = Less(m, d)",
        True,
    ),
    "a size against itself": (
        "<int64 i={0}, int64 o={1}>",
        "s = Shape(x) d = Gather(s, i) t = Add(d, o) b = Greater(t, d)",
        True,
    ),
    "arithmetic that cancels": (
        "<int64 i={0}, int64 two={2}>",
        "s = Shape(x) d = Gather(s, i) t = Mul(d, two) u = Add(d, d) b = Equal(t, u)",
        True,
    ),
    "of one element": ("<int64[1] one={1}>", "s = Shape(x) d = Gather(s, one) b = Equal(d, one)", True),
}
IF = (
    "r = Relu(x) y = If(b) <"
    "then_branch = t () => (float[?, ?, ?] z) <float w={3}> { a = Add(r, w) z = Mul(a, k) },"
    "else_branch = e () => (float[?, ?, ?] z) <float w={4}> { a = Mul(r, w) z = Sub(a, r) }>"
)


def model_text(stored: str, nodes: str, tail: str = "") -> str:
    inside = stored.strip("<>")
    weights = f"<float k={{2}}{', ' + inside if inside else ''}>"
    return f"g (float[N,1,4] x) => (float[?,?,?] q) {weights} {{ {nodes} {IF} {tail} q = Abs(y) }}"


@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_known_condition(tools: Any, name: str, opset: int) -> None:
    stored, nodes, answer = CONDITIONS[name]
    model = tools.parse(model_text(stored, nodes), opset=opset)
    trip = tools.trip(model, *({"x": np.ones((n, 1, 4), np.float32) * n} for n in (0, 1, 3)))
    assert "If" not in trip.operators()
    assert ("Add" in trip.operators()) == answer


@pytest.mark.parametrize(
    ("stored", "nodes"),
    [
        ("<int64 i={0}, int64 one={1}>", "s = Shape(x) d = Gather(s, i) b = Equal(d, one)"),
        ("<int64 i={0}, int64 n={5}>", "s = Shape(x) d = Gather(s, i) b = Less(d, n)"),
        (
            "<int64 i={0}, int64 two={2}>",
            "s = Shape(x) d = Gather(s, i) h = Div(d, two) t = Mul(h, two) b = Equal(t, d)",
        ),
        ("<float zero={0}>", "m = ReduceMax<keepdims=0>(x) b = Greater(m, zero)"),
    ],
)
def test_a_condition_that_some_input_decides(tools: Any, stored: str, nodes: str) -> None:
    model = tools.parse(model_text(stored, nodes))
    trip = tools.trip(model, *({"x": np.ones((n, 1, 4), np.float32)} for n in (1, 2, 5)))
    assert "If" in trip.operators()


def test_an_overridable_condition_is_not_known(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] x, bool b) => (float[2] y) <bool b={1}> { y = If(b) <"
        "then_branch = t () => (float[2] z) { z = Exp(x) }, else_branch = e () => (float[2] z2) { z2 = Neg(x) }> }"
    )
    x = np.ones(2, np.float32)
    assert "If" in tools.trip(model, {"x": x}, {"x": x, "b": False}).operators()


def test_branches_of_two_that_use_equal_names(tools: Any) -> None:
    """Unknown sizes are called after values: two values of one name in two branches are two sizes."""
    branch = "() => (float[?] z) { a = NonZero(x) b = Squeeze(a, zero) z = Cast<to=1>(b) }"
    other = "() => (float[?] z) { a = NonZero(w) b = Squeeze(a, zero) z = Cast<to=1>(b) }"
    never = "() => (float[?] u) { u = Identity(x) }"
    model = tools.parse(
        "g (float[4] x, float[4] w) => (float[?] y) <bool t={1}, int64[1] zero={0}> {"
        f" p = If(t) <then_branch = t1 {branch}, else_branch = e1 {never}>"
        f" q = If(t) <then_branch = t2 {other}, else_branch = e2 {never}>"
        " s = Shape(p) y = Reshape(q, s) }"
    )
    same = {"x": np.array([1, 0, 1, 1], np.float32), "w": np.array([1, 1, 0, 1], np.float32)}
    trip = tools.trip(model, same)
    assert "If" not in trip.operators()
    assert "Reshape" in trip.operators()


def test_nested_and_an_outer_value_as_result(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] x) => (float[2] y, float[2] v) <bool t={1}, bool f={0}> { r = Relu(x) y, v = If(t) <"
        "then_branch = a () => (float[2] z, float[2] r2) { z = If(f) <"
        "then_branch = c () => (float[2] u) { u = Exp(r) }, else_branch = d () => (float[2] n) { n = Neg(r) }>"
        " r2 = Identity(x) },"
        "else_branch = b () => (float[2] z2, float[2] z3) { z2 = Identity(x) z3 = Exp(x) }> }"
    )
    assert tools.trip(model, {"x": np.array([1, -2], np.float32)}).operators() == ["Relu", "Neg", "Identity"]
