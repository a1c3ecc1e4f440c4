"""All that is known to help, one after the other and side by side: the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.cp_sat import CpSatEngine, is_installed
from egraph_opt.extraction.engine import Engine, HighsEngine, Turns
from egraph_opt.extraction.exact import Effort
from egraph_opt.extraction.ilp import open_board, search_quickly
from egraph_opt.extraction.neighbourhood import Neighbourhood
from egraph_opt.extraction.parallel import search_beside
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee


@dataclass(frozen=True)
class Portfolio:
    """Greedy, reductions, neighbourhoods, then exact search in a worker beside more neighbourhoods.

    The worker runs HiGHS and, where OR-Tools is installed, CP-SAT in turns: each proves what the other cannot. Choices
    and bounds go both ways. What is solved without a worker (nearly everything of up to some hundred e-nodes after the
    reductions) is the same on every run. With a worker, cost and bound of a proven answer are the same; which one of
    several selections of that cost comes out depends on who finds his first.

    Attributes:
        warm_up: steps of the neighbourhood search before the worker starts.
    """

    warm_up: int = 40

    name: ClassVar[str] = "portfolio"
    guarantee: ClassVar[Guarantee] = Guarantee.DAG_OPTIMAL
    description: ClassVar[str] = "greedy, neighbourhoods and the exact solver side by side: the best in a given time"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Stops as soon as the best choice is proven."""
        effort = Effort()
        board, timed_out = open_board(problem, clock, warm_start, effort, seed)
        if self._warm_up(board, seed):
            if not board.done and clock.left:
                board.reduce()
            timed_out |= search_quickly(board, effort, seed)
        engines: tuple[Engine, ...] = (HighsEngine(effort),)
        if is_installed():
            engines += (CpSatEngine(),)
        searches = _Searches(board, seed + 1)
        timed_out |= search_beside(board, Turns(engines), seed, searches.step)
        return board.answer(timed_out=timed_out)

    def _warm_up(self, board: Board, seed: int) -> bool:
        """Steps until that many in a row have not helped; whether any has."""
        searches = _Searches(board, seed)
        improved, idle = False, 0
        with board.clock.stage("neighbourhoods"):
            while idle < self.warm_up and board.clock.left and not board.done:
                better = searches.step()
                if better is None:
                    break
                idle = 0 if better >= 0 else idle + 1
                improved |= better >= 0
        return improved


class _Searches:
    """One neighbourhood search per open part, which take turns."""

    def __init__(self, board: Board, seed: int) -> None:
        self._board, self._seed = board, seed
        self._searches: dict[int, Neighbourhood] = {}
        self._turn = 0

    def step(self) -> int | None:
        """One step in the next open part: its index if the cost fell, -1 if not; None if no part is open."""
        board = self._board
        parts = board.open_parts()
        if not parts:
            return None
        self._turn += 1
        index = parts[self._turn % len(parts)]
        search = self._searches.get(index)
        if search is None:
            search = Neighbourhood(board.parts[index].problem, board.best[index], self._seed)
            self._searches[index] = search
        if board.best[index] is not search.best:
            search.take(board.best[index])
        improved = search.step(board.clock)
        board.offer(index, search.best)
        return index if improved else -1
