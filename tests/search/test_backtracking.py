"""The graph-level baseline: it finds what its rules allow, keeps what the graph computes, and stops when told."""

from __future__ import annotations

import numpy as np
import pytest

from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import operator
from egraph_opt.rewrites.library import all_rules
from egraph_opt.runtime import Analytic
from egraph_opt.search import Pricer, backtrack
from egraph_opt.search.match import Subject, apply, matches

RULES = {r.name: r for r in all_rules()}


class Net:
    """A tensor graph under construction."""

    def __init__(self) -> None:
        self.graph, self.rng = TensorGraph(), np.random.default_rng(0)

    def input(self, name: str, *shape: int) -> int:
        return self.graph.add("Input", (name,), (), TensorType("float32", shape))

    def weight(self, *shape: int) -> int:
        return self.graph.constant(Constant.of(self.rng.normal(size=shape).astype(np.float32)))

    def op(self, name: str, *operands: int, attrs: tuple[object, ...] = ()) -> int:
        types = [self.graph.types[i] for i in operands]
        return self.graph.add(name, attrs, operands, operator(name).infer(attrs, types))  # type: ignore[arg-type]


def run(graph: TensorGraph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    values: list[object] = []
    for index, node in enumerate(graph.nodes):
        if node.op == "Input":
            values.append(feeds[str(node.attrs[0])])
        elif node.op == "Const":
            values.append(graph.value(index))
        elif node.op == "Get":
            values.append(values[node.operands[0]][node.attrs[0]])  # type: ignore[index]
        else:
            values.append(operator(node.op).evaluate(node.attrs, [values[i] for i in node.operands]))  # type: ignore[misc]
    return [np.asarray(values[i]) for i in graph.outputs]


def chain() -> tuple[Net, dict[str, np.ndarray]]:
    """x (A B) where A is tall and B is wide: from left to right costs far more than from right to left."""
    net = Net()
    x, a, b = net.input("x", 256, 256), net.input("a", 256, 256), net.input("b", 256, 1)
    net.graph.outputs = (net.op("MatMul", net.op("MatMul", x, a), b),)
    rng = np.random.default_rng(1)
    feeds = {
        n: rng.normal(size=s).astype(np.float32) for n, s in (("x", (256, 256)), ("a", (256, 256)), ("b", (256, 1)))
    }
    return net, feeds


def test_it_re_associates_a_chain_of_products() -> None:
    net, feeds = chain()
    found = backtrack(net.graph, all_rules(), Pricer(Analytic()), budget=10)
    assert found.cost < 0.5 * found.original
    assert found.trace[-1][1] == found.cost
    assert found.rules
    np.testing.assert_allclose(run(found.graph, feeds)[0], run(net.graph, feeds)[0], rtol=1e-2, atol=1e-2)


def test_it_merges_products_that_share_an_operand() -> None:
    net = Net()
    x = net.input("x", 512, 256)  # reading it takes most of the time
    net.graph.outputs = tuple(net.op("MatMul", x, net.weight(256, 2)) for _ in range(3))
    merging = [r for r in all_rules() if len(r.lhs) > 1]
    found = backtrack(net.graph, merging, Pricer(Analytic()), alpha=1.05, budget=20)
    products = [i for i in found.graph.live() if found.graph.nodes[i].op == "MatMul"]
    assert len(products) == 1
    feeds = {"x": np.random.default_rng(2).normal(size=(512, 256)).astype(np.float32)}
    for ours, theirs in zip(run(found.graph, feeds), run(net.graph, feeds), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_a_match_that_would_make_a_cycle_is_left_out() -> None:
    """The second product needs the first: merged, each would need the other."""
    net = Net()
    x = net.input("x", 8, 8)
    first = net.op("MatMul", x, net.weight(8, 8))
    net.graph.outputs = (net.op("MatMul", x, net.op("Mul", net.weight(8, 8), first)), first)
    merging = [r for r in all_rules() if len(r.lhs) > 1]
    subject = Subject(net.graph)
    assert not [m for r in merging for m in matches(subject, r)]  # its second operand is no weight
    for rule in all_rules():
        for match in matches(subject, rule):
            made = apply(subject, match)
            assert made is None or made.outputs


def test_every_rewriting_of_a_small_network_computes_the_same() -> None:
    net = Net()
    x = net.input("x", 2, 4, 6, 6)
    conv = net.op("Conv", x, net.weight(4, 4, 3, 3), attrs=((1, 1), (1, 1, 1, 1), (1, 1), 1))
    scaled = net.op("Mul", conv, net.weight(4, 1, 1))
    shifted = net.op("Relu", net.op("Add", scaled, net.weight(4, 1, 1)))
    turned = net.op("Transpose", net.op("Transpose", shifted, attrs=((0, 2, 3, 1),)), attrs=((0, 3, 1, 2),))
    net.graph.outputs = (net.op("Add", turned, shifted),)
    feeds = {"x": np.random.default_rng(3).normal(size=(2, 4, 6, 6)).astype(np.float32)}
    wanted = run(net.graph, feeds)[0]
    subject, fired = Subject(net.graph), set[str]()
    for rule in all_rules():
        for match in matches(subject, rule):
            made = apply(subject, match)
            if made is not None:
                fired.add(rule.name)
                np.testing.assert_allclose(run(made, feeds)[0], wanted, rtol=1e-3, atol=1e-3, err_msg=rule.name)
    assert len(fired) >= 4


@pytest.mark.parametrize("budget", [0, 1, 3])
def test_the_budget_counts_expanded_graphs(budget: int) -> None:
    net, _ = chain()
    found = backtrack(net.graph, all_rules(), Pricer(Analytic()), alpha=2.0, budget=budget)
    assert found.expanded <= budget
    assert found.cost <= found.original


def test_without_time_the_original_is_the_answer() -> None:
    net, _ = chain()
    found = backtrack(net.graph, all_rules(), Pricer(Analytic()), time_limit=0.0)
    assert found.cost == found.original
    assert not found.finished
