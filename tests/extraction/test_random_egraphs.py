"""Every strategy against enumeration on hundreds of small e-graphs."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph, Selection, selection_cost
from egraph_opt.extraction import (
    Extraction,
    Extractor,
    Guarantee,
    NoExtractionError,
    Status,
    extract,
    extractors,
    get_extractor,
)
from egraph_opt.extraction.problem import Problem
from egraph_opt.extraction.reduce import reduce
from egraph_opt.extraction.tree_greedy import cheapest_trees

NOISE = 2e-9
"""Relative difference of two costs that "optimal" leaves open."""
CASES = int(os.environ.get("EGRAPH_OPT_RANDOM_CASES", "300"))
"""How many e-graphs each strategy must get right; releases are tested with 2000."""

STRATEGIES = [pytest.param(strategy, id=strategy.name) for strategy in extractors()]


@dataclass(frozen=True)
class Case:
    """A small e-graph with costs and forbidden e-nodes, and what enumeration says about it."""

    egraph: EGraph
    costs: NDArray[np.float64]
    forbidden: NDArray[np.bool_]

    @cached_property
    def optimum(self) -> float:
        """The least DAG cost of an acyclic selection, by enumeration; inf if there is none."""
        return min((cost for cost in self._all_costs(dict.fromkeys(self.egraph.roots.tolist()))), default=inf)

    def _all_costs(self, roots: dict[int, None]) -> Iterator[float]:
        """The cost of every acyclic closed selection: classes are decided as soon as they are needed."""
        egraph, costs = self.egraph, self.costs

        def extend(chosen: dict[int, int], wanted: list[int]) -> Iterator[float]:
            wanted = [cls for cls in wanted if cls not in chosen]
            if not wanted:
                if is_acyclic(egraph, chosen):
                    yield float(sum(costs[node] for node in chosen.values()))
                return
            cls = wanted[0]
            for node in egraph.nodes_of(cls).tolist():
                if not self.forbidden[node] and costs[node] < inf:
                    yield from extend(chosen | {cls: node}, [*wanted[1:], *egraph.operands(node).tolist()])

        yield from extend({}, list(roots))


def is_acyclic(egraph: EGraph, chosen: dict[int, int]) -> bool:
    """Whether repeatedly taking away classes all of whose operands are gone takes away everything."""
    left = set(chosen)
    while left:
        ready = {cls for cls in left if left.isdisjoint(egraph.operands(chosen[cls]).tolist())}
        if not ready:
            return False
        left -= ready
    return True


def random_case(seed: int, *, negative: bool = False) -> Case:
    """Up to 8 classes of up to 3 e-nodes: cycles, repeated operands, several roots, free and unusable e-nodes."""
    rng = random.Random(seed)
    classes = rng.randint(1, 8)
    nodes: list[tuple[str, int, list[int]]] = []
    for cls in range(classes):
        for index in range(rng.randint(1, 3)):
            operands = [rng.randrange(classes) for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))]
            nodes.append((f"op{index}", cls, operands))
    rng.shuffle(nodes)
    palettes = [[0, 1, 2, 3], [0, 0, 0, 5], [0.1, 0.2, 0.3, 1e-6], [1.0], [0, 1e-5, 3e-5, 12345.678]]
    palette = [-3, -1, 0, 1, 4] if negative else rng.choice(palettes)
    costs = np.array([inf if rng.random() < 0.03 else rng.choice(palette) for _ in nodes], np.float64)
    forbidden = np.array([rng.random() < 0.05 for _ in nodes])
    roots = [rng.randrange(classes) for _ in range(rng.choice([1, 1, 2, 3]))]
    return Case(EGraph.build(nodes, roots, classes), costs, forbidden)


@pytest.fixture(scope="session")
def cases() -> list[Case]:
    return [random_case(seed) for seed in range(CASES)]


@pytest.fixture(scope="session")
def negative_cases() -> list[Case]:
    return [random_case(seed, negative=True) for seed in range(CASES // 3)]


def check(case: Case, result: Extraction, optimum: float) -> None:
    """What every answer owes, whatever the strategy promises."""
    assert result.cost == pytest.approx(selection_cost(case.egraph, case.costs, result.selection))
    noise = NOISE * abs(optimum)
    assert result.lower_bound <= optimum + noise
    assert optimum <= result.cost + noise
    selected = result.selection.choice[result.selection.choice >= 0]
    assert not case.forbidden[selected].any()
    assert sorted(selected.tolist()) == sorted(result.selection.order(case.egraph)), "selects what no root needs"
    if result.status is Status.OPTIMAL:
        assert result.cost == pytest.approx(optimum, rel=NOISE, abs=1e-12)
        assert result.gap == 0.0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_against_enumeration(strategy: type[Extractor], cases: list[Case]) -> None:
    possible = 0
    for case in cases:
        optimum = case.optimum
        if optimum == inf:
            with pytest.raises(NoExtractionError, match="root class"):
                extract(case.egraph, case.costs, extractor=strategy.name, forbidden=case.forbidden)
            continue
        possible += 1
        result = extract(case.egraph, case.costs, extractor=strategy.name, forbidden=case.forbidden)
        check(case, result, optimum)
        if strategy.guarantee is Guarantee.DAG_OPTIMAL:
            assert result.status is Status.OPTIMAL
    assert possible >= CASES // 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_negative_costs_are_right_or_refused(strategy: type[Extractor], negative_cases: list[Case]) -> None:
    for case in negative_cases:
        optimum = case.optimum
        if optimum == inf or not strategy.takes_negative_costs:
            continue
        result = extract(case.egraph, case.costs, extractor=strategy.name, forbidden=case.forbidden)
        check(case, result, optimum)
        if strategy.guarantee is Guarantee.DAG_OPTIMAL:
            assert result.status is Status.OPTIMAL


def test_no_strategy_loses_to_tree_greedy_or_the_one_before(cases: list[Case]) -> None:
    for case in cases:
        if case.optimum == inf:
            continue
        tree, dag, ilp = (
            extract(case.egraph, case.costs, extractor=name, forbidden=case.forbidden).cost
            for name in ("tree-greedy", "dag-greedy", "ilp")
        )
        assert dag <= tree
        assert ilp <= dag + NOISE * abs(dag)


def test_costs_that_differ_by_less_than_what_is_proved() -> None:
    """Found among 2000 cases: a greedy answer that is better than the proven one in the tenth digit."""
    for case in (random_case(786), random_case(1017)):
        dag, ilp = (
            extract(case.egraph, case.costs, extractor=name, forbidden=case.forbidden) for name in ("dag-greedy", "ilp")
        )
        check(case, dag, case.optimum)
        check(case, ilp, case.optimum)
        assert ilp.cost <= dag.cost + NOISE * abs(dag.cost)


def test_tree_greedy_has_the_least_tree_cost(cases: list[Case]) -> None:
    for case in cases:
        if case.optimum == inf:
            continue
        least = least_tree_costs(case)
        result = extract(case.egraph, case.costs, extractor="tree-greedy", forbidden=case.forbidden)
        roots: list[int] = case.egraph.roots.tolist()
        for root in roots:
            assert tree_cost(case, result.selection, root) == pytest.approx(least[root])


def least_tree_costs(case: Case) -> list[float]:
    """Bellman-Ford: repeat until nothing changes."""
    least = [inf] * case.egraph.class_count
    owner: list[int] = case.egraph.node_class.tolist()
    for _ in range(case.egraph.class_count + 1):
        for node, cls in enumerate(owner):
            operands: list[int] = case.egraph.operands(node).tolist()
            if not case.forbidden[node]:
                least[cls] = min(least[cls], float(case.costs[node]) + sum(least[child] for child in operands))
    return least


def tree_cost(case: Case, selection: Selection, cls: int) -> float:
    node = int(selection.choice[cls])
    return case.costs[node] + sum(tree_cost(case, selection, child) for child in case.egraph.operands(node).tolist())


def test_reductions_keep_the_best_cost(cases: list[Case], negative_cases: list[Case]) -> None:
    for case in [*cases, *negative_cases]:
        optimum = case.optimum
        if optimum == inf:
            continue
        problem = Problem.build(case.egraph, case.costs, case.forbidden)
        for upper in (inf, optimum):
            reduced = reduce(problem, upper)
            assert reduced.base + best_cost(reduced.problem) == pytest.approx(optimum)


def test_a_choice_for_the_reduced_problem_lifts_to_one_of_the_same_cost(cases: list[Case]) -> None:
    for case in cases:
        if case.optimum == inf:
            continue
        problem = Problem.build(case.egraph, case.costs, case.forbidden)
        reduced = reduce(problem)
        choice, _ = cheapest_trees(reduced.problem, reduced.problem.costs)
        choice = reduced.problem.trim(choice)
        lifted = reduced.lift(problem, choice)
        cost = selection_cost(case.egraph, case.costs, Selection(np.array(lifted, np.int64)))
        assert cost == pytest.approx(reduced.base + reduced.problem.rank(choice)[0])


def best_cost(problem: Problem) -> float:
    """Enumeration over a problem instead of an e-graph."""

    def extend(chosen: dict[int, int], wanted: list[int]) -> float:
        wanted = [cls for cls in wanted if cls not in chosen]
        if not wanted:
            choice = [chosen.get(cls, -1) for cls in range(len(problem.nodes))]
            return inf if problem.order(choice) is None else sum(problem.costs[node] for node in chosen.values())
        return min(
            (extend(chosen | {wanted[0]: n}, [*wanted[1:], *problem.operands[n]]) for n in problem.nodes[wanted[0]]),
            default=inf,
        )

    return extend({}, problem.roots)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_same_arguments_same_answer(strategy: type[Extractor], cases: list[Case]) -> None:
    for case in cases[:60]:
        if case.optimum == inf:
            continue
        first, second = (
            extract(case.egraph, case.costs, extractor=get_extractor(strategy.name), forbidden=case.forbidden, seed=3)
            for _ in range(2)
        )
        assert first.selection.choice.tolist() == second.selection.choice.tolist()
