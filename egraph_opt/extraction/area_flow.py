"""Sharing-aware trees from many random priors, each improved locally."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import ClassVar

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.dag_greedy import area_flow
from egraph_opt.extraction.local import LocalSearch
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee
from egraph_opt.extraction.shares import open_parts


@dataclass(frozen=True)
class AreaFlow:
    """Cheapest trees where the cost of a class is split among its users, again and again.

    The users are those of the best answer so far and, at random, some of those that it could have. The idea is
    *area flow* of technology mapping: Manohararajah, Brown, Vranesic, "Heuristics for area minimization in
    LUT-based FPGA technology mapping" (2004).

    Attributes:
        restarts: how many random priors are tried per part of the problem.
        spread: how far apart the priors are: the standard deviation of the logarithm of a class's share.
        effort: bound on the work of local improvement per restart: edges visited.
    """

    restarts: int = 30
    spread: float = 0.7
    effort: int = 300_000

    name: ClassVar[str] = "area-flow"
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    description: ClassVar[str] = "cheapest trees whose shared parts are split among their users, from random priors"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Never worse than ``dag-greedy`` or ``warm_start``."""
        board = Board(problem, clock, warm_start)
        random = Random(seed)
        for index, used_up in open_parts(board):
            part = board.parts[index].problem
            with clock.stage("search"):
                for _ in range(self.restarts):
                    if used_up():
                        break
                    strength = 2.0 ** random.uniform(-2.0, 6.0)
                    prior = [random.lognormvariate(0.0, self.spread) for _ in part.nodes]
                    search = LocalSearch(part, self.effort, used_up)
                    search.load(area_flow(part, board.best[index], strength, prior))
                    search.descend(self.effort // 3)
                    if search.sweep():
                        search.descend()
                    board.offer(index, part.trim(search.choice))
        return board.answer(timed_out=not clock.left)
