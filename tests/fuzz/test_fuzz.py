"""A part of the fuzzing that ``bench/fuzz.py`` does at length, and proof that it notices a wrong rule."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.ops import operator, operators
from egraph_opt.rewrites import Rule, rule
from egraph_opt.rewrites.library import all_rules

HELPFUL = ("add-commutes", "relu-idempotent", "transpose-of-transpose")
WRONG = {
    "drops an operator": rule("wrong", "Sigmoid(x)", "x", family="wrong"),
    "wrong number": rule("wrong", "Mul(x, 2)", "Mul(x, 1.99)", family="wrong"),
    "wrong order": rule("wrong", "Sub(x, y)", "Sub(y, x)", "shape(x) == shape(y)", family="wrong"),
    "forgets the padding": rule(
        "wrong", "AveragePool(Add(x, 1), **p)", "Add(AveragePool(x, **p), 1)", "p_ceil_mode == 0", family="wrong"
    ),
}


def test_no_disagreement_on_seeded_graphs(fuzzer: ModuleType) -> None:
    said: list[str] = []
    totals = fuzzer.fuzz(all_rules(), 24, 2024, say=said.append)
    assert not totals.faults, said
    assert not totals.runtime, said
    assert totals.graphs >= 20
    assert totals.extracted >= totals.graphs
    assert len(totals.operators) >= 30
    assert len(totals.fired) >= 30


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_caught_shrunk_and_named(fuzzer: ModuleType, graphs: ModuleType, name: str) -> None:
    wrong = WRONG[name]
    rules = (*(r for r in all_rules() if r.name in HELPFUL), wrong)
    graph = planted(graphs, wrong)
    feeds = fuzzer.feeds_of(graph, np.random.default_rng(0))
    found = fuzzer.check(graph, rules, feeds)
    assert found.faults
    text = fuzzer.report(graph, rules, 0, 0, found, False)
    assert "needs the rules wrong\n" in text, text
    assert "Abs" not in text, text  # what has nothing to do with it is gone


def planted(graphs: ModuleType, wrong: Rule) -> TensorGraph:
    """A left side of the rule, with an operator before and after it."""
    for seed in range(100):
        draft = graphs.Draft(np.random.default_rng(seed))
        graphs.plant(draft, wrong)
        graph = draft.graph
        pads = [n.attrs[2] for n in graph.nodes if n.op == "AveragePool" and n.attrs[5]]
        if wrong.lhs[0].op == "AveragePool" and not any(map(any, pads)):  # type: ignore[union-attr, arg-type]
            continue
        end = len(graph.nodes) - 1
        type_ = graph.types[end]
        assert isinstance(type_, TensorType)
        graph.outputs = (draft.apply("Abs", (), (end,)), draft.apply("Relu", (), (draft.apply("Abs", (), (end,)),)))
        return graph
    raise AssertionError("no case was drawn")


def test_every_operator_can_be_drawn(graphs: ModuleType) -> None:
    rng = np.random.default_rng(0)
    seen: set[str] = set()
    for name, declared in operators().items():
        if name == "Get":
            continue  # drawn with what has several outputs
        for _ in range(60):
            draft = graphs.Draft(rng)
            try:
                graphs.grow(draft, {name: declared})
            except graphs.IllTyped:
                continue
            seen.update(n.op for n in draft.graph.nodes)
            break
    assert seen >= set(operators()) - {"Get"}
    assert operator("Get").name in seen
