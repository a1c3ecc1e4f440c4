"""A lower bound on the cost of every selection that needs no solver."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import fsum, inf

from egraph_opt.extraction.problem import Problem


def forced_classes(problem: Problem) -> list[int]:
    """The roots, and every class that is an operand of all e-nodes of a forced class; roots first."""
    forced = dict.fromkeys(problem.roots)
    queue = list(problem.roots)
    while queue:
        members = problem.nodes[queue.pop()]
        if members:
            common = set(problem.operands[members[0]]).intersection(*(problem.operands[n] for n in members[1:]))
            for cls in sorted(common.difference(forced)):
                forced[cls] = None
                queue.append(cls)
    return list(forced)


def cheap_lower_bound(problem: Problem) -> float:
    """The better of two: the cheapest e-nodes of all forced classes, and the dearest path that cannot be avoided.

    With negative costs, every class that could be selected at a negative cost counts instead.
    """
    cheapest = [min((problem.costs[n] for n in members), default=inf) for members in problem.nodes]
    forced = forced_classes(problem)
    required = fsum(cheapest[cls] for cls in forced)
    if problem.has_negative_costs:
        optional = set(range(len(cheapest))).difference(forced)
        return required + fsum(min(0.0, cheapest[cls]) for cls in optional)
    paths = unavoidable_paths(problem)
    return max(required, max((paths[root] for root in problem.roots), default=0.0))


def unavoidable_paths(problem: Problem) -> list[float]:
    """Per class: the least, over its e-nodes, of the e-node's cost plus the dearest operand's path.

    Knuth's algorithm again (see ``cheapest_trees``), with the maximum of the operands in place of their sum.
    """
    paths = [inf] * len(problem.nodes)
    waiting = [len(children) for children in problem.operands]
    heap = [(problem.costs[n], n) for members in problem.nodes for n in members if not waiting[n]]
    heapify(heap)
    while heap:
        length, node = heappop(heap)
        cls = problem.owner[node]
        if paths[cls] < inf:
            continue
        paths[cls] = length
        for user in problem.users[cls]:
            waiting[user] -= 1
            if not waiting[user]:  # classes settle by increasing length: the last operand is the dearest
                heappush(heap, (problem.costs[user] + length, user))
    return paths
