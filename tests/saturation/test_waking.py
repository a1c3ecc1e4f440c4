"""Rules are compiled when what they look for is there, and no later."""

from __future__ import annotations

import numpy as np

from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import operator
from egraph_opt.rewrites import Rule, rule
from egraph_opt.saturation.engine import Engine
from egraph_opt.saturation.saturate import problem_of

SQUARE = TensorType("float32", (2, 2))


def _grown(graph: TensorGraph, rules: tuple[Rule, ...]) -> tuple[Engine, set[str]]:
    """The engine after its last round, and the rules that matched."""
    engine, matched = Engine(problem_of(graph, rules)), set[str]()
    while (report := engine.iterate(merge=False)).changed:
        matched |= {name for name, found in report.rules.items() if found.matches}
    return engine, matched


def _unary(*ops: str) -> TensorGraph:
    graph = TensorGraph()
    last = graph.add("Input", ("x",), (), SQUARE)
    for op in ops:
        last = graph.add(op, (), (last,), operator(op).infer((), [SQUARE]))
    graph.outputs = (last,)
    return graph


def test_a_rule_wakes_when_another_brings_in_what_it_looks_for() -> None:
    rules = (
        rule("third", "Exp(x)", "Log(x)"),
        rule("second", "Tanh(Neg(x))", "Exp(Abs(x))", "rank(x) == 2"),
        rule("first", "Relu(x)", "Tanh(Neg(x))"),
        rule("elsewhere", "Exp(Relu(x))", "Sqrt(x)", "rank(x) == 3"),
    )
    engine, matched = _grown(_unary("Relu"), rules)
    assert {"first", "second", "third"} <= matched
    assert {t.op for t in engine.snapshot().tables if t.classes} == {
        "Input",
        "Relu",
        "Tanh",
        "Neg",
        "Exp",
        "Abs",
        "Log",
    }


def test_a_rule_whose_operators_meet_one_after_another_wakes_once_the_last_do() -> None:
    rules = (
        rule("chain", "Neg(Relu(Exp(x)))", "Log(x)"),
        rule("first", "Sin(x)", "Neg(Abs(x))"),
        rule("second", "Abs(x)", "Relu(Exp(x))"),
        rule("never", "Exp(Relu(x))", "Sqrt(x)"),
    )
    graph = _unary("Sin", "Exp", "Relu")  # Relu of Exp is there from the start, Neg of Relu after two rounds
    engine, matched = _grown(graph, rules)
    assert matched == {"chain", "first", "second"}
    assert ("Sqrt", 1) not in engine.constructors


def test_what_a_sleeping_rule_would_make_is_not_declared() -> None:
    rules = (rule("asked", "Relu(x)", "Exp(x)", "rank(x) == 3"), rule("matched", "Neg(Relu(x))", "Abs(x)"))
    engine, _ = _grown(_unary("Neg", "Relu"), rules)  # Relu of Neg: both operators are there, the chain is not
    assert ("Exp", 1) in engine.constructors  # it matched, and was refused by its condition
    engine, _ = _grown(_unary("Neg"), rules)
    assert ("Exp", 1) not in engine.constructors


def test_a_rule_with_a_number_wakes_when_a_constant_has_it() -> None:
    rules = (rule("neutral", "Mul(x, 1.0)", "x"), rule("double", "Mul(x, 2.0)", "Add(x, x)"))
    graph = TensorGraph()
    x, one = graph.add("Input", ("x",), (), SQUARE), graph.constant(Constant.of(np.ones((2, 2), np.float32)))
    graph.outputs = (graph.add("Mul", (), (x, one), SQUARE),)
    engine, matched = _grown(graph, rules)
    assert matched == {"neutral"}
    found = engine.snapshot()
    assert found.node_class[graph.outputs[0]] == found.node_class[x]
    assert ("Add", 2) not in engine.constructors


def test_a_rule_waits_for_operands_in_their_places_and_for_constants() -> None:
    rules = (
        rule("left", "Sub(Exp(x), y)", "Abs(y)"),
        rule("right", "Sub(x, Exp(y))", "Neg(x)"),
        rule("constant", "Sub(x, c)", "Sqrt(x)", "const(c)"),
    )
    graph = TensorGraph()
    x, y = graph.add("Input", ("x",), (), SQUARE), graph.add("Input", ("y",), (), SQUARE)
    graph.outputs = (graph.add("Sub", (), (x, graph.add("Exp", (), (y,), SQUARE)), SQUARE),)
    graph.outputs += (graph.add("Relu", (), (graph.constant(Constant.of(np.ones((2, 2), np.float32))),), SQUARE),)
    engine, matched = _grown(graph, rules)
    assert matched == {"right"}
    assert {("Abs", 1), ("Sqrt", 1)}.isdisjoint(engine.constructors)
