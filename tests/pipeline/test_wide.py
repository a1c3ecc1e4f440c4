"""Nodes with very many operands: found, rewritten around and written like any others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from egraph_opt import Outcome
from egraph_opt.saturation.wide import MOST_OPERANDS

RNG = np.random.default_rng(0)


def _model(last: list[onnx.NodeProto], width: int, size: int) -> onnx.ModelProto:
    """``width`` different values ``a0``... of a Relu that stands twice, and what ``last`` makes of them."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Relu", ["r"], ["s"])]
    nodes += [helper.make_node("Add", ["s", f"k{i}"], [f"a{i}"]) for i in range(width)]
    graph = helper.make_graph(
        [*nodes, *last],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [size, 4])],
        [numpy_helper.from_array(np.array([i], np.float32), f"k{i}") for i in range(width)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def _known(width: int) -> list[onnx.NodeProto]:
    return [helper.make_node("Concat", [f"a{i}" for i in range(width)], ["y"], axis=0)]


def _opaque(width: int) -> list[onnx.NodeProto]:
    """An ``If`` whose branches read all of the values."""

    def branch(op: str) -> onnx.GraphProto:
        nodes = [helper.make_node(op, ["a0", "a1"], [f"{op}1"])]
        nodes += [helper.make_node(op, [f"{op}{i - 1}", f"a{i}"], [f"{op}{i}"]) for i in range(2, width)]
        last = helper.make_tensor_value_info(f"{op}{width - 1}", TensorProto.FLOAT, [1, 4])
        return helper.make_graph(nodes, op, [], [last])

    total = helper.make_node("ReduceMax", ["r"], ["m"], keepdims=0)
    asked = helper.make_node("Cast", ["m"], ["b"], to=TensorProto.BOOL)
    return [total, asked, helper.make_node("If", ["b"], ["y"], then_branch=branch("Add"), else_branch=branch("Max"))]


@pytest.mark.parametrize("width", [MOST_OPERANDS - 1, MOST_OPERANDS, MOST_OPERANDS + 1, 150])
@pytest.mark.parametrize("kind", ["known", "opaque"])
def test_nodes_around_it_are_rewritten_and_it_stays(kind: str, width: int, tools: Any) -> None:
    model = _model(_known(width), width, width) if kind == "known" else _model(_opaque(width), width, 1)
    result = tools.optimize(model)
    assert result.report.outcome == Outcome.OPTIMIZED
    assert result.verified
    operators = [node.op_type for node in result.model.graph.node]
    assert operators.count("Relu") == 1
    assert operators.count("Concat" if kind == "known" else "If") == 1
    feeds = {"x": RNG.standard_normal((1, 4)).astype(np.float32)}
    for new, old in zip(tools.run(result.model, feeds), tools.run(model, feeds), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5)


def test_two_are_one_where_rules_make_their_operands_equal(tools: Any) -> None:
    width = MOST_OPERANDS + 7
    again = [helper.make_node("Add", ["r", f"k{i}"], [f"b{i}"]) for i in range(width)]
    joined = [helper.make_node("Concat", [f"{n}{i}" for i in range(width)], [f"{n}s"], axis=0) for n in "ab"]
    model = _model([*again, *joined, helper.make_node("Add", ["as", "bs"], ["y"])], width, width)
    result = tools.optimize(model)
    assert result.verified
    assert [node.op_type for node in result.model.graph.node].count("Concat") == 1


def test_very_many_operators_with_one_input_are_merged_a_part_at_a_time(tools: Any) -> None:
    width, inner = 2 * MOST_OPERANDS + 1, 3
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"p{i}"]) for i in range(width)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info(f"p{i}", TensorProto.FLOAT, [2, inner]) for i in range(width)],
        [numpy_helper.from_array(RNG.standard_normal((4, inner)).astype(np.float32), f"w{i}") for i in range(width)],
    )
    result = tools.optimize(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    assert result.verified
    operators = [node.op_type for node in result.model.graph.node]
    assert operators.count("MatMul") == 3
    assert operators.count("Split") == 2


def _sum(values: int, constants: int) -> onnx.ModelProto:
    names = [f"x{i}" for i in range(values)]
    kept = [numpy_helper.from_array(np.array([i + 1], np.float32), f"k{i}") for i in range(constants)]
    graph = helper.make_graph(
        [helper.make_node("Sum", [*names, *(k.name for k in kept)], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        kept,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_one_node_does_not_become_very_many_that_are_estimated_to_cost_less(tools: Any) -> None:
    """A Sum is read as additions, of which rules save those of constants; as a node it is one call."""
    result = tools.optimize(_sum(40, 40))
    assert result.report.outcome == Outcome.UNCHANGED
    assert "times the nodes" in result.report.reason
    (best, *_) = result.report.candidates
    assert best.nodes > 30
    assert best.estimated < result.report.estimated_before
    assert [node.op_type for node in result.model.graph.node] == ["Sum"]


def test_one_node_may_become_a_few_that_cost_less(tools: Any) -> None:
    result = tools.optimize(_sum(2, 3))
    assert result.report.outcome == Outcome.OPTIMIZED
    assert [node.op_type for node in result.model.graph.node] == ["Add", "Add"]


def test_a_call_of_a_function_counts_as_the_nodes_of_the_function(tools: Any) -> None:
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
    g (float[2,4] x) => (float[2,4] y) { y = own.f (x) }
    <opset_import: ["" : 18], domain: "own"> f (a) => (f) {
        b = Relu (a) c = Relu (b) d = Exp (c) e = Sigmoid (d) h = Tanh (e) i = Neg (h) j = Sin (i) f = Abs (j)
    }"""
    result = tools.optimize(onnx.parser.parse_model(text))
    assert result.report.outcome == Outcome.OPTIMIZED, result.report.reason
    assert [node.op_type for node in result.model.graph.node].count("Relu") == 1
    assert len(result.model.graph.node) > 4
