"""Local search and its order: after any kicks the state is what a fresh count says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from egraph_opt.egraph import EGraph
from egraph_opt.extraction.local import LocalSearch
from egraph_opt.extraction.problem import Problem
from egraph_opt.extraction.tree_greedy import cheapest_trees
from egraph_opt.extraction.treewidth import elimination_order


def random_problem(seed: int) -> Problem:
    """Cycles, repeated operands, classes that cannot be computed, negative costs."""
    rng = random.Random(seed)
    count = rng.randint(2, 14)
    nodes = [
        (f"f{index}", cls, [rng.randrange(count) for _ in range(rng.choice([0, 1, 1, 2, 3]))])
        for cls in range(count)
        for index in range(rng.randint(1, 4))
    ]
    costs = np.array([rng.choice([-2.0, 0.0, 0.3, 1.0, 4.0]) for _ in nodes])
    return Problem.build(EGraph.build([*nodes, ("x", 0, [])], [0, count - 1], count), np.append(costs, 5.0))


@pytest.mark.parametrize("block", range(10))
def test_kicks_keep_the_selection_acyclic_and_its_cost_right(block: int) -> None:
    for seed in range(30 * block, 30 * (block + 1)):
        problem = random_problem(seed)
        start, _ = cheapest_trees(problem, [abs(cost) for cost in problem.costs])
        if any(start[root] < 0 for root in problem.roots):
            continue
        search = LocalSearch(problem, 10**9)
        search.load(start)
        rng = random.Random(seed)
        nodes = [node for members in problem.nodes for node in members if start[problem.owner[node]] >= 0]
        for _ in range(40):
            before = search.cost
            rise = search.kick(rng.choice(nodes), rng.choice([0.0, 1.0, 5.0]))
            assert search.cost - before == pytest.approx(rise, abs=1e-9)
            assert problem.order(search.choice) is not None
            assert search.selection() == problem.trim(search.choice)
            assert problem.rank(search.selection())[0] == pytest.approx(search.cost, abs=1e-9)
            for cls, node in enumerate(search.choice):
                for child in problem.operands[node] if node >= 0 else ():
                    assert search.order.label[child] < search.order.label[cls]


def test_a_kick_without_allowance_never_makes_it_dearer() -> None:
    for seed in range(200):
        problem = random_problem(seed)
        start, _ = cheapest_trees(problem, [abs(cost) for cost in problem.costs])
        if any(start[root] < 0 for root in problem.roots):
            continue
        search = LocalSearch(problem, 10**9)
        search.load(start)
        before = problem.rank(problem.trim(start))[0]
        while search.sweep():
            cost = problem.rank(search.selection())[0]
            assert cost < before
            before = cost
        assert problem.rank(search.selection())[0] == pytest.approx(before)


def test_two_users_together_pay_for_what_neither_pays_for_alone() -> None:
    """The merged operator (class 3) costs more than either single one, and less than both."""
    nodes: list[tuple[str, int, list[int]]] = [
        ("mul", 0, []),
        ("get0", 0, [4]),
        ("mul", 1, []),
        ("get1", 1, [4]),
        ("root", 2, [0, 1]),
        ("merged", 3, []),
        ("split", 4, [3]),
    ]
    problem = Problem.build(EGraph.build(nodes, [2], 5), np.array([4.0, 0.0, 4.0, 0.0, 0.0, 5.0, 0.0]))
    search = LocalSearch(problem, 10**6)
    search.load([0, 2, 4, 5, 6])
    search.descend()
    assert search.cost == 8.0
    assert search.kick(5) == -3.0
    assert search.selection() == [1, 3, 4, 5, 6]


def test_the_order_moves_and_is_renumbered() -> None:
    """A long chain that turns around again and again, so that labels run out of room between two neighbours."""
    count = 12
    nodes: list[tuple[str, int, list[int]]] = [("leaf", cls, []) for cls in range(count)]
    nodes += [("up", cls, [(cls + 1) % count]) for cls in range(count)]
    problem = Problem.build(EGraph.build(nodes, [0], count), np.ones(2 * count))
    search = LocalSearch(problem, 10**9)
    search.load(list(range(count)))
    rng = random.Random(1)
    for _ in range(3000):
        search.kick(rng.randrange(2 * count), 1e9)
        assert problem.order(search.choice) is not None
        for cls, node in enumerate(search.choice):
            for child in problem.operands[node]:
                assert search.order.label[child] < search.order.label[cls]


def test_widths_of_known_graphs() -> None:
    path: list[tuple[str, int, list[int]]] = [("f", cls, [cls + 1]) for cls in range(9)]
    problem = Problem.build(EGraph.build([*path, ("x", 9, [])], [0], 10), np.ones(10))
    order, width = elimination_order(problem, 5)
    assert width == 1
    assert sorted(order or []) == list(range(10))
    grid: list[tuple[str, int, list[int]]] = []
    for row in range(4):
        for column in range(4):
            below = [4 * (row + 1) + column] * (row < 3) + [4 * row + column + 1] * (column < 3)
            grid += [("f", 4 * row + column, [child]) for child in below] or [("x", 15, [])]
    problem = Problem.build(EGraph.build(grid, [0], 16), np.ones(len(grid)))
    assert elimination_order(problem, 9)[1] == 4
    assert elimination_order(problem, 2)[0] is None
