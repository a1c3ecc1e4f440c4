"""The cheapest selection while most costs are only known to be no less than a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from time import monotonic
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph, Selection, selection_cost
from egraph_opt.extraction.extract import extract
from egraph_opt.extraction.landmarks import landmarks
from egraph_opt.extraction.problem import Problem
from egraph_opt.extraction.result import Extraction, Extractor, Status
from egraph_opt.extraction.tree_greedy import cheapest_trees

_TOLERANCE = 1e-9  # relative: that of ``Status.OPTIMAL``


class LazyCosts(Protocol):
    """Costs of n e-nodes, some of them not looked up yet. The answers change with each ``settle``."""

    @property
    def seconds(self) -> NDArray[np.float64]:
        """(n,) the cost where ``exact``, else a lower bound of it."""
        ...

    @property
    def exact(self) -> NDArray[np.bool_]:
        """(n,) whether the cost is known."""
        ...

    @property
    def bounds_hold(self) -> bool:
        """False once a cost turned out below the bound that stood for it."""
        ...

    def settle(self, nodes: NDArray[np.int64]) -> None:
        """Makes the costs of these e-nodes exact."""
        ...


class Ended(StrEnum):
    """Why no further cost was looked up."""

    PROVEN = "proven"
    """The answer is known exactly, and nothing else can be cheaper, whatever the other costs are."""
    UNPROVEN = "unproven"
    """A round was not proven in its time, or patience ran out: all that could not be ruled out was looked up."""
    FALSE_BOUND = "false-bound"
    """A cost was below its bound, so all were looked up."""


@dataclass(frozen=True)
class LazyExtraction:
    """The answer, under the costs that were known in the end; the number of extractions; and how it ended."""

    extraction: Extraction
    rounds: int
    ended: Ended


def extract_lazily(
    egraph: EGraph,
    costs: LazyCosts,
    *,
    surcharge: NDArray[np.float64] | float = 0.0,
    extractor: str | Extractor = "ilp",
    time_limit: float | None = None,
    patience: float = inf,
    seed: int = 0,
    forbidden: NDArray[np.bool_] | None = None,
    warm_start: Selection | None = None,
) -> LazyExtraction:
    """An answer of the cost that ``extract`` would have found with all costs exact; looks up only what can matter.

    Each round extracts under what is known, ``b``, and then looks up the costs of the selected e-nodes. Let ``c`` be
    the true costs, with b <= c for every e-node, and let L be the proven lower bound of a round: every selection X has
    c(X) >= b(X) >= L.

    * All e-nodes of the round's selection S are exact, and S is proven: c(S) = b(S) = L <= c(X). S is an optimum.
    * A selection U, all of whose e-nodes are exact, was seen before and c(U) <= L: by the same line U is an optimum.
    * Else S has an e-node that is not exact, and looking it up leaves one less: the rounds end.

    "Equal" is that of ``Status.OPTIMAL``: one part in 10^9. Of several optima it may be another than that of
    ``extract``. Where a round is not proven, an e-node is ruled out if every selection with it costs more than U by
    ``landmarks`` under b <= c; everything else is looked up, and no selection that costs U or less has lost an e-node.
    A bound that is seen to be false (b > c) makes all costs be looked up; one that is never looked up stays unseen.

    Args:
        egraph, extractor, seed, forbidden, warm_start: as for ``extract``.
        costs: not negative; what is looked up stays known to the caller.
        surcharge: (n,) not negative, what is added to the costs; known in advance.
        time_limit: seconds for each round.
        patience: seconds of extraction after which the rest is looked up instead.

    Raises:
        UsageError, NoExtractionError: as ``extract``.
    """
    begin, waited, rounds, ended = monotonic(), 0.0, 0, Ended.PROVEN
    best: tuple[float, Selection] | None = None
    usable = warm_start is None or forbidden is None or not forbidden[warm_start.choice[warm_start.choice >= 0]].any()
    while True:
        best = _cheaper(egraph, costs, surcharge, best, warm_start if usable else None)
        found = extract(
            egraph,
            costs.seconds + surcharge,
            extractor=extractor,
            time_limit=time_limit,
            seed=seed,
            forbidden=forbidden,
            warm_start=best[1] if best else warm_start,
        )
        rounds += 1
        unknown = _unknown(egraph, costs, found.selection)
        proven = found.status is Status.OPTIMAL
        if not unknown.size and (proven or ended is not Ended.PROVEN or costs.exact.all()):
            return LazyExtraction(found, rounds, Ended.UNPROVEN if ended is Ended.PROVEN and not proven else ended)
        if best is not None and best[0] <= found.lower_bound + _TOLERANCE * abs(best[0]):
            same = replace(found, selection=best[1], cost=best[0], lower_bound=best[0], status=Status.OPTIMAL)
            return LazyExtraction(same, rounds, ended)
        looked_up = monotonic()
        if ended is Ended.PROVEN and (not proven or looked_up - begin - waited > patience):
            ended = Ended.UNPROVEN
            costs.settle(_not_ruled_out(egraph, costs, surcharge, forbidden, best[0] if best else inf))
        costs.settle(unknown)
        if not costs.bounds_hold:
            ended = Ended.FALSE_BOUND
            costs.settle(np.flatnonzero(~costs.exact))
        waited += monotonic() - looked_up
        best = _cheaper(egraph, costs, surcharge, best, found.selection)


def _unknown(egraph: EGraph, costs: LazyCosts, selection: Selection) -> NDArray[np.int64]:
    nodes = np.array(selection.order(egraph), np.int64)
    return nodes[~costs.exact[nodes]]


def _cheaper(
    egraph: EGraph,
    costs: LazyCosts,
    surcharge: NDArray[np.float64] | float,
    best: tuple[float, Selection] | None,
    selection: Selection | None,
) -> tuple[float, Selection] | None:
    """The cheaper of two, if ``selection`` is one whose costs are all exact."""
    if selection is None or _unknown(egraph, costs, selection).size:
        return best
    cost = selection_cost(egraph, costs.seconds + surcharge, selection)
    return (cost, selection) if best is None or cost < best[0] else best


def _not_ruled_out(
    egraph: EGraph,
    costs: LazyCosts,
    surcharge: NDArray[np.float64] | float,
    forbidden: NDArray[np.bool_] | None,
    enough: float,
) -> NDArray[np.int64]:
    """E-nodes without an exact cost that may be in a selection of cost ``enough`` or less."""
    problem = Problem.build(egraph, costs.seconds + surcharge, forbidden)
    choice, _ = cheapest_trees(problem, problem.costs)
    usable = [[n for n in nodes if all(choice[c] >= 0 for c in problem.operands[n])] for nodes in problem.nodes]
    marks = landmarks(replace(problem, nodes=usable), enough=enough)
    slack = (enough - marks.bound) + 1e-6 * abs(enough) if enough < inf else inf
    open_nodes = [n for nodes in usable for n in nodes if marks.left[n] <= slack]
    return np.array([n for n in open_nodes if not costs.exact[n]], np.int64)
