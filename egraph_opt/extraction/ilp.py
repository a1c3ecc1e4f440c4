"""The cheapest selection by DAG cost, with proof: reductions, linear relaxation with cuts, branch and bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.engine import HighsEngine
from egraph_opt.extraction.exact import Effort
from egraph_opt.extraction.parallel import SMALL, search_beside, search_here
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee

_MEDIUM = 1000
"""E-nodes of a part whose relaxations are solved without a process, and that is branched on for a moment."""
_MOMENT = 1.0
"""Seconds of branch and bound; what is not proven by then takes long as a rule."""
_FIRST_TRY = 2000
"""E-nodes of a part up to which the solver comes before the greedy answer: a relaxation takes a tenth of a second."""
_FIRST_RELAXATIONS, _FIRST_POLISH = 2, 60_000


@dataclass(frozen=True)
class Ilp:
    """Exact extraction with HiGHS; the answer is never worse than that of ``dag-greedy`` or the warm start, but for the
    last digits: costs that differ by less than what "optimal" leaves open count as the same.

    Negative costs are allowed: then a class is selected only for an e-node that uses it.

    Attributes:
        relaxations: how many times the linear relaxation may be solved with further cuts before branching.
        cuts: how many cuts each round may add.
    """

    relaxations: int = 60
    cuts: int = 500

    name: ClassVar[str] = "ilp"
    guarantee: ClassVar[Guarantee] = Guarantee.DAG_OPTIMAL
    description: ClassVar[str] = "cheapest selection, proven with the HiGHS solver: counts a shared e-node once"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Greedy answer, reductions, then each independent part on its own, the smallest first."""
        effort = Effort(self.relaxations, self.cuts)
        board, timed_out = open_board(problem, clock, warm_start, effort, seed)
        timed_out |= search_beside(board, HighsEngine(effort), seed, lambda: None)
        return board.answer(timed_out=timed_out)


def open_board(
    problem: Problem, clock: Clock, warm_start: Choice | None, effort: Effort, seed: int
) -> tuple[Board, bool]:
    """The board of a problem after all that needs no process, and whether time ran out.

    Where little is left after the reductions, the solver comes first: what it finds makes for better reductions, and
    what it proves needs no greedy answer, which takes longer.
    """
    board = Board(problem, clock, warm_start, local=False)
    timed_out, searched = False, all(len(part.members) <= _FIRST_TRY for part in board.parts)
    if searched and not board.done:
        before = clock.cost
        relaxations = min(effort.relaxations, _FIRST_RELAXATIONS)
        first = replace(effort, relaxations=relaxations, polish=_FIRST_POLISH, branch=0.0)
        search_here(board, HighsEngine(first), seed, _FIRST_TRY)
        if clock.cost < before and not board.done:
            board.reduce()
        timed_out = search_quickly(board, effort, seed)
    if not board.done:
        before = clock.cost
        board.improve()
        if clock.cost < before or not searched:
            timed_out = search_quickly(board, effort, seed)
    return board, timed_out


def search_quickly(board: Board, effort: Effort, seed: int) -> bool:
    """Searches small parts to the end, and medium ones for a moment; whether time ran out."""
    timed_out = search_here(board, HighsEngine(effort), seed, SMALL)
    search_here(board, HighsEngine(replace(effort, branch=_MOMENT)), seed, _MEDIUM)
    return timed_out
