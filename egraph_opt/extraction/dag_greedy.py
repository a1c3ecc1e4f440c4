"""A good selection by DAG cost, in bounded time: sharing-aware trees, then exact local improvement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from egraph_opt.extraction.bounds import cheap_lower_bound
from egraph_opt.extraction.local import LocalSearch
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee
from egraph_opt.extraction.tree_greedy import cheapest_trees, complete


@dataclass(frozen=True)
class DagGreedy:
    """Several greedy starts, each improved e-class by e-class on the exact DAG cost; the best is returned.

    Never worse than ``tree-greedy``, whose answer is the first start. Two ideas come from technology mapping of
    logic circuits, which extracts from the same kind of graph: *area flow*, where the cost of a class is shared
    by its users, and *exact local area*, where reference counts tell what a change of one e-node frees and adds
    (Mishchenko, Chatterjee, Brayton, "Improvements to technology mapping for LUT-based FPGAs", 2006).

    Attributes:
        starts: how many sharing-aware starts follow the first.
        effort: bound on the work, over all starts: edges visited. Some million a second; unlike seconds, the same
            on every machine.
    """

    starts: int = 6
    effort: int = 2_500_000

    name: ClassVar[str] = "dag-greedy"
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    description: ClassVar[str] = "sharing-aware greedy with exact local improvement: fast, counts a shared e-node once"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Deterministic without ``seed``; ``warm_start`` is one more start."""
        with clock.stage("greedy"):
            bound = cheap_lower_bound(problem)
            choice = self.best_choice(problem, [] if warm_start is None else [warm_start], clock, bound)
            return Answer(choice, bound, timed_out=not clock.left)

    def best_choice(
        self,
        problem: Problem,
        extra_starts: Sequence[Choice] = (),
        clock: Clock | None = None,
        enough: float = -inf,
    ) -> Choice:
        """The best trimmed choice over all starts, or so far when the clock runs out; ``enough`` is cheap enough."""
        trees, _ = cheapest_trees(problem, [max(cost, 0.0) for cost in problem.costs])
        starts = [trees, *(complete(problem, extra) for extra in extra_starts)]
        best = problem.best([problem.trim(start) for start in starts])
        if problem.rank(best)[0] <= enough:
            return best
        search = LocalSearch(problem, self.effort, lambda: clock is not None and not clock.left)
        for _ in range(_ROUNDS):
            before = best
            # All starts first, for they are cheap; then the effort goes to the most promising ones.
            for strength in _STRENGTHS[: self.starts]:
                if search.effort < self.effort // 2 or search.stop():
                    break
                search.effort -= search.sweep_effort
                starts.append(area_flow(problem, best, strength))
                best = problem.best([best, problem.trim(starts[-1])])
            for start in sorted(starts, key=lambda start: problem.rank(problem.trim(start))):
                if search.effort <= self.effort // 4 or search.stop():
                    break
                search.load(start)
                search.descend(search.effort // 2)  # the rest is for other starts
                best = problem.best([best, problem.trim(search.choice)])
            if search.effort <= 0 or search.stop():
                break
            search.load(complete(problem, best))
            while search.sweep():
                search.descend()
            best = problem.best([best, problem.trim(search.choice)])
            if best == before:
                break
            starts = []
        return best


_ROUNDS = 3
_STRENGTHS = (4.0, 1.0, 16.0, 0.5, 2.0, 64.0)
"""How far to trust the fan-out of the best answer: different values lead to different answers, none is always best."""


def area_flow(problem: Problem, choice: Choice, strength: float, prior: Sequence[float] | None = None) -> Choice:
    """Cheapest trees where a class costs each of its users one share.

    The shares of a class are its users in ``choice`` and, weighted by ``strength``, a small part of the users that
    it could have; ``prior`` (m,) multiplies them.
    """
    shares = [1.0] * len(problem.nodes)
    users = [0] * len(problem.nodes)
    for node in choice:
        if node >= 0:
            for child in problem.operands[node]:
                users[child] += 1
    for cls, count in enumerate(users):
        possible = len(problem.users[cls])
        share = count * min(strength, 1.0) + strength * possible / 8.0
        shares[cls] = max(1.0, share * (prior[cls] if prior else 1.0))
    return cheapest_trees(problem, [max(cost, 0.0) for cost in problem.costs], sharing=shares)[0]
