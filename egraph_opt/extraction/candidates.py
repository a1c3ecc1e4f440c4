"""Several different answers to one problem: the sum of costs is a proxy, and the second best may be the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph, Selection, selection_cost
from egraph_opt.extraction.extract import extract
from egraph_opt.extraction.result import Extraction, Extractor, Moment, Status

_TRIES = 6
"""How often the penalties are doubled for one further answer."""


def extract_several(
    egraph: EGraph,
    costs: NDArray[np.float64],
    count: int,
    *,
    extractor: str | Extractor,
    time_limit: float | None = None,
    seed: int = 0,
    on_moment: Callable[[Moment], None] | None = None,
) -> list[Extraction]:
    """Up to ``count`` answers that select different e-nodes, by increasing cost; fewer if no more are found.

    The first is that of ``extract``. For each further one, the e-nodes of all answers so far are made dearer - each
    by a part of its cost and of the mean cost of an answer's e-node - until another answer is the cheapest. All
    carry the lower bound of the first. ``time_limit`` is for all together; ``on_moment`` hears of the first.

    Raises:
        UsageError, NoExtractionError: as ``extract``.
    """
    end = None if time_limit is None else monotonic() + time_limit

    def share(index: int) -> float | None:
        return None if end is None else max(0.0, end - monotonic()) / (count - index)

    def solve(index: int, priced: NDArray[np.float64], hear: Callable[[Moment], None] | None = None) -> Extraction:
        return extract(egraph, priced, extractor=extractor, time_limit=share(index), seed=seed, on_moment=hear)

    answers = [solve(0, costs, on_moment)]
    used = np.zeros(egraph.node_count)
    while len(answers) < count and answers[-1].status is not Status.INTERRUPTED:
        used[_nodes(egraph, answers[-1].selection)] += 1
        further = _further(egraph, costs, used, answers, solve)
        if further is None:
            break
        answers.append(further)
    return [answers[0], *sorted(answers[1:], key=lambda answer: answer.cost)]


def _further(
    egraph: EGraph,
    costs: NDArray[np.float64],
    used: NDArray[np.float64],
    answers: list[Extraction],
    solve: Callable[[int, NDArray[np.float64]], Extraction],
) -> Extraction | None:
    """The cheapest answer under penalties that are just high enough for it to differ from ``answers``."""
    best = answers[0]
    known = {tuple(_nodes(egraph, answer.selection)) for answer in answers}
    mean = abs(best.cost) / max(1, len(_nodes(egraph, best.selection))) or 1.0
    finite = np.where(np.isfinite(costs), costs, 0.0)
    strength = 0.01
    for _ in range(_TRIES):
        found = solve(len(answers), costs + strength * used * (np.abs(finite) + 0.1 * mean))
        if tuple(_nodes(egraph, found.selection)) not in known:
            cost = selection_cost(egraph, costs, found.selection)
            status = Status.OPTIMAL if cost <= best.lower_bound else Status.FEASIBLE
            if found.status is Status.INTERRUPTED:
                status = found.status
            return replace(found, cost=cost, lower_bound=min(best.lower_bound, cost), status=status, trace=())
        if found.status is Status.INTERRUPTED:
            return None
        strength *= 4.0
    return None


def _nodes(egraph: EGraph, selection: Selection) -> list[int]:
    return sorted(selection.order(egraph))
