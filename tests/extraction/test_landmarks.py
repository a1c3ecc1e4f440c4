"""Landmarks against enumeration: each is hit by every selection, and the bound never exceeds the optimum."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from egraph_opt.extraction import landmarks as module
from egraph_opt.extraction.landmarks import landmarks
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.tree_greedy import cheapest_trees


def problems() -> Iterator[Problem]:
    """Small problems in which every class can be computed; several roots, cycles, free e-nodes."""
    rng = random.Random(7)
    for _ in range(600):
        classes = rng.randint(1, 6)
        nodes: list[list[int]] = [[] for _ in range(classes)]
        owner: list[int] = []
        operands: list[tuple[int, ...]] = []
        for cls in range(classes):
            for _ in range(rng.randint(1, 3)):
                nodes[cls].append(len(owner))
                owner.append(cls)
                operands.append(tuple(sorted(rng.sample(range(classes), rng.randint(0, min(3, classes))))))
        costs = [float(rng.choice([0, 0, 1, 2, 5, 0.3])) for _ in owner]
        roots = sorted(rng.sample(range(classes), rng.randint(1, classes)))
        trees, _ = cheapest_trees(Problem(costs, operands, owner, nodes, roots), costs)
        usable = [[n for n in members if all(trees[d] >= 0 for d in operands[n])] for members in nodes]
        yield Problem(costs, operands, owner, usable, [root for root in roots if trees[root] >= 0])


def selections(problem: Problem) -> Iterator[Choice]:
    """Every trimmed choice."""

    def extend(chosen: dict[int, int], wanted: list[int]) -> Iterator[Choice]:
        wanted = [cls for cls in wanted if cls not in chosen]
        if not wanted:
            choice = [chosen.get(cls, -1) for cls in range(len(problem.nodes))]
            if problem.order(choice) is not None:
                yield choice
            return
        for node in problem.nodes[wanted[0]]:
            yield from extend(chosen | {wanted[0]: node}, [*wanted[1:], *problem.operands[node]])

    yield from extend({}, problem.roots)


@pytest.mark.parametrize("fresh", [True, False])
def test_every_selection_contains_each_landmark_and_costs_the_bound_and_the_rest(fresh: bool) -> None:
    found_any = 0
    for problem in problems():
        result = landmarks(problem, fresh=fresh)
        found_any += bool(result.found)
        for choice in selections(problem):
            selected = {node for node in choice if node >= 0}
            assert all(not selected.isdisjoint(landmark.nodes) for landmark in result.found)
            rest = sum(result.left[node] for node in selected)
            assert result.bound + rest <= problem.rank(choice)[0] + 1e-9
    assert found_any > 100


def test_shared_costs_are_not_counted_twice() -> None:
    """Both operands of the root lead to class 3, on different ways: its cost is paid once, and in any case."""
    problem = Problem([0.0, 1.0, 1.0, 5.0], [(1, 2), (3,), (3,), ()], [0, 1, 2, 3], [[0], [1], [2], [3]], [0])
    assert landmarks(problem).bound == 7.0


def test_the_search_for_landmarks_can_be_ended_early() -> None:
    problem = Problem([0.0, 1.0, 1.0, 5.0], [(1, 2), (3,), (3,), ()], [0, 1, 2, 3], [[0], [1], [2], [3]], [0])
    assert landmarks(problem, stop=lambda: True).bound == 0.0
    assert 3.0 < landmarks(problem, enough=3.0).bound <= 7.0


@pytest.mark.parametrize("costs", [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]])
def test_other_costs_than_those_of_the_problem(costs: list[float]) -> None:
    problem = Problem([0.0, 1.0, 1.0, 5.0], [(1, 2), (3,), (3,), ()], [0, 1, 2, 3], [[0], [1], [2], [3]], [0])
    assert landmarks(problem, costs).bound == sum(costs)


def test_paths_are_brought_up_to_date_as_if_they_were_found_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only a few classes are looked at again: that is why a deep graph takes time that grows as its depth does."""
    compared = 0
    shorten = module.shorten_paths

    def watched(problem: Problem, costs: list[float], paths: list[float], dearest: list[int], cheaper: object) -> None:
        nonlocal compared
        shorten(problem, costs, paths, dearest, cheaper)  # type: ignore[arg-type]
        wanted, first = module.find_paths(problem, costs)
        assert paths == wanted
        for got, other in zip(dearest, first, strict=True):
            assert (got < 0) == (other < 0)
            assert got < 0 or paths[got] == paths[other]
        compared += 1

    monkeypatch.setattr(module, "shorten_paths", watched)
    for problem in problems():
        landmarks(problem)
    assert compared > 500


def test_of_very_many_operands_each_is_looked_at_once() -> None:
    """Not once per landmark, of which there are as many."""
    width, looks = 500, 0

    class Operands(tuple[int, ...]):
        def __iter__(self) -> Iterator[int]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    costs = [float(1 + i * 7 % width) for i in range(width)]
    operands: list[tuple[int, ...]] = [*[()] * width, Operands(range(width))]
    nodes = [[i] for i in range(width + 1)]
    problem = Problem([*costs, 1.0], operands, list(range(width + 1)), nodes, [width])
    found = landmarks(problem, fresh=False)
    assert found.bound == sum(costs) + 1
    assert len(found.found) == width + 1
    assert looks < 20
