"""Control flow is kept as it is; what its subgraphs take from outside follows the outer graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from egraph_opt.onnx_io import export_model, import_model

X = np.array([-1.5, 2.0], np.float32)
IFS = {
    "captures a computed value, an input and a constant": (
        "<float[2] k={1,2}> { r = Relu(x) y = If(c) <"
        "then_branch = t () => (float[2] z) { z = Add(r, k) },"
        "else_branch = e () => (float[2] z2) { z2 = Mul(x, k) }> }"
    ),
    "captures what is an output as well": (
        "{ r = Relu(x) y = If(c) <"
        "then_branch = t () => (float[2] z) { z = Exp(r) },"
        "else_branch = e () => (float[2] z2) { z2 = Identity(r) }> }"
    ),
    "captures two levels up": (
        "<float[2] k={1,2}> { r = Relu(x) q = Identity(r) y = If(c) <"
        "then_branch = t () => (float[2] z) { z = If(c) <"
        "then_branch = tt () => (float[2] zz) { zz = Add(q, k) },"
        "else_branch = te () => (float[2] z3) { z3 = Add(x, r) }> },"
        "else_branch = e () => (float[2] z2) { z2 = Mul(x, x) }> }"
    ),
    "same names in both branches": (
        "<float[2] k={1,2}> { r = Relu(x) y = If(c) <"
        "then_branch = t () => (float[2] z) { a = Exp(r) z = Add(a, k) },"
        "else_branch = e () => (float[2] z) { a = Abs(r) z = Mul(a, a) }> }"
    ),
    "initializers inside": (
        "{ r = Relu(x) y = If(c) <"
        "then_branch = t () => (float[2] z) <float[2] w={3,4}> { z = Add(r, w) },"
        "else_branch = e () => (float[2] z2) <float[2] w2={3,5}> { z2 = Mul(r, w2) }> }"
    ),
    "names inside that the exporter would choose": (
        "{ q = Relu(x) r = Exp(q) y = If(c) <"
        "then_branch = t () => (float[2] z) { Relu_0 = Exp(r) z = Add(Relu_0, q) },"
        "else_branch = e () => (float[2] z2) { Exp_1 = Abs(r) constant_0 = Abs(Exp_1) z2 = Add(constant_0, q) }> }"
    ),
    "a captured Constant node": (
        "{ k = Constant<value_floats=[5.0, 6.0]>() y = If(c) <"
        "then_branch = t () => (float[2] z) { z = Add(x, k) },"
        "else_branch = e () => (float[2] z2) { z2 = Mul(x, k) }> }"
    ),
    "one condition for two": (
        "{ p = If(c) <then_branch = t () => (float[2] z) { z = Exp(x) }, else_branch = e () => (float[2] z2)"
        " { z2 = Abs(x) }> y = If(c) <then_branch = t2 () => (float[2] z4) { z4 = Exp(p) },"
        " else_branch = e2 () => (float[2] z5) { z5 = Mul(p, x) }> }"
    ),
}


@pytest.mark.parametrize("name", IFS)
@pytest.mark.parametrize("extra", ["", ", float[2] r"])
def test_if(name: str, extra: str, tools: Any) -> None:
    if extra and "r = Relu" not in IFS[name]:
        pytest.skip("no such value")
    model = tools.parse(f"g (float[2] x, bool c) => (float[2] y{extra}) {IFS[name]}")
    tools.trip(model, {"x": X, "c": True}, {"x": X, "c": False})


@pytest.mark.parametrize("name", IFS)
def test_captures_follow_a_renamed_and_replaced_graph(name: str, tools: Any) -> None:
    """The captured value may be another node afterwards; here every value of the outer graph gets another name."""
    model = tools.parse(f"g (float[2] x, bool c) => (float[2] y) {IFS[name]}")
    imported = import_model(onnx_ir.from_proto(model))
    imported.graph.names.clear()
    for index, constant in enumerate(imported.graph.constants):
        object.__setattr__(constant, "names", (f"renamed_{index}",))
    after = onnx_ir.to_proto(export_model(imported, imported.graph))
    onnx.checker.check_model(after, full_check=True)
    for c in (True, False):
        feeds = {"x": X, "c": c}
        np.testing.assert_array_equal(tools.run(after, feeds)[0], tools.run(model, feeds)[0])


def test_a_loop_that_captures(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] x, int64 n, bool c) => (float[2] y, float[M,2] all) <float[2] k={1,2}> {"
        " r = Relu(x) y, all = Loop(n, c, x) <body = b (int64 i, bool ci, float[2] s) =>"
        " (bool co, float[2] so, float[2] scan) { co = Identity(ci) so = Add(s, r) scan = Mul(so, k) }> }"
    )
    tools.trip(model, {"x": X, "n": np.int64(3), "c": True}, {"x": X, "n": np.int64(0), "c": True})


def test_a_loop_inside_an_if(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] x, int64 n, bool c) => (float[2] y) <float[2] k={1,2}> { r = Relu(x) y = If(c) <"
        "then_branch = t () => (float[2] z) { z = Loop(n, c, r) <body = b (int64 i, bool ci, float[2] s) =>"
        " (bool co, float[2] so) { co = Identity(ci) p = Add(s, k) so = Mul(p, r) }> },"
        "else_branch = e () => (float[2] z2) { z2 = Mul(x, k) }> }"
    )
    for c in (True, False):
        tools.trip(model, {"x": X, "n": np.int64(2), "c": c})


def test_scan(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] s0, float[4,2] x) => (float[2] s, float[4,2] y) <float[2] k={1,2}> {"
        " s, y = Scan<num_scan_inputs=1, body = b (float[2] si, float[2] xi) => (float[2] so, float[2] yo)"
        " { so = Add(si, xi) yo = Mul(so, k) }>(s0, x) }"
    )
    tools.trip(model, {"s0": X, "x": np.arange(8, dtype=np.float32).reshape(4, 2)})


def test_a_capture_keeps_a_value_alive_that_nothing_else_uses(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] x, bool c) => (float[2] y) { a = Exp(x) b = Abs(a) y = If(c) <"
        "then_branch = t () => (float[2] z) { z = Identity(b) },"
        "else_branch = e () => (float[2] z2) { z2 = Identity(x) }> }"
    )
    assert "Abs" in tools.trip(model, {"x": X, "c": True}).operators()


def test_captured_overridable_initializer(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] x, bool c, float[2] w) => (float[2] y) <float[2] w={1,2}> { y = If(c) <"
        "then_branch = t () => (float[2] z) { z = Add(x, w) },"
        "else_branch = e () => (float[2] z2) { z2 = Mul(x, w) }> }"
    )
    tools.trip(model, {"x": X, "c": True}, {"x": X, "c": False, "w": X})


def test_captured_constant_input_of_ir_3(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] x, bool c, float[2] w) => (float[2] y) <float[2] w={1,2}> { y = If(c) <"
        "then_branch = t () => (float[2] z) { z = Add(x, w) },"
        "else_branch = e () => (float[2] z2) { z2 = Mul(x, w) }> }",
        ir=3,
        opset=9,
    )
    tools.trip(model, {"x": X, "c": True})


def test_the_original_is_not_touched_by_two_exports(tools: Any) -> None:
    model = tools.parse(f"g (float[2] x, bool c) => (float[2] y) {IFS['captures two levels up']}")
    ours = onnx_ir.from_proto(model)
    said = onnx_ir.to_proto(ours).SerializeToString()
    imported = import_model(ours)
    first = onnx_ir.to_proto(export_model(imported, imported.graph)).SerializeToString()
    second = onnx_ir.to_proto(export_model(imported, imported.graph)).SerializeToString()
    assert first == second
    assert onnx_ir.to_proto(ours).SerializeToString() == said
