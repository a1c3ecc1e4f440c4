"""The solvers against enumeration, on problems that no reduction has made easy."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib.util import find_spec
from math import inf

import pytest

from egraph_opt.extraction.cp_sat import CpSatEngine
from egraph_opt.extraction.engine import Engine, HighsEngine, Task, Turns
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Clock
from egraph_opt.extraction.tree_greedy import cheapest_trees

needs_ortools = pytest.mark.skipif(find_spec("ortools") is None, reason="OR-Tools is not installed")
ENGINES = [
    pytest.param(HighsEngine(), id="highs"),
    pytest.param(CpSatEngine(), id="cp-sat", marks=needs_ortools),
    pytest.param(Turns((HighsEngine(), HighsEngine())), id="turns"),
]


def problems(count: int) -> Iterator[tuple[Problem, Choice]]:
    """Dense problems with many cycles, and a first choice."""
    rng = random.Random(11)
    while count:
        classes = rng.randint(4, 8)
        nodes: list[list[int]] = [[] for _ in range(classes)]
        owner: list[int] = []
        operands: list[tuple[int, ...]] = []
        for cls in range(classes):
            for _ in range(rng.randint(2, 4)):
                nodes[cls].append(len(owner))
                owner.append(cls)
                operands.append(tuple(sorted(rng.sample(range(classes), rng.choice([0, 1, 2, 2, 3])))))
        costs = [float(rng.choice([0, 1, 2, 5, 0.3])) + 3.0 * (not below) for below in operands]
        roots = sorted(rng.sample(range(classes), rng.randint(1, 2)))
        trees, _ = cheapest_trees(Problem(costs, operands, owner, nodes, roots), costs)
        usable = [[n for n in members if all(trees[d] >= 0 for d in operands[n])] for members in nodes]
        problem = Problem(costs, operands, owner, usable, roots)
        if all(trees[root] >= 0 for root in roots):
            count -= 1
            yield problem, problem.trim(trees)


def optimum(problem: Problem) -> float:
    """By enumeration."""

    def extend(chosen: dict[int, int], wanted: list[int]) -> float:
        wanted = [cls for cls in wanted if cls not in chosen]
        if not wanted:
            choice = [chosen.get(cls, -1) for cls in range(len(problem.nodes))]
            return inf if problem.order(choice) is None else sum(problem.costs[n] for n in chosen.values())
        return min(
            (extend(chosen | {wanted[0]: n}, [*wanted[1:], *problem.operands[n]]) for n in problem.nodes[wanted[0]]),
            default=inf,
        )

    return extend({}, problem.roots)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_finds_and_proves_the_optimum(engine: Engine) -> None:
    improved = 0
    for problem, start in problems(150):
        best, bounds = [start], [-inf]

        def report(
            choice: Choice | None, bound: float, best: list[Choice] = best, bounds: list[float] = bounds
        ) -> None:
            if choice is not None:
                best.append(choice)
            bounds.append(bound)

        task = Task(0, problem, start, -inf, inf)
        assert not engine.search(task, Clock(), 0, report, lambda: None)
        expected = optimum(problem)
        assert problem.order(best[-1]) is not None
        assert min(problem.rank(choice)[0] for choice in best) == pytest.approx(expected)
        assert max(bounds) == pytest.approx(expected) or problem.rank(start)[0] == pytest.approx(expected)
        assert max(bounds) <= expected + 1e-8
        improved += problem.rank(start)[0] > expected + 1e-8
    assert improved > 10


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_without_time_says_so_and_claims_nothing_wrong(engine: Engine) -> None:
    for problem, start in problems(10):
        bounds = [-inf]
        task = Task(0, problem, start, -inf, inf)
        engine.search(task, Clock(0.0), 0, lambda choice, bound, bounds=bounds: bounds.append(bound), lambda: None)
        assert max(bounds) <= optimum(problem) + 1e-8
