"""Rules that can never match are left out, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import operator
from egraph_opt.rewrites import relevant, rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.saturation.engine import Engine
from egraph_opt.saturation.problem import Problem
from egraph_opt.saturation.saturate import problem_of

BINARY = ("Add", "Mul", "Sub", "Div", "MatMul")
CHAIN = (
    rule("third", "Exp(x)", "Log(x)"),
    rule("second", "Tanh(Neg(x))", "Exp(Abs(x))"),
    rule("first", "Relu(x)", "Neg(Tanh(x))"),
    rule("never", "Sqrt(Log(x))", "x"),
)


def test_what_rules_bring_in_counts() -> None:
    assert [r.name for r in relevant(CHAIN, {("Relu", 1)})] == ["third", "second", "first"]
    assert [r.name for r in relevant(CHAIN, {("Tanh", 1)})] == []
    assert relevant(CHAIN, {("Relu", 1), ("Sqrt", 1)}) == CHAIN


def test_the_number_of_operands_counts_except_for_what_merges_join() -> None:
    merge = rule("merge", ("Relu(x)", "Relu(y)"), ("Exp(Concat(x, y, axis=0))", "Neg(y)"))
    joined = rule("joined", "Concat(x, y, z, axis=a)", "Concat(z, y, x, axis=a)")
    assert relevant((joined,), {("Concat", 2)}) == ()
    assert relevant((joined, merge), {("Relu", 1)}) == (joined, merge)


def _random_graph(seed: int) -> TensorGraph:
    """A few operators on square matrices and a constant."""
    rng = np.random.default_rng(seed)
    graph, square = TensorGraph(), TensorType("float32", (2, 2))
    known = [graph.add("Input", ("x",), (), square), graph.constant(Constant.of(np.ones((2, 2), np.float32)))]
    for _ in range(6):
        op = str(rng.choice([*BINARY, "Relu", "Neg", "Exp", "Sqrt", "Sigmoid", "Abs"]))
        operands = tuple(
            int(rng.choice(known)) for _ in range(2 if op in ("Add", "Mul", "Sub", "Div", "MatMul") else 1)
        )
        known.append(graph.add(op, (), operands, operator(op).infer((), [square] * len(operands))))
    graph.outputs = (known[-1],)
    return graph


def _grown(problem: Problem) -> list[tuple[str, int]]:
    """E-nodes per operator after some rounds, and which nodes of the graph became equal."""
    engine = Engine(problem)
    for number in range(3):
        engine.iterate(merge=number == 0)
    found = engine.snapshot()
    classes = [(f"class of {i}", found.node_class.index(c)) for i, c in enumerate(found.node_class)]
    return sorted([(f"{t.op}_{len(t.operands[0])}", len(t.classes)) for t in found.tables if t.classes]) + classes


@pytest.mark.parametrize("seed", range(6))
def test_the_others_change_nothing(seed: int) -> None:
    graph, rules = _random_graph(seed), all_rules()
    few = problem_of(graph, rules)
    every = replace(few, rules=rules)
    assert len(few.rules) < len(rules)
    assert _grown(few) == _grown(every)
