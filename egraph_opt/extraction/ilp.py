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
"""E-nodes of a part whose relaxations are solved without a process."""


@dataclass(frozen=True)
class Ilp:
    """Exact extraction with HiGHS; the answer is never worse than that of ``dag-greedy`` or the warm start.

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
        board = Board(problem, clock, warm_start)
        effort = Effort(self.relaxations, self.cuts)
        timed_out = search_quickly(board, effort, seed)
        timed_out |= search_beside(board, HighsEngine(effort), seed, lambda: None)
        return board.answer(timed_out=timed_out)


def search_quickly(board: Board, effort: Effort, seed: int) -> bool:
    """All that needs no process: small parts to the end, the relaxations of medium ones; whether time ran out."""
    timed_out = search_here(board, HighsEngine(effort), seed, SMALL)
    search_here(board, HighsEngine(replace(effort, branch=False)), seed, _MEDIUM)
    return timed_out
