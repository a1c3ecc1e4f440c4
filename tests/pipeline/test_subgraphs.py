"""Bodies of control flow are optimized on their own, and what reading leaves out of a model is a gain."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from egraph_opt import Outcome
from egraph_opt.pipeline import run as pipeline
from egraph_opt.rewrites import rule

X = np.array([[-1.5, 2.0, 0.5], [3.0, -4.0, 1.0]], np.float32)
THERE_AND_BACK = "a = Transpose<perm=[1,0]>({0}) b = Sigmoid(a) {1} = Transpose<perm=[1,0]>(b)"
BODIES = {
    "If": (
        "g (float[2,3] x, bool c) => (float[2,3] y) { r = Relu(x) y = If(c) <"
        f"then_branch = t () => (float[2,3] z) {{ {THERE_AND_BACK.format('r', 'z')} }},"
        "else_branch = e () => (float[2,3] u) { u = Neg(r) }> }",
        [{"x": X, "c": True}, {"x": X, "c": False}],
    ),
    "Loop": (
        "g (float[2,3] x, int64 n) => (float[2,3] y) <bool k={1}> { r = Abs(x) y = Loop(n, k, x) <"
        "body = b (int64 i, bool ci, float[2,3] s) => (bool co, float[2,3] so)"
        f" {{ co = Identity(ci) q = Add(s, r) {THERE_AND_BACK.format('q', 'so')} }}> }}",
        [{"x": X, "n": np.int64(3)}, {"x": X, "n": np.int64(0)}],
    ),
    "Scan": (
        "g (float[2,3] s0, float[4,2,3] x) => (float[2,3] s, float[4,2,3] y) {"
        " s, y = Scan<num_scan_inputs=1, body = b (float[2,3] si, float[2,3] xi) => (float[2,3] so, float[2,3] yo)"
        f" {{ so = Add(si, xi) {THERE_AND_BACK.format('so', 'yo')} }}>(s0, x) }}",
        [{"s0": X, "x": np.stack([X, X + 1, X * 2, -X])}],
    ),
    "nested": (
        "g (float[2,3] x, bool c, int64 n) => (float[2,3] y) <bool k={1}> { r = Abs(x) y = If(c) <"
        "then_branch = t () => (float[2,3] z) { w = Exp(r) z = Loop(n, k, x) <"
        "body = b (int64 i, bool ci, float[2,3] s) => (bool co, float[2,3] so)"
        f" {{ co = Identity(ci) q = Add(s, w) {THERE_AND_BACK.format('q', 'so')} }}> }},"
        "else_branch = e () => (float[2,3] u) { u = Neg(r) }> }",
        [{"x": X / 9, "c": True, "n": np.int64(2)}, {"x": X, "c": False, "n": np.int64(2)}],
    ),
}


def operators(graph: onnx.GraphProto) -> list[str]:
    """Of the graph and everything inside it."""
    inner = [a.g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return [node.op_type for node in graph.node] + [op for body in inner for op in operators(body)]


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_optimized(name: str, tools: Any) -> None:
    text, feeds = BODIES[name]
    model = tools.parse(text)
    result = tools.optimize(model)
    assert result.report.outcome == Outcome.OPTIMIZED, result.report.reason
    assert "Transpose" not in operators(result.model.graph)
    onnx.checker.check_model(result.model, full_check=True)
    for fed in feeds:
        for old, new in zip(tools.run(model, fed), tools.run(result.model, fed), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-6)


def test_weights_that_are_folded_inside_are_not_kept_outside(tools: Any) -> None:
    weights = ",".join(f"{i % 7}" for i in range(64 * 64))
    model = tools.parse(
        f"g (float[64] x, bool c) => (float[64] y) <float[64,64] w={{{weights}}}> {{ y = If(c) <"
        "then_branch = t () => (float[64] z) { a = Transpose<perm=[1,0]>(w) z = MatMul(x, a) },"
        "else_branch = e () => (float[64] u) { v = Neg(x) u = Neg(v) }> }"
    )
    result = tools.optimize(model)
    assert result.changed
    assert result.model.ByteSize() < model.ByteSize() * 1.2
    fed = {"x": np.linspace(-1, 1, 64, dtype=np.float32), "c": True}
    np.testing.assert_allclose(tools.run(result.model, fed)[0], tools.run(model, fed)[0], rtol=1e-4, atol=1e-5)


def test_a_body_that_does_not_verify_is_left_as_it_is(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "admit", tuple)
    model = tools.parse(BODIES["If"][0])
    result = tools.optimize(model, rules=(rule("wrong", "Sigmoid(x)", "x", family="wrong"),))
    assert "Sigmoid" in operators(result.model.graph)
    assert any("subgraphs" in note for note in result.report.notes), result.report.notes


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        (
            "g (float[N,3,4] x) => (float[N,12] y) <int64 i={0}, int64[1] ax={0}, int64[1] rest={12}>"
            " { s = Shape(x) b = Gather(s, i) u = Unsqueeze(b, ax) t = Concat<axis=0>(u, rest) y = Reshape(x, t) }",
            {"Shape", "Gather", "Unsqueeze", "Concat"},
        ),
        (
            "g (float[3,1,4] x) => (float[3,4] y) <int64 one={1}> { s = Shape(x) d = Gather(s, one) c = Equal(d, one)"
            " t = If(c) <then_branch = a () => (float[3,4] q) <int64[1] ax={1}> { q = Squeeze(x, ax) },"
            " else_branch = b () => (float[3,1,4] r) { r = Identity(x) }> y = Relu(t) }",
            {"Shape", "Gather", "Equal", "If"},
        ),
    ],
)
def test_what_reading_leaves_out_is_gone_though_no_rule_applies(text: str, gone: set[str], tools: Any) -> None:
    result = tools.optimize(tools.parse(text))
    assert result.report.outcome == Outcome.OPTIMIZED
    assert not gone & set(operators(result.model.graph))
