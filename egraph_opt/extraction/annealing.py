"""Simulated annealing over acyclic selections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from random import Random
from typing import ClassVar

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.local import LocalSearch
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee
from egraph_opt.extraction.shares import open_parts
from egraph_opt.extraction.tree_greedy import complete


@dataclass(frozen=True)
class Annealing:
    """Random kicks (see ``LocalSearch.kick``), also dearer ones as long as it is warm.

    Kirkpatrick, Gelatt, Vecchi, "Optimization by simulated annealing" (1983). No move ever closes a cycle, so
    each state is an answer.

    Attributes:
        rounds: how often the search is heated again, from the best answer so far.
        sweeps: kicks per round and e-node.
        heat: the first temperature of a round, as a multiple of the mean cost of the selected e-nodes that are
            not free; it falls to a hundredth of that.
        reach: how many uses of a new e-node are tried at most.
    """

    rounds: int = 6
    sweeps: int = 40
    heat: float = 0.5
    reach: int = 24

    name: ClassVar[str] = "annealing"
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    description: ClassVar[str] = "simulated annealing: random changes and what follows from them, no cycles on the way"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Never worse than ``dag-greedy`` or ``warm_start``."""
        board = Board(problem, clock, warm_start)
        random = Random(seed)
        for _ in range(self.rounds):
            before = clock.cost
            with clock.stage("search"):
                for index, used_up in open_parts(board):
                    self._round(board, index, random, used_up)
            if board.done or not clock.left:
                break
            if clock.cost < before:
                board.reduce()
        return board.answer(timed_out=not clock.left)

    def _round(self, board: Board, index: int, random: Random, stop: Callable[[], bool]) -> None:
        part = board.parts[index].problem
        search = LocalSearch(part, 10**18, stop)
        search.load(complete(part, board.best[index]))
        nodes = search.nearby()
        paid = [abs(part.costs[node]) for node in board.best[index] if node >= 0 and part.costs[node]]
        hot = self.heat * sum(paid) / max(len(paid), 1)
        best = search.cost
        for sweep in range(self.sweeps):
            temperature = hot * 0.01 ** (sweep / max(self.sweeps - 1, 1))
            random.shuffle(nodes)
            for node in nodes:
                if stop():
                    return
                rise = search.kick(node, -temperature * log(1.0 - random.random()), self.reach)
                if rise < 0.0 and search.cost < best:
                    best = search.cost
                    board.offer(index, search.selection())
            search.renew_unneeded()
        while search.sweep():
            search.descend()
        board.offer(index, part.trim(search.choice))
