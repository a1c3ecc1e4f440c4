"""A good selection by DAG cost, in bounded time: sharing-aware trees, then exact local improvement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from egraph_opt.extraction.bounds import cheap_lower_bound
from egraph_opt.extraction.graph import strongly_connected
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
            choice = self.best_choice(problem, [] if warm_start is None else [warm_start], clock)
            return Answer(choice, cheap_lower_bound(problem))

    def best_choice(self, problem: Problem, extra_starts: Sequence[Choice] = (), clock: Clock | None = None) -> Choice:
        """The best trimmed choice over all starts; once the clock has run out, the best so far."""
        trees, _ = cheapest_trees(problem, [max(cost, 0.0) for cost in problem.costs])
        starts = [trees, *(complete(problem, extra) for extra in extra_starts)]
        best = problem.best([problem.trim(start) for start in starts])
        improver = _LocalImprovement(problem, self.effort)
        for _ in range(_ROUNDS):
            before = best
            # All starts first, for they are cheap; then the effort goes to the most promising ones.
            for strength in _STRENGTHS[: self.starts]:
                if improver.effort < self.effort // 2 or (clock is not None and not clock.left):
                    break
                improver.effort -= improver.tree_effort
                starts.append(area_flow(problem, best, strength))
                best = problem.best([best, problem.trim(starts[-1])])
            for start in sorted(starts, key=lambda start: problem.rank(problem.trim(start))):
                if improver.effort <= 0 or (clock is not None and not clock.left):
                    return best
                best = problem.best([best, improver.improve(start)])
            if best == before:
                break
            starts = []
        return best


_ROUNDS = 3
_STRENGTHS = (4.0, 1.0, 16.0, 0.5, 2.0, 64.0)
"""How far to trust the fan-out of the best answer: different values lead to different answers, none is always best."""


def area_flow(problem: Problem, choice: Choice, strength: float) -> Choice:
    """Cheapest trees where a class costs each of its users one share.

    The shares of a class are its users in ``choice`` and, weighted by ``strength``, a small part of the users that
    it could have.
    """
    shares = [1.0] * len(problem.nodes)
    users = [0] * len(problem.nodes)
    for node in choice:
        if node >= 0:
            for child in problem.operands[node]:
                users[child] += 1
    for cls, count in enumerate(users):
        possible = len(problem.users[cls])
        shares[cls] = max(1.0, count * min(strength, 1.0) + strength * possible / 8.0)
    return cheapest_trees(problem, [max(cost, 0.0) for cost in problem.costs], sharing=shares)[0]


class _LocalImprovement:
    """Replaces one e-node at a time as long as the DAG cost falls.

    Keeps one e-node per class, for all classes, without a cycle even among those that are not needed: so any
    class can be taken in at any time. ``references`` counts roots and selected e-nodes that use a class.
    """

    def __init__(self, problem: Problem, effort: int) -> None:
        self.problem = problem
        self.effort = effort
        self.tree_effort = 2 * sum(map(len, problem.users))
        self.component = strongly_connected(problem.successors)
        self.choice: Choice = []
        self.references: list[int] = []

    def improve(self, start: Choice) -> Choice:
        """The trimmed local optimum from ``start``, which must be acyclic and complete over all classes.

        Takes at most half of the effort that is left, so that other starts have a chance.
        """
        problem = self.problem
        reserve = self.effort // 2
        self.choice = list(start)
        improved = True
        while improved and self.effort > reserve:
            self.references = [0] * len(problem.nodes)
            for root in problem.roots:
                self._take(root)
            improved = False
            for cls in reversed(problem.order(self.choice) or []):
                if self.effort <= reserve:
                    break
                if self.references[cls] and len(problem.nodes[cls]) > 1:
                    improved |= self._improve_class(cls)
            if improved:
                self._renew_unneeded()
        return problem.trim(self.choice)

    def _improve_class(self, cls: int) -> bool:
        """Choose the e-node of ``cls`` that costs least, everything else being as it is; whether that changed."""
        problem, current = self.problem, self.choice[cls]
        freed = self._drop_operands(current)
        best, best_key = current, (problem.costs[current] + freed[0], 1 + freed[1])
        for node in problem.nodes[cls]:
            if node == current or self._closes_cycle(node, cls):
                continue
            added = self._take_operands(node)
            self._drop_operands(node)
            key = (problem.costs[node] + added[0], 1 + added[1])
            if key[0] < best_key[0] - _noise(best_key[0]) or (key[0] <= best_key[0] and key[1] < best_key[1]):
                best, best_key = node, key
        self.choice[cls] = best
        self._take_operands(best)
        return best != current

    def _renew_unneeded(self) -> None:
        """Give classes outside the selection the e-node that adds least to it."""
        self.effort -= self.tree_effort
        order = self.problem.order(self.choice) or []
        costs = [max(cost, 0.0) for cost in self.problem.costs]
        self.choice, _ = cheapest_trees(self.problem, costs, paid=[(cls, self.choice[cls]) for cls in order])

    def _closes_cycle(self, node: int, cls: int) -> bool:
        """Whether an operand of ``node`` needs ``cls`` under the present choice."""
        component, operands = self.component, self.problem.operands
        stack = [child for child in operands[node] if component[child] == component[cls]]
        seen = set(stack)
        while stack:
            child = stack.pop()
            if child == cls or self.choice[child] < 0:
                return True
            for below in operands[self.choice[child]]:
                self.effort -= 1
                if component[below] == component[cls] and below not in seen:
                    seen.add(below)
                    stack.append(below)
        # A class that has no choice cannot be computed, so neither can this e-node.
        return any(self.choice[child] < 0 for child in operands[node])

    def _take(self, cls: int) -> tuple[float, int]:
        """Count one more use of ``cls``: the cost and the number of e-nodes that this adds."""
        return self._follow([cls], 1)

    def _take_operands(self, node: int) -> tuple[float, int]:
        return self._follow(list(self.problem.operands[node]), 1)

    def _drop_operands(self, node: int) -> tuple[float, int]:
        """Count one use less of each operand: the cost and the number of e-nodes that this frees."""
        return self._follow(list(self.problem.operands[node]), -1)

    def _follow(self, stack: list[int], step: int) -> tuple[float, int]:
        problem, references, choice = self.problem, self.references, self.choice
        total, count = 0.0, 0
        turning_point = 1 if step > 0 else 0
        while stack:
            cls = stack.pop()
            self.effort -= 1
            references[cls] += step
            if references[cls] == turning_point:
                node = choice[cls]
                total += problem.costs[node]
                count += 1
                stack.extend(problem.operands[node])
        return total, count


def _noise(cost: float) -> float:
    """Sums of the same costs in another order differ by less than this: no reason to change, and change back."""
    return 1e-12 * abs(cost)
