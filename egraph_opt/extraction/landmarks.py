"""A strong lower bound without a solver: sets of e-nodes of which every selection needs one.

Extraction is planning without delete lists: classes are facts, e-nodes are actions with their operands as
preconditions, the roots are the goal, and each action is paid once. So the landmark-cut bound of planning applies:
Helmert and Domshlak, "Landmarks, critical paths and abstractions: what's the difference anyway?" (2009).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
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
    Then only the paths over that landmark are found anew.

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
    paths, dearest = find_paths(problem, left)
    roots = [(-paths[root], root) for root in problem.roots]
    heapify(roots)
    while bound <= enough and not stop():
        while roots and -roots[0][0] != paths[roots[0][1]]:  # its path has become shorter since
            heapreplace(roots, (-paths[roots[0][1]], roots[0][1]))
        if not roots or not 0 < paths[roots[0][1]] < inf:
            break
        root = roots[0][1]
        zone = _free_zone(problem, root, left, dearest)
        operands = problem.operands
        nodes = tuple(n for cls in zone for n in problem.nodes[cls] if zone.keys().isdisjoint(operands[n]))
        price = min(left[node] for node in nodes)
        for node in nodes:
            left[node] -= price
            if left[node] <= noise:
                left[node] = 0.0
        shorten_paths(problem, left, paths, dearest, nodes)
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


def find_paths(problem: Problem, costs: Sequence[float]) -> tuple[list[float], list[int]]:
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


def shorten_paths(
    problem: Problem, costs: Sequence[float], paths: list[float], dearest: list[int], cheaper: Sequence[int]
) -> None:
    """Brings ``paths`` and ``dearest`` up to date after the costs of the e-nodes ``cheaper`` have become less.

    The paths are those that ``find_paths`` would find; of operands of the same length the first is the dearest.
    """
    owner, users, operands = problem.owner, problem.users, problem.operands
    heap = [(costs[n] + (paths[dearest[n]] if dearest[n] >= 0 else 0.0), n) for n in cheaper]
    heapify(heap)
    while heap:
        length, node = heappop(heap)
        cls = owner[node]
        if paths[cls] <= length:
            continue
        paths[cls] = length
        for user in users[cls]:
            if dearest[user] == cls:
                dearest[user] = max(operands[user], key=paths.__getitem__)
                longer = costs[user] + paths[dearest[user]]
                if longer < paths[owner[user]]:
                    heappush(heap, (longer, user))
