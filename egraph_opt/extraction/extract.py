"""The way through the room: validate, solve, check on the e-graph as it was given."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph, Selection, SelectionError, selection_cost
from egraph_opt.errors import UsageError
from egraph_opt.extraction.problem import Choice, NoExtractionError, Problem
from egraph_opt.extraction.registry import get_extractor
from egraph_opt.extraction.result import (
    Answer,
    Clock,
    Extraction,
    Extractor,
    Moment,
    OutOfTimeError,
    Status,
    relative_gap,
)
from egraph_opt.extraction.tree_greedy import cheapest_trees, complete

_PROVEN = 1e-9  # relative: what double precision and the solver's tolerances can tell apart


def extract(
    egraph: EGraph,
    costs: NDArray[np.float64],
    *,
    extractor: str | Extractor = "portfolio",
    time_limit: float | None = None,
    seed: int = 0,
    forbidden: NDArray[np.bool_] | None = None,
    warm_start: Selection | None = None,
    on_moment: Callable[[Moment], None] | None = None,
) -> Extraction:
    """The cheapest acyclic selection that a strategy finds, where each selected e-node counts once.

    The same arguments give the same selection, unless the time limit ends the search or the strategy says otherwise.
    A KeyboardInterrupt ends the search with the best answer so far.

    Args:
        egraph: n e-nodes, any number of roots, repetitions allowed.
        costs: (n,) cost per e-node in any unit; +inf for an e-node that must not be selected.
        extractor: name of a strategy, or one from ``get_extractor``.
        time_limit: seconds after which the best answer so far is returned; None waits for the strategy to end.
            Reading the e-graph and a first greedy answer are never cut short.
        seed: for strategies that make random choices.
        forbidden: (n,) true for e-nodes that must not be selected.
        warm_start: an answer to start from. Unless the strategy says otherwise, the result is not worse than it;
            if it cannot be used as it is, what can be used of it is.
        on_moment: called with each better cost or lower bound, by strategies that tell.

    Raises:
        UsageError: an array has the wrong shape, a cost is NaN or -inf, costs are negative where the strategy
            needs them not to be, the strategy is unknown, or the time limit is negative.
        NoExtractionError: a root has no acyclic selection of finite cost.
    """
    strategy = get_extractor(extractor) if isinstance(extractor, str) else extractor
    if time_limit is not None and not time_limit >= 0:
        raise UsageError(f"the time limit must be a number of seconds, zero or more, not {time_limit}")
    clock = Clock(time_limit, on_moment=on_moment)
    with clock.stage("read"):
        problem = Problem.build(egraph, costs, forbidden)
        if problem.has_negative_costs and not strategy.takes_negative_costs:
            raise UsageError(f"extractor {strategy.name!r} is not right with negative costs; use 'ilp'")
        trees, start = _checked_starts(egraph, problem, warm_start)
    try:
        answer = strategy.solve(problem, clock, seed=seed, warm_start=start) if problem.roots else Answer(trees, 0.0)
    except (KeyboardInterrupt, OutOfTimeError) as reason:
        for choice in (trees, start):
            if choice is not None:
                clock.found(problem, choice)
        interrupted = isinstance(reason, KeyboardInterrupt)
        answer = Answer(clock.best or trees, clock.lower_bound, not interrupted, interrupted=interrupted)
    with clock.stage("check"):
        return _checked(egraph, costs, problem, answer, strategy.name, clock)


def _checked_starts(egraph: EGraph, problem: Problem, warm_start: Selection | None) -> tuple[Choice, Choice | None]:
    """A choice of cheapest trees, and the warm start made closed and acyclic; None without one.

    Raises:
        NoExtractionError: a root has no acyclic selection of finite cost, with or without a warm start.
    """
    choice, _ = cheapest_trees(problem, [abs(cost) for cost in problem.costs])
    for root in problem.roots:
        if choice[root] < 0:
            raise NoExtractionError(
                f"root class {root} cannot be computed: each of its e-nodes is forbidden, has infinite cost, "
                "or needs a class that cannot be computed without it"
            )
    trees = problem.trim(choice)
    if warm_start is None:
        return trees, None
    if warm_start.choice.shape != (egraph.class_count,):
        raise UsageError(
            f"a warm start has one entry per e-class: shape ({egraph.class_count},), not {warm_start.choice.shape}"
        )
    return trees, problem.trim(complete(problem, warm_start.choice.tolist()))


def _checked(
    egraph: EGraph, costs: NDArray[np.float64], problem: Problem, answer: Answer, name: str, clock: Clock
) -> Extraction:
    """The answer with its cost recomputed on ``egraph``; raises SelectionError if the strategy is broken."""
    choice = answer.choice or [-1] * egraph.class_count
    for cls, node in enumerate(choice):
        if node >= 0 and node not in problem.nodes[cls]:
            raise SelectionError(f"extractor {name!r} selected e-node {node} for class {cls}, which must not be")
    selection = Selection(np.array(choice, np.int64))
    cost = selection_cost(egraph, np.asarray(costs, np.float64), selection)
    lower_bound = min(answer.lower_bound, cost)
    if relative_gap(cost, lower_bound) <= _PROVEN:
        lower_bound, status = cost, Status.OPTIMAL
    elif answer.interrupted:
        status = Status.INTERRUPTED
    else:
        status = Status.TIME_LIMIT if answer.timed_out else Status.FEASIBLE
    moments = tuple(clock.trace)
    return Extraction(selection, cost, lower_bound, status, clock.seconds, name, answer.notes, moments)
