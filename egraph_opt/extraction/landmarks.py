"""A strong lower bound without a solver: sets of e-nodes of which every selection needs one.

Extraction is planning without delete lists: classes are facts, e-nodes are actions with their operands as
preconditions, the roots are the goal, and each action is paid once. So the landmark-cut bound of planning applies:
Helmert and Domshlak, "Landmarks, critical paths and abstractions: what's the difference anyway?" (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import fsum, inf

from egraph_opt.extraction.problem import Problem


@dataclass(frozen=True)
class Landmark:
    """One of ``nodes`` is in every selection: the e-nodes of ``classes``, a root among them, that use none of these."""

    classes: tuple[int, ...]
    nodes: tuple[int, ...]
    price: float


@dataclass(frozen=True)
class Landmarks:
    """The bound, and what it leaves.

    Attributes:
        bound: every selection costs at least this: the sum of the prices of the landmarks.
        found: the landmarks, in the order in which they were found.
        left: (n,) what is left of each e-node's cost. A selection costs ``bound`` and what is left of its e-nodes,
            or more; so an e-node of which more is left than a known selection exceeds the bound is in none better.
    """

    bound: float
    found: list[Landmark]
    left: list[float]


def landmarks(
    problem: Problem,
    costs: Sequence[float] | None = None,
    enough: float = inf,
    stop: Callable[[], bool] = lambda: False,
) -> Landmarks:
    """Landmarks that share the costs of the e-nodes among them, until the bound is ``enough`` or no cost is left.

    Each round finds the *unavoidable path* to every class: the least, over its e-nodes, of cost plus the longest
    path to an operand. From the root of the longest path, walk along e-nodes without cost to the operand of longest
    path: whatever computes a class reached so from classes outside is a landmark, and its cheapest e-node the price.

    Args:
        problem: every class with e-nodes can be computed.
        costs: (n,) not negative; those of ``problem`` if not given.
        enough: a bound above this is not raised further.
        stop: asked after each round.
    """
    costs = problem.costs if costs is None else costs
    noise = 1e-13 * max((cost for cost in costs if cost < inf), default=0.0)
    left = [cost if cost > noise else 0.0 for cost in costs]
    found: list[Landmark] = []
    bound = 0.0
    while bound <= enough and not stop():
        paths, dearest = _paths(problem, left)
        root = max(problem.roots, key=lambda cls: (paths[cls], -cls), default=-1)
        if root < 0 or not 0 < paths[root] < inf:
            break
        zone = _free_zone(problem, root, left, dearest)
        operands = problem.operands
        nodes = tuple(n for cls in zone for n in problem.nodes[cls] if zone.keys().isdisjoint(operands[n]))
        price = min(left[node] for node in nodes)
        for node in nodes:
            left[node] -= price
            if left[node] <= noise:
                left[node] = 0.0
        found.append(Landmark(tuple(zone), nodes, price))
        bound += price
    return Landmarks(fsum(landmark.price for landmark in found), found, left)


def _free_zone(problem: Problem, root: int, left: Sequence[float], dearest: Sequence[int]) -> dict[int, None]:
    """The classes that lead to ``root`` along e-nodes without cost and their dearest operands; ``root`` first."""
    zone = {root: None}
    stack = [root]
    while stack:
        for node in problem.nodes[stack.pop()]:
            if not left[node] and dearest[node] not in zone:
                zone[dearest[node]] = None
                stack.append(dearest[node])
    return zone


def _paths(problem: Problem, costs: Sequence[float]) -> tuple[list[float], list[int]]:
    """Per class the length of its unavoidable path, and per e-node the operand of longest path (-1: none)."""
    owner, users = problem.owner, problem.users
    paths, dearest = [inf] * len(problem.nodes), [-1] * len(costs)
    waiting = problem.operand_counts.copy()
    heap = [(costs[n], n) for n in problem.leaves]
    heapify(heap)
    while heap:
        length, node = heappop(heap)
        cls = owner[node]
        if paths[cls] < inf:
            continue
        paths[cls] = length
        for user in users[cls]:
            waiting[user] -= 1
            if not waiting[user]:  # classes settle by increasing length: the last operand is the dearest
                dearest[user] = cls
                if paths[owner[user]] == inf:
                    heappush(heap, (costs[user] + length, user))
    return paths, dearest
