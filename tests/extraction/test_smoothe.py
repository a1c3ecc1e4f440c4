"""The relaxation behind ``smoothe``: probabilities by enumeration, gradients by differences, cycles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph
from egraph_opt.extraction.problem import Problem
from egraph_opt.extraction.relaxation import Relaxation


def tree_problem() -> Problem:
    """No class has two users, so that all draws are independent."""
    nodes: list[tuple[str, int, list[int]]] = [("f", 0, [1, 2]), ("g", 0, [3]), ("x", 1, []), ("y", 1, [4])]
    nodes += [("z", 2, []), ("u", 3, []), ("v", 3, []), ("w", 4, [])]
    return Problem.build(EGraph.build(nodes, [0], 5), np.array([1.0, 2.0, 7.0, 1.0, 3.0, 4.0, 9.0, 2.0]))


def shared_problem() -> Problem:
    """Classes with several users, and a cycle between the classes 1 and 2."""
    nodes: list[tuple[str, int, list[int]]] = [("f", 0, [1, 2]), ("g", 0, [2]), ("x", 1, [2, 3]), ("y", 1, [])]
    nodes += [("z", 2, [1]), ("u", 2, [3]), ("v", 3, []), ("w", 3, [])]
    return Problem.build(EGraph.build(nodes, [0], 4), np.array([1.0, 2.0, 3.0, 8.0, 1.0, 4.0, 5.0, 6.0]))


def logits_of(problem: Problem, seeds: int = 3) -> NDArray[np.float64]:
    return np.random.default_rng(4).normal(size=(len(problem.costs), seeds))


def test_expected_cost_is_the_mean_over_all_draws_where_nothing_is_shared() -> None:
    problem = tree_problem()
    logits = logits_of(problem)
    weights: NDArray[np.float64] = Relaxation(problem, 3, 1.0).weights(logits)
    expected = [0.0, 0.0, 0.0]
    for draw in product(*problem.nodes):
        cost = problem.rank(problem.trim(draw))[0]
        for seed in range(3):
            expected[seed] += cost * prod(float(weights[node, seed]) for node in draw)
    costs, _ = Relaxation(problem, 3, 1.0).gradient(logits, 0.0, 20)
    assert costs == pytest.approx(expected, rel=1e-2)  # certain roots count as nearly certain


@pytest.mark.parametrize("make", [tree_problem, shared_problem])
def test_gradient_against_differences(make: Callable[[], Problem]) -> None:
    problem = make()
    logits = logits_of(problem)
    _, gradient = Relaxation(problem, 3, 1.0).gradient(logits, 0.0, 200)
    for node in range(len(problem.costs)):
        step = np.zeros_like(logits)
        step[node] = 1e-3
        above, _ = Relaxation(problem, 3, 1.0).gradient(logits + step, 0.0, 200)
        below, _ = Relaxation(problem, 3, 1.0).gradient(logits - step, 0.0, 200)
        assert gradient[node] == pytest.approx((above - below) / 2e-3, rel=0.02, abs=5e-3)


def test_the_penalty_turns_away_from_cycles_and_leaves_the_rest_alone() -> None:
    problem = shared_problem()
    logits = np.zeros((len(problem.costs), 1))
    plain = Relaxation(problem, 1, 1.0).gradient(logits, 0.0, 100)[1]
    penalty = Relaxation(problem, 1, 1.0).gradient(logits, 1.0, 100)[1] - plain
    assert penalty[2] > 0.0  # x: class 1 needs class 2
    assert penalty[4] > 0.0  # z: class 2 needs class 1
    assert penalty[6:] == pytest.approx(0.0, abs=1e-9)
