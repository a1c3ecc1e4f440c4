"""Differentiable extraction: gradient descent on probabilities, then sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.local import LocalSearch
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.relaxation import Relaxation
from egraph_opt.extraction.result import Answer, Clock, Guarantee
from egraph_opt.extraction.shares import open_parts
from egraph_opt.extraction.tree_greedy import complete


@dataclass(frozen=True)
class Smoothe:
    """Adam on the logits of all classes, from many seeds at once; now and then each seed's best e-nodes are taken.

    After Cai, Yang, Deng, Yu, Zhang, "SmoothE: differentiable e-graph extraction" (2025). Different here: how cycles
    are penalised (see ``Relaxation``), and that a sample with a cycle is repaired rather than thrown away, and
    improved locally.

    Attributes:
        seeds: descents side by side.
        steps: steps of each descent.
        rate: step size of Adam.
        cyclic: weight of the penalty on cycles at the end of the descent, beside the expected cost divided by that
            of the known answer; it grows from 0.
        every: steps from one sampling to the next.
        rounds: repetitions of the iterations inside a step.
        effort: bound on the work of local improvement per sample: edges visited.
        arrays: the array module: ``numpy``, or ``cupy`` on a GPU.
    """

    seeds: int = 16
    steps: int = 150
    rate: float = 0.15
    cyclic: float = 0.5
    every: int = 15
    rounds: int = 6
    effort: int = 60_000
    arrays: Any = np

    name: ClassVar[str] = "smoothe"
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    description: ClassVar[str] = "differentiable: gradient descent on the probabilities of e-nodes, then sampling"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Never worse than ``dag-greedy`` or ``warm_start``."""
        board = Board(problem, clock, warm_start)
        random = np.random.default_rng(seed)
        for index, used_up in open_parts(board):
            with clock.stage("search"):
                self._descend(board, index, random, used_up)
        return board.answer(timed_out=not clock.left)

    def _descend(self, board: Board, index: int, random: np.random.Generator, stop: Callable[[], bool]) -> None:
        part, xp = board.parts[index].problem, self.arrays
        scale = abs(part.rank(board.best[index])[0]) or 1.0
        relaxation = Relaxation(part, self.seeds, scale, xp)
        logits = xp.asarray(self._start(part, board.best[index], random))
        mean, square = xp.zeros_like(logits), xp.zeros_like(logits)
        for step in range(1, self.steps + 1):
            if stop():
                return
            costs, gradient = relaxation.gradient(logits, self.cyclic * step / self.steps, self.rounds)
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient * gradient
            slope = (mean / (1.0 - 0.9**step)) / (xp.sqrt(square / (1.0 - 0.999**step)) + 1e-8)
            logits = logits - self.rate * slope
            if step % self.every == 0:
                host = logits.get() if hasattr(logits, "get") else logits
                expected = costs.get() if hasattr(costs, "get") else costs
                self._sample(board, index, host, np.argsort(expected, kind="stable").tolist(), random, stop)

    def _start(self, part: Problem, best: Choice, random: np.random.Generator) -> NDArray[np.float32]:
        """Small random logits (n, seeds); every other seed leans towards the known answer."""
        logits = random.normal(0.0, 0.5, (len(part.costs), self.seeds)).astype(np.float32)
        logits[[node for node in best if node >= 0], ::2] += 2.0
        return logits

    def _sample(
        self,
        board: Board,
        index: int,
        logits: NDArray[np.float32],
        seeds: list[int],
        random: np.random.Generator,
        stop: Callable[[], bool],
    ) -> None:
        """The likeliest e-nodes of every seed, in the order of ``seeds``, and a draw by the probabilities of one."""
        part = board.parts[index].problem
        owner = np.array(part.owner)
        last = np.searchsorted(owner, np.arange(len(part.nodes)), side="right") - 1
        keys = [logits[:, seed].astype(np.float64) for seed in seeds]
        keys.append(keys[0] + random.gumbel(size=len(owner)))
        tried: list[Choice] = []
        for key in keys:
            start = complete(part, np.lexsort((key, owner))[last].tolist())
            if stop() or start in tried:
                continue
            tried.append(start)
            search = LocalSearch(part, self.effort, stop)
            search.load(start)
            search.descend(self.effort // 3)
            if search.sweep():
                search.descend()
            board.offer(index, part.trim(search.choice))
