"""Bodies of If, Loop and Scan are graphs of their own: typed, counted, written back with what they capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
import pytest

from egraph_opt.ir import TensorType, TupleType, Type, symbol
from egraph_opt.onnx_io import import_model
from egraph_opt.onnx_io.opaque import OpaqueNode, opaque_node

X = np.arange(6, dtype=np.float32).reshape(2, 3)
LOOP = (
    "g (float[2,N] x, int64 n) => (float[2,N] y, float[?,?,?] all) <bool c={1}> { r = Relu(x) y, all = Loop(n, c, x) <"
    "body = b (int64 i, bool ci, float[?,?] s) => (bool co, float[?,?] so, float[?,?] p)"
    " { co = Identity(ci) so = Add(s, r) p = Abs(so) }> }"
)
GROWING = (
    "g (float[2,N] x, int64 n) => (float[?,N] y) <bool c={1}> { y = Loop(n, c, x) <"
    "body = b (int64 i, bool ci, float[?,?] s) => (bool co, float[?,?] so)"
    " { co = Identity(ci) so = Concat<axis=0>(s, x) }> }"
)


def imported(tools: Any, text: str) -> Any:
    return import_model(onnx_ir.from_proto(tools.parse(text)))


def output_types(found: Any) -> list[Type]:
    return [found.graph.types[i] for i in found.graph.outputs]


def test_nodes_of_bodies_are_understood_one_by_one(tools: Any) -> None:
    found = imported(tools, LOOP)
    assert (found.nodes, found.declared_nodes) == (5, 4)
    assert [op for op, _ in found.opaque] == ["Loop"]


def test_a_value_that_a_loop_keeps_in_shape_has_that_shape(tools: Any) -> None:
    kept, collected = output_types(imported(tools, LOOP))
    assert kept == TensorType("float32", (2, symbol("N")))
    assert not isinstance(collected, TensorType)  # without an iteration its rank is what the file says
    tools.trip(tools.parse(LOOP), {"x": X, "n": np.int64(2)}, {"x": X, "n": np.int64(0)})


def test_a_value_that_grows_has_only_its_rank(tools: Any) -> None:
    (grown,) = output_types(imported(tools, GROWING))
    assert isinstance(grown, TensorType)
    assert grown.shape[0] != 2
    assert grown.shape[1] == symbol("N")
    tools.trip(tools.parse(GROWING), {"x": X, "n": np.int64(2)}, {"x": X, "n": np.int64(0)})


def test_scan_knows_its_slices(tools: Any) -> None:
    text = (
        "g (float[2] s0, float[N,2] x) => (float[2] s, float[?,2] y) <float[2] k={1,2}> {"
        " s, y = Scan<num_scan_inputs=1, body = b (float[2] si, float[2] xi) => (float[2] so, float[2] yo)"
        " { so = Add(si, xi) yo = Mul(so, k) }>(s0, x) }"
    )
    found = imported(tools, text)
    assert [op for op, _ in found.opaque] == ["Scan"]
    assert output_types(found)[0] == TensorType("float32", (2,))
    tools.trip(tools.parse(text), {"s0": X[0, :2], "x": X.reshape(3, 2)})


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("b = Mul(x, x)", TensorType("float32", (2, symbol("N")))),
        ("b = Concat<axis=1>(x, x)", TensorType("float32", (2, symbol("y:1")))),
        ("b = Squeeze(x)", None),
        ("b = ReduceSum<keepdims=0>(x)", None),
    ],
)
def test_an_if_has_what_its_branches_have_in_common(tools: Any, other: str, expected: Any) -> None:
    text = (
        "g (float[2,N] x, bool c) => (float y) { y = If(c) <then_branch = t () => (float z) { z = Neg(x) },"
        f" else_branch = e () => (float b) {{ {other} }}> }}"
    )
    (found,) = output_types(imported(tools, text))
    assert found == expected if expected else not isinstance(found, TensorType | TupleType)


def test_captured_weights_stay_outside_once(tools: Any) -> None:
    weights = ",".join(["1.5"] * 4096)
    text = (
        f"g (float[4096] x, bool c) => (float[4096] y) <float[4096] w={{{weights}}}> {{ y = If(c) <"
        "then_branch = t () => (float[4096] z) { z = Mul(x, w) },"
        "else_branch = e () => (float[4096] z2) { z2 = Add(x, w) }> }"
    )
    model = tools.parse(text)
    x = np.ones(4096, np.float32)
    after = tools.trip(model, {"x": x, "c": True}, {"x": x, "c": False}).after
    assert after.ByteSize() < model.ByteSize() + 1000
    assert [t.name for t in after.graph.initializer] == ["w"]


def test_what_a_body_only_needs_to_be_understood_is_not_captured(tools: Any) -> None:
    """The axes and the condition of the inner If are known: nothing of them is left."""
    text = (
        "g (float[2,1,3] x, bool c) => (float[2,3] y) <int64[1] ax={1}, int64 one={1}> {"
        " s = Shape(x) d = Gather(s, one) k = Equal(d, one) y = If(c) <"
        "then_branch = t () => (float[2,3] z) { z = If(k) <"
        "then_branch = tt () => (float[2,3] u) { u = Squeeze(x, ax) },"
        "else_branch = te () => (float[2,1,3] v) { v = Identity(x) }> },"
        "else_branch = e () => (float[2,3] z2) { q = Neg(x) z2 = Squeeze(q, ax) }> }"
    )
    feeds = [{"x": X.reshape(2, 1, 3), "c": c} for c in (True, False)]
    trip = tools.trip(tools.parse(text), *feeds, check=False)
    assert trip.operators() == ["If"]
    assert not trip.after.graph.initializer


def test_a_body_gets_names_of_its_own(tools: Any) -> None:
    """Names inside differ from those outside, though constants and results ask for the same ones."""
    text = (
        "g (float[2] x, bool c) => (float[2] y, float[2] Exp_0) <float[2] w={1,2}> { Exp_0 = Exp(x) y = If(c) <"
        "then_branch = t () => (float[2] z) <float[2] v={3,4}> { a = Mul(x, v) z = Mul(a, w) },"
        "else_branch = e () => (float[2] z) <float[2] v={5,6}> { a = Mul(x, v) z = Add(a, w) }> }"
    )
    after = tools.trip(tools.parse(text), *({"x": X[0, :2], "c": c} for c in (True, False))).after
    outer = {n for node in after.graph.node for n in node.output} | {t.name for t in after.graph.initializer}
    for attr in after.graph.node[-1].attribute:
        inner = {n for node in attr.g.node for n in node.output} | {t.name for t in attr.g.initializer}
        assert not inner & outer


def test_bodies_of_other_operators_are_kept(tools: Any) -> None:
    found = imported(
        tools,
        "g (seq(float[2]) x) => (seq(float[2]) y) { y = SequenceMap <body = b (float[2] i) => (float[2] o)"
        " { o = Relu(i) }>(x) }",
    )
    (index,) = found.graph.outputs
    node = opaque_node(found.graph, index)
    assert isinstance(node, OpaqueNode)
    assert not node.bodies


def test_a_shape_that_is_worked_out_outside_is_known_inside(tools: Any) -> None:
    text = (
        "g (float[N,3,4] x, bool c) => (float[?,12] y) <int64[1] i={0}, int64[1] rest={12}> {"
        " s = Shape(x) b = Gather(s, i) t = Concat<axis=0>(b, rest) y = If(c) <"
        "then_branch = p () => (float[?,12] z) { q = Neg(x) z = Reshape(q, t) },"
        "else_branch = e () => (float[?,12] u) { u = If(c) <"
        "then_branch = pp () => (float[?,12] v) { v = Reshape(x, t) },"
        "else_branch = ee () => (float[?,12] w) { k = Abs(x) w = Reshape(k, t) }> }> }"
    )
    feeds = [{"x": np.ones((n, 3, 4), np.float32) * -2, "c": c} for n in (0, 1, 3) for c in (True, False)]
    assert tools.trip(tools.parse(text), *feeds).operators() == ["If"]
