"""Answers under time limits and interrupts, traces, workers, several answers."""

from __future__ import annotations

import random
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph, selection_cost
from egraph_opt.extraction import Moment, Status, extract, extract_several
from egraph_opt.extraction.board import Board
from egraph_opt.extraction.child import Child
from egraph_opt.extraction.dag_greedy import DagGreedy
from egraph_opt.extraction.engine import HighsEngine, Task
from egraph_opt.extraction.neighbourhood import Neighbourhood
from egraph_opt.extraction.parallel import search_beside, task
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Clock
from egraph_opt.extraction.worker import Ended, Job


def covering(elements: int, sets: int, seed: int) -> tuple[EGraph, NDArray[np.float64]]:
    """Set covering, which is hard to prove: a root needs all elements; each is in some of the sets, which cost."""
    rng = random.Random(seed)
    nodes: list[tuple[str, int, list[int]]] = [("all", 0, list(range(1, elements + 1)))]
    for element in range(1, elements + 1):
        for chosen in rng.sample(range(sets), 4):
            nodes.append(("in", element, [1 + elements + chosen]))
    nodes += [("set", 1 + elements + index, []) for index in range(sets)]
    costs = np.array([float(rng.randint(20, 30)) if label == "set" else 0.0 for label, _, _ in nodes])
    return EGraph.build(nodes, [0], 1 + elements + sets), costs


LARGE = covering(150, 70, 1)


@pytest.mark.parametrize("name", ["lns", "ilp", "portfolio"])
def test_a_search_that_is_cut_short_has_a_checked_answer_and_a_valid_bound(name: str) -> None:
    greedy = extract(*LARGE, extractor="dag-greedy", time_limit=0.0)
    result = extract(*LARGE, extractor=name, time_limit=0.5)
    assert result.cost == selection_cost(*LARGE, result.selection)
    assert result.lower_bound <= result.cost <= greedy.cost
    assert result.status in (Status.TIME_LIMIT, Status.OPTIMAL, Status.FEASIBLE)


@pytest.mark.parametrize("name", ["ilp", "portfolio"])
@pytest.mark.parametrize("seed", range(6))
def test_what_the_solver_proves_at_once_needs_no_greedy_answer(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    easy = covering(20, 60, seed)
    expected = extract(*easy, extractor="dag-greedy").lower_bound
    improved: list[Board] = []
    monkeypatch.setattr(Board, "improve", improved.append)
    result = extract(*easy, extractor=name)
    assert not improved
    assert result.status is Status.OPTIMAL
    assert result.cost >= expected


def layered(layers: int, width: int, seed: int) -> tuple[EGraph, NDArray[np.float64]]:
    """Layers of classes, each with three e-nodes of two classes of the next layer."""
    rng = random.Random(seed)
    nodes: list[tuple[str, int, list[int]]] = [("all", 0, list(range(1, width + 1)))]
    for cls in range(1, 1 + layers * width):
        last = (cls - 1) // width + 1
        below = range(1 + last * width, 1 + (last + 1) * width) if last < layers else range(0)
        nodes += [("op", cls, sorted(rng.sample(below, 2)) if below else []) for _ in range(3)]
    return EGraph.build(nodes, [0], 1 + layers * width), np.array([0.0, *(rng.randint(1, 9) for _ in nodes[1:])])


def test_a_better_answer_reduces_before_the_whole_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.build(*layered(12, 8, 0))
    board = Board(problem, Clock(), local=False)
    before = board.clock.cost
    steps: list[str] = []
    best, reduce = DagGreedy.best_choice, Board.reduce

    def searching(self: DagGreedy, searched: Problem, *others: Any) -> Choice:
        steps.append("whole" if searched is problem else "part")
        return best(self, searched, *others)

    def reducing(self: Board, *others: Any, **options: Any) -> None:
        steps.append("reduce")
        assert board.clock.cost < before
        reduce(self, *others, **options)

    monkeypatch.setattr(DagGreedy, "best_choice", searching)
    monkeypatch.setattr(Board, "reduce", reducing)
    board.improve()
    assert steps[:3] == ["part", "reduce", "whole"]


@pytest.mark.parametrize("name", ["ilp", "portfolio"])
def test_an_interrupt_ends_the_search_with_the_best_answer(name: str) -> None:
    def interrupt(moment: Moment) -> None:
        if moment.lower_bound > 0:
            raise KeyboardInterrupt

    result = extract(*LARGE, extractor=name, on_moment=interrupt)
    assert result.status is Status.INTERRUPTED
    assert result.lower_bound <= result.cost
    assert result.selection.order(LARGE[0])


def test_the_trace_only_gets_better_and_ends_with_the_answer() -> None:
    heard: list[Moment] = []
    egraph, costs = covering(25, 15, 3)
    result = extract(egraph, costs, on_moment=heard.append)
    assert result.status is Status.OPTIMAL
    assert tuple(heard) == result.trace
    for before, after in pairwise(heard):
        assert after.seconds >= before.seconds
        assert after.cost <= before.cost
        assert after.lower_bound >= before.lower_bound
    assert heard[-1].cost == result.cost
    assert heard[-1].lower_bound == pytest.approx(result.lower_bound)


def test_a_worker_finds_what_a_search_here_finds() -> None:
    egraph, costs = covering(25, 15, 4)
    problem = Problem.build(egraph, costs)
    expected = extract(egraph, costs, extractor="ilp")
    assert expected.status is Status.OPTIMAL
    board = Board(problem, Clock(60.0))
    search_beside(board, HighsEngine(), 0, lambda: None)
    assert board.done
    assert board.clock.cost == expected.cost


def test_a_worker_hears_of_choices_and_ends_when_told() -> None:
    board = Board(Problem.build(*LARGE), Clock())
    (index,) = board.open_parts()
    known = task(board, index)
    with Child(Job(HighsEngine(), [known], inf, 0)) as child:
        child.tell(index, known.start)
        message = None
        while message is None:
            message = child.hear(5.0)
        assert not isinstance(message, Ended)
        assert message[0] == index


def test_a_worker_that_fails_has_ended() -> None:
    broken = Task(0, Problem([1.0], [(5,)], [0], [[0]], [0]), [0], -inf, inf)
    with Child(Job(HighsEngine(), [broken], inf, 0)) as child:
        message = None
        while message is None:
            message = child.hear(5.0)
    assert message == Ended(False, {})


def test_neighbourhoods_never_get_worse_and_depend_on_the_seed_alone() -> None:
    board = Board(Problem.build(*covering(60, 30, 5)), Clock())
    (index,) = board.open_parts()
    part = board.parts[index].problem

    def costs(seed: int) -> list[float]:
        search = Neighbourhood(part, board.best[index], seed, seconds=60.0)
        steps: list[float] = []
        for _ in range(8):
            search.step(Clock())
            assert part.order(search.best) is not None
            assert part.rank(search.best)[0] == search.cost
            steps.append(search.cost)
        return steps

    first = costs(1)
    assert first == sorted(first, reverse=True)
    assert first == costs(1)


def test_several_answers_are_different_and_ordered() -> None:
    egraph, costs = covering(20, 12, 6)
    answers = extract_several(egraph, costs, 4, extractor="portfolio")
    assert len(answers) == 4
    assert answers[0].status is Status.OPTIMAL
    selections = [tuple(sorted(answer.selection.order(egraph))) for answer in answers]
    assert len(set(selections)) == 4
    for answer in answers:
        assert answer.cost == selection_cost(egraph, costs, answer.selection)
        assert answer.lower_bound <= answers[0].cost <= answer.cost
    assert [answer.cost for answer in answers] == sorted(answer.cost for answer in answers)


def test_no_more_answers_than_there_are() -> None:
    egraph = EGraph.build([("f", 0, [1]), ("x", 1, [])], [0], 2)
    assert len(extract_several(egraph, np.ones(2), 3, extractor="portfolio")) == 1
