"""Large-neighbourhood search in one problem: free the choice in a region of classes, solve that exactly, go on.

Shaw, "Using constraint programming and local search methods to solve vehicle routing problems" (1998); here the exact
solver is that of ``exact.py`` after the reductions of ``reduce.py``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.engine import HighsEngine
from egraph_opt.extraction.exact import Effort
from egraph_opt.extraction.parallel import search_here
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Clock, OutOfTimeError
from egraph_opt.extraction.tree_greedy import complete

_SMALLEST, _LARGEST = 30, 600
"""Bounds on the e-nodes of a region."""


@dataclass(frozen=True)
class Region:
    """A problem of the free classes and of what they may need, in its own numbering.

    Attributes:
        problem: classes that are selected in any case, and cannot need a free class, are nobody's operand.
        classes, members: the number of each class and e-node in the whole problem.
    """

    problem: Problem
    classes: list[int]
    members: list[int]


class Neighbourhood:
    """A search that can go on for ever: ``best`` never gets worse, every ``step`` takes a second at most.

    ``rng`` makes all random choices. Which steps end within their second depends on the machine.
    """

    def __init__(self, problem: Problem, start: Choice, seed: int, seconds: float = 1.0) -> None:
        self.problem, self.seconds = problem, seconds
        self.rng = random.Random(seed)
        self.take(start)
        self._size = 100.0
        self._below = problem.successors
        self._above: list[list[int]] = [[] for _ in problem.nodes]
        for cls, below in enumerate(self._below):
            for child in below:
                self._above[child].append(cls)
        self._operators: list[Callable[[], Iterable[int]]] = [
            self._around_one,
            self._around_cost,
            self._around_shared,
            self._layers,
        ]

    def take(self, choice: Choice) -> None:
        """Go on from another trimmed choice."""
        self.best = choice
        self.cost = self.problem.rank(choice)[0]

    def step(self, clock: Clock) -> bool:
        """Solves one region; whether the cost fell. Raises OutOfTimeError if there is no time left for that."""
        clock.check()
        free = self._collect(self.rng.choice(self._operators)())
        clock.check()
        region = self._region(free)
        clock.check()
        if region is None:
            return False
        start = [region.members.index(self._full[cls]) if self.best[cls] >= 0 else -1 for cls in region.classes]
        inner = Clock(min(self.seconds, clock.left))
        solver_seed = self.rng.randrange(2**31)
        try:
            board = Board(region.problem, inner, region.problem.trim(complete(region.problem, start)), greedy=False)
            timed_out = search_here(board, HighsEngine(_EFFORT), solver_seed, _LARGEST * 10)
        except OutOfTimeError:
            timed_out = True
        self._size = max(_SMALLEST, self._size * 0.7) if timed_out else min(_LARGEST, self._size * 1.02)
        return self._accept(region, inner)

    def _accept(self, region: Region, clock: Clock) -> bool:
        found = clock.best
        assert found is not None  # the present choice at least
        chosen = list(self._full)
        for index, node in enumerate(found):
            if node >= 0:
                chosen[region.classes[index]] = region.members[node]
        if self.problem.order(chosen) is None:
            return False
        trimmed = self.problem.trim(chosen)
        if self.problem.rank(trimmed) >= self.problem.rank(self.best):
            return False
        before = self.cost
        self.take(trimmed)
        return self.cost < before

    def _collect(self, classes: Iterable[int]) -> set[int]:
        """The first classes, until their e-nodes fill a region."""
        region: set[int] = set()
        size = 0
        for cls in classes:
            region.add(cls)
            size += len(self.problem.nodes[cls])
            if size >= self._size:
                break
        return region

    def _selected(self) -> list[int]:
        return [cls for cls, node in enumerate(self.best) if node >= 0]

    def _grow(self, seeds: list[int]) -> Iterable[int]:
        """Breadth first over the class graph in both directions, neighbours in random order."""
        seen = dict.fromkeys(seeds)
        queue = list(seen)
        for cls in queue:  # grows while it is walked
            yield cls
            around = [*self._below[cls], *self._above[cls]]
            self.rng.shuffle(around)
            for neighbour in around:
                if neighbour not in seen:
                    seen[neighbour] = None
                    queue.append(neighbour)

    def _around_one(self) -> Iterable[int]:
        return self._grow([self.rng.choice(self._selected())])

    def _around_cost(self) -> Iterable[int]:
        """Around classes whose e-nodes cost much."""
        selected = self._selected()
        weights = [max(0.0, self.problem.costs[self.best[cls]]) + 1e-12 for cls in selected]
        return self._grow(self.rng.choices(selected, weights, k=self.rng.choice([1, 2])))

    def _around_shared(self) -> Iterable[int]:
        """Around a class that several selected e-nodes use, or could use, and around its users."""
        selected = self._selected()
        weights = [float(len(self._above[cls])) + 1e-12 for cls in selected]
        (cls,) = self.rng.choices(selected, weights)
        users = [user for user in self._above[cls] if self.best[user] >= 0]
        return self._grow([cls, *users[:8]])

    def _layers(self) -> Iterable[int]:
        """Classes that follow one another from the operands to the roots, with what they could use."""
        order = self.problem.order(self.best) or []
        begin = self.rng.randrange(len(order))
        for cls in order[begin:] + order[:begin]:
            yield cls
            yield from self._below[cls]

    def _region(self, free: set[int]) -> Region | None:
        """The problem in which the classes ``free`` may choose; None if there is nothing to choose."""
        problem = self.problem
        self._full = full = complete(problem, self.best)
        if not any(len(problem.nodes[cls]) > 1 for cls in free):
            return None
        kept, wanted = self._kept(free)
        if not wanted:
            return None
        leads = self._leads_to(free)

        def operands(node: int) -> list[int]:
            return [d for d in problem.operands[node] if d in free or leads[d] or d not in kept]

        classes = [cls for cls in sorted(free) if full[cls] >= 0]
        seen = set(classes)
        members: list[int] = []
        below: list[list[int]] = []
        for cls in classes:  # grows while it is walked
            for node in problem.nodes[cls] if cls in free else [full[cls]]:
                needs = operands(node)
                if all(full[d] >= 0 for d in needs):
                    members.append(node)
                    below.append(needs)
                    fresh = [d for d in needs if d not in seen]
                    seen.update(fresh)
                    classes.extend(fresh)
        local = {cls: index for index, cls in enumerate(classes)}
        owner = [local[problem.owner[node]] for node in members]
        nodes: list[list[int]] = [[] for _ in classes]
        for index, cls in enumerate(owner):
            nodes[cls].append(index)
        costs = [
            0.0 if problem.owner[node] in kept and problem.owner[node] not in free else problem.costs[node]
            for node in members
        ]
        needs_local = [tuple(sorted(local[d] for d in needs)) for needs in below]
        return Region(Problem(costs, needs_local, owner, nodes, [local[cls] for cls in wanted]), classes, members)

    def _kept(self, free: set[int]) -> tuple[set[int], list[int]]:
        """Classes that are selected whatever the free ones choose, and the free ones that these or the roots need."""
        problem = self.problem
        seen = set(problem.roots)
        stack = list(problem.roots)
        while stack:
            cls = stack.pop()
            if cls in free:
                continue
            for child in problem.operands[self.best[cls]]:
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
        return seen - free, sorted(seen & free)

    def _leads_to(self, free: set[int]) -> list[bool]:
        """Whether the fixed choice of each class that is not free needs a free one."""
        problem, full = self.problem, self._full
        users: list[list[int]] = [[] for _ in problem.nodes]
        for cls, node in enumerate(full):
            if node >= 0 and cls not in free:
                for child in problem.operands[node]:
                    users[child].append(cls)
        leads = [False] * len(full)
        stack = list(free)
        while stack:
            for user in users[stack.pop()]:
                if not leads[user]:
                    leads[user] = True
                    stack.append(user)
        return leads


_EFFORT = Effort(relaxations=12, cuts=200, polish=20_000)
