"""Large-neighbourhood search over the reduced problem, until nothing gets better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.neighbourhood import Neighbourhood
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee


@dataclass(frozen=True)
class Lns:
    """Frees the choice in one region after another and solves that exactly; never worse than ``dag-greedy``.

    The bound is that of the landmarks. The seed decides which regions; a step that takes longer than a second is cut
    off, so the answer may differ between machines where such steps occur.

    Attributes:
        patience: the search ends after this many steps without a lower cost.
    """

    patience: int = 150

    name: ClassVar[str] = "lns"
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    description: ClassVar[str] = "large-neighbourhood search with an exact solver: good answers to large e-graphs"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Each independent part in turn."""
        board = Board(problem, clock, warm_start)
        with clock.stage("neighbourhoods"):
            for index in board.open_parts():
                self._improve(board, index, seed)
        return board.answer(timed_out=not clock.left)

    def _improve(self, board: Board, index: int, seed: int) -> None:
        search = Neighbourhood(board.parts[index].problem, board.best[index], seed)
        idle = 0
        while idle < self.patience and board.clock.left and not board.done:
            idle = 0 if search.step(board.clock) else idle + 1
            board.offer(index, search.best)
