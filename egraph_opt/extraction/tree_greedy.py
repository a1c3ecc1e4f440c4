"""The cheapest tree of every class, by Knuth's generalisation of Dijkstra's algorithm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import inf
from typing import ClassVar

from egraph_opt.extraction.bounds import cheap_lower_bound
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee


@dataclass(frozen=True)
class TreeGreedy:
    """Cheapest tree per class, in O(n log n)."""

    name: ClassVar[str] = "tree-greedy"
    guarantee: ClassVar[Guarantee] = Guarantee.TREE_OPTIMAL
    description: ClassVar[str] = "cheapest tree of every class: fast, counts a shared e-node once per use"
    takes_negative_costs: ClassVar[bool] = False

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """The answer has no use for ``seed`` and ``warm_start``."""
        with clock.stage("greedy"):
            choice, _ = cheapest_trees(problem, problem.costs)
            return Answer(problem.trim(choice), cheap_lower_bound(problem))


def cheapest_trees(
    problem: Problem,
    costs: Sequence[float],
    *,
    sharing: Sequence[float] | None = None,
    paid: Iterable[tuple[int, int]] = (),
) -> tuple[Choice, list[float]]:
    """For each class, the e-node at the top of its cheapest tree, and the cost of that tree (inf: there is none).

    Knuth, "A generalization of Dijkstra's algorithm" (1977): classes are settled by increasing cost, an e-node
    competes once all its operands are settled. So the choices of all classes together are acyclic, whatever the
    costs; the trees are the cheapest if ``costs`` (n,) are not negative and there is no ``sharing``. Ties go to
    the tree of fewer e-nodes, then to the e-node of lower number.

    Args:
        problem: the classes and e-nodes.
        costs: (n,) what each e-node adds to the cost of its tree.
        sharing: (m,) by how many users the cost of each class is shared; makes the result a heuristic.
        paid: ``(class, e-node)`` that are chosen already and cost nothing, operands first.
    """
    owner, operands, users = problem.owner, problem.operands, problem.users
    choice, value, size = [-1] * len(problem.nodes), [inf] * len(problem.nodes), [0.0] * len(problem.nodes)
    # The values of a whole tree are floats: shared e-nodes make trees of exponential size, which may reach inf.
    totals, sizes = list(costs), [1.0] * len(operands)
    waiting = [len(children) for children in operands]
    heap = [(totals[n], 1.0, n) for members in problem.nodes for n in members if not operands[n]]

    def settle(cls: int, node: int, cost: float, count: float) -> None:
        choice[cls], value[cls], size[cls] = node, cost, count
        for user in users[cls]:
            totals[user] += cost
            sizes[user] += count
            waiting[user] -= 1
            if not waiting[user] and choice[owner[user]] < 0:
                heappush(heap, (totals[user], sizes[user], user))

    heapify(heap)
    for cls, node in paid:
        settle(cls, node, 0.0, 0.0)
    while heap:
        total, count, node = heappop(heap)
        cls = owner[node]
        if choice[cls] < 0:
            settle(cls, node, total / sharing[cls] if sharing else total, count)
    return choice, value


def complete(problem: Problem, preferred: Sequence[int]) -> Choice:
    """An acyclic choice for every class that has one, which keeps to ``preferred`` as far as that has no cycle.

    ``preferred`` may be cyclic, open, or name unusable e-nodes; if it is closed and acyclic, all of it is kept.
    """
    usable = [node if node in members else -1 for members, node in zip(problem.nodes, preferred, strict=True)]
    costs = [abs(cost) for cost in problem.costs]
    order = problem.order(usable)
    if order is not None:
        return cheapest_trees(problem, costs, paid=[(cls, usable[cls]) for cls in order])[0]
    for node in usable:
        if node >= 0:
            costs[node] *= 2.0**-20
    return cheapest_trees(problem, costs)[0]
