"""What is known of a problem while it is searched in parts: the best choice and the bound of each, and of the whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import fsum

from egraph_opt.extraction.bounds import cheap_lower_bound
from egraph_opt.extraction.dag_greedy import DagGreedy
from egraph_opt.extraction.parts import Part, split
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.reduce import reduce
from egraph_opt.extraction.reduced import Reduced
from egraph_opt.extraction.result import Answer, Clock
from egraph_opt.extraction.tree_greedy import cheapest_trees, complete

_AFTERWARDS = 4.0
"""How many times as long as a greedy answer it takes to go on from the reductions: that time is kept for it."""

_MUCH = 150
"""E-nodes after the reductions, above which the search may be cut short: then no greedy answer must be better."""


class Board:
    """A problem, reduced and split, with ``best[i]`` and ``bounds[i]`` for each of its ``parts``, the smallest first;
    no parts where the reductions prove what is known.

    The clock hears of everything that is better than before.
    """

    parts: list[Part]
    best: list[Choice]
    bounds: list[float]

    def __init__(
        self,
        problem: Problem,
        clock: Clock,
        warm_start: Choice | None = None,
        *,
        greedy: bool = True,
        local: bool = True,
    ) -> None:
        """Cheapest trees, reductions with their cost; unless that proves them best, ``improve``.

        Without ``greedy``, the warm start is answer enough; without ``local``, what the caller tries comes before
        ``improve``, and before reductions that take long.
        """
        self.problem, self.clock = problem, clock
        self.notes: dict[str, int] = {}
        self.reduced = Reduced(problem, 0.0, {}, {}, float("-inf"), {})
        self.parts, self.best, self.bounds = [], [], []
        self._thorough = False
        begin = time.monotonic()
        with clock.stage("greedy"):
            if warm_start is not None:
                clock.found(problem, warm_start)
            if greedy or warm_start is None:
                trees, _ = cheapest_trees(problem, [max(cost, 0.0) for cost in problem.costs])
                clock.found(problem, problem.trim(trees))
                clock.proved(cheap_lower_bound(problem))
        self._afterwards = _AFTERWARDS * (time.monotonic() - begin) if clock.limit is not None else 0.0
        self.reduce(0.6 * clock.limit if greedy and clock.limit is not None else 0.0, thorough=local)
        if greedy and local and not self.done:
            self.improve()

    def improve(self) -> None:
        """Local improvement of what is left and, where that is much, of the problem as it was; with each better answer
        the reductions go on."""
        self._improve_and_reduce(self._improve_parts)
        if not self.done and (not self.parts or sum(len(part.members) for part in self.parts) > _MUCH):
            self._improve_and_reduce(self._improve_whole)

    def _improve_and_reduce(self, improve: Callable[[], None]) -> None:
        before = self.clock.cost
        with self.clock.stage("greedy"):
            improve()
        if (not self._thorough or self.clock.cost < before) and not self.done:
            self.reduce()

    def _improve_parts(self) -> None:
        for index in self.open_parts():
            self.clock.check()
            problem, start = self.parts[index].problem, self.best[index]
            self.offer(index, DagGreedy().best_choice(problem, [start], self.clock))

    def _improve_whole(self) -> None:
        self.clock.check()
        self.clock.found(self.problem, DagGreedy().best_choice(self.problem, [], self.clock))

    def reduce(self, reserve: float = 0.0, *, thorough: bool = True) -> None:
        """Reduce what is left, with the best cost so far: a better answer makes for a smaller problem.

        Stops while ``reserve`` seconds are left, for the greedy answer needs time as well; does nothing where there
        is no time to go on from what it finds. For ``thorough`` see ``reduce`` in ``reduce.py``.
        """
        clock, before = self.clock, self.reduced
        reserve += self._afterwards
        if clock.left <= reserve + self._afterwards:  # the reductions themselves take no less
            return
        with clock.stage("reduce"):
            upper = clock.cost - before.base
            found = reduce(before.problem, upper, lambda: clock.left <= reserve, thorough=thorough, check=clock.check)
            self.reduced = before.then(found)
            self._thorough = thorough and clock.left > reserve
            clock.proved(self.reduced.lower_bound)
            self._split()
            self.notes |= {f"removed: {step}": count for step, count in self.reduced.removed.items()}
            self.notes["e-nodes left"] = sum(len(part.members) for part in self.parts)
        if not self.done:
            self._publish()
            self._prove_whole()

    def _split(self) -> None:
        """The parts of what is left, with the best choice brought to each; none if that is proven."""
        assert self.clock.best is not None
        self.clock.check()
        self.parts = split(self.reduced.problem) if not self.done else []
        lowered = self.reduced.lower(self.clock.best)
        self.best, self.bounds = [], []
        for part in self.parts:
            self.clock.check()
            self.best.append(part.problem.trim(complete(part.problem, part.narrow(lowered))))
            self.bounds.append(cheap_lower_bound(part.problem))

    @property
    def done(self) -> bool:
        """Whether the best choice is proven."""
        cost, bound = self.clock.cost, self.clock.lower_bound
        return cost - bound <= 1e-9 * max(abs(cost), abs(bound))

    def open_parts(self) -> list[int]:
        """The parts whose best choice is not proven; none if that of the whole is."""
        if self.done:
            return []
        return [index for index in range(len(self.parts)) if self.is_open(index)]

    def is_open(self, index: int) -> bool:
        """Whether the best choice of one part is not proven."""
        cost, bound = self.parts[index].problem.rank(self.best[index])[0], self.bounds[index]
        return cost - bound > 1e-9 * max(abs(cost), abs(bound))

    def enough(self, index: int) -> float:
        """What part ``index`` must cost less than, if a choice for the whole is to be better than the best."""
        others = fsum(bound for other, bound in enumerate(self.bounds) if other != index)
        return self.clock.cost - self.reduced.base - others

    def offer(self, index: int, choice: Choice) -> bool:
        """Takes a trimmed choice for one part if it is better than the best; whether it is."""
        problem = self.parts[index].problem
        if problem.rank(choice) >= problem.rank(self.best[index]):
            return False
        self.best[index] = choice
        self._publish()
        return True

    def prove(self, index: int, bound: float) -> None:
        """Takes a lower bound of one part, which holds for choices that cost less than ``enough``."""
        if bound > self.bounds[index]:
            self.bounds[index] = bound
            self._prove_whole()

    def answer(self, *, timed_out: bool) -> Answer:
        """The best choice for the whole problem, as a strategy returns it."""
        assert self.clock.best is not None
        cut_short = timed_out or "e-nodes left" not in self.notes
        return Answer(self.clock.best, self.clock.lower_bound, cut_short and not self.done, self.notes)

    def _prove_whole(self) -> None:
        self.clock.proved(min(self.clock.cost, fsum([self.reduced.base, *self.bounds])))

    def _publish(self) -> None:
        chosen = [-1] * len(self.problem.nodes)
        for part, choice in zip(self.parts, self.best, strict=True):
            part.widen(choice, chosen)
        self.clock.found(self.problem, self.reduced.lift(self.problem, chosen))
