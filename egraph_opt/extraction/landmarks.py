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
    """One of ``nodes`` is in each selection: the e-nodes of some classes, a root among these, that use none of them."""

    nodes: tuple[int, ...]
    price: float


@dataclass(frozen=True)
class Landmarks:
    """The bound, and what it leaves.

    Attributes:
        bound: every selection costs at least this: the sum of the prices of the landmarks.
        found: the landmarks, in the order in which they were found.
        left: (n,) what is left of each e-node's cost; inf for an e-node that cannot be computed. A selection costs
            ``bound`` and what is left of its e-nodes, or more; so an e-node of which more is left than a known
            selection exceeds the bound is in none better.
    """

    bound: float
    found: list[Landmark]
    left: list[float]


def landmarks(
    problem: Problem,
    costs: Sequence[float] | None = None,
    enough: float = inf,
    stop: Callable[[], bool] = lambda: False,
    *,
    fresh: bool = True,
) -> Landmarks:
    """Landmarks that share the costs of the e-nodes among them, until the bound is ``enough`` or no cost is left.

    The *unavoidable path* to a class is the least, over its e-nodes, of cost plus the longest path to an operand.
    From the root of the longest path, walk along e-nodes without cost to the operand of longest path: whatever
    computes a class reached so from classes outside is a landmark, and its cheapest e-node the price.

    Args:
        problem: may have classes and e-nodes that cannot be computed.
        costs: (n,) not negative; those of ``problem`` if not given.
        enough: a bound above this is not raised further.
        stop: asked after each round.
        fresh: whether paths are brought up to date after each landmark, which takes most of the time. Without, the
            bound is as good for many e-graphs, and much worse for some.
    """
    search = _Search(problem, problem.costs if costs is None else costs, fresh=fresh)
    bound = 0.0
    while bound <= enough and not stop() and search.step():
        bound += search.found[-1].price
    return Landmarks(fsum(landmark.price for landmark in search.found), search.found, search.left)


class _Search:
    """What is left of the costs, which classes that makes free, and the zone of the next landmark.

    The zone are the classes that lead to the root along e-nodes without cost and their dearest operands; its *ways in*
    are the e-nodes of these classes that use none of them. Both grow from one landmark to the next, until a class of
    the zone is free.
    """

    def __init__(self, problem: Problem, costs: Sequence[float], *, fresh: bool) -> None:
        self.problem, self.fresh = problem, fresh
        self.noise = 1e-13 * max((cost for cost in costs if cost < inf), default=0.0)
        self.left = [cost if cost > self.noise else 0.0 for cost in costs]
        self.found: list[Landmark] = []
        self.paths, self.dearest = find_paths(problem, self.left)
        for node, operand in enumerate(self.dearest):
            if operand < 0 and problem.operands[node]:
                self.left[node] = inf  # cannot be computed
        self.roots = [(-self.paths[root], root) for root in problem.roots if self.paths[root] < inf]
        heapify(self.roots)
        self.free = bytearray(len(problem.nodes))  # classes that can be computed without cost
        self.waiting = problem.operand_counts.copy()  # operands of each e-node that are not free
        self.zone: set[int] = set()
        self.dear: dict[int, list[int]] = {}  # operands of an e-node that may not be free, the dearest last
        self._settle([node for node in problem.leaves if not self.left[node]])

    def step(self) -> bool:
        """Finds a landmark and takes its price off the costs; False if nothing is left to pay."""
        root = self._dearest_root()
        if root is None:
            return False
        if not self.zone:
            self.ways_in: dict[int, None] = {}
            self._extend(self._enter(root))
        price = min(self.left[node] for node in self.ways_in)
        self.found.append(Landmark(tuple(self.ways_in), price))
        paid = self._take_off(price)
        if self.fresh:
            shorten_paths(self.problem, self.left, self.paths, self.dearest, list(self.ways_in))
        settled = [node for node in paid if not self.waiting[node]]
        if settled or self.fresh:
            self._settle(settled)
            self.zone = set()
        else:
            self._extend(paid)
        return True

    def _dearest_root(self) -> int | None:
        """The root of longest path that is not free."""
        roots, paths = self.roots, self.paths
        while roots:
            length, root = roots[0]
            if self.free[root]:
                heappop(roots)
            elif -length != paths[root]:  # its path has become shorter since
                heapreplace(roots, (-paths[root], root))
            else:
                return root
        return None

    def _take_off(self, price: float) -> list[int]:
        """Takes the price off the costs of the ways in; those that are without cost now."""
        left = self.left
        paid: list[int] = []
        for node in self.ways_in:
            left[node] -= price
            if left[node] <= self.noise:
                left[node] = 0.0
                paid.append(node)
        return paid

    def _extend(self, paid: list[int]) -> None:
        """Walk on along e-nodes without cost."""
        dearest, free, zone = self.dearest, self.free, self.zone
        while paid:
            node = paid.pop()
            self.ways_in.pop(node, None)
            if free[dearest[node]]:
                dearest[node] = self._dearest_left(node)
            if dearest[node] not in zone:
                paid += self._enter(dearest[node])

    def _enter(self, cls: int) -> list[int]:
        """Take a class into the zone; its e-nodes without cost."""
        left, operands, ways_in = self.left, self.problem.operands, self.ways_in
        self.zone.add(cls)
        for user in self.problem.users[cls]:
            ways_in.pop(user, None)
        for node in self.problem.nodes[cls]:
            if left[node] and self.zone.isdisjoint(operands[node]):
                ways_in[node] = None
        return [node for node in self.problem.nodes[cls] if not left[node]]

    def _dearest_left(self, node: int) -> int:
        """The operand of longest path among those that are not free; there is one, as the e-node's class is not."""
        operands, paths, free = self.problem.operands[node], self.paths, self.free
        if self.fresh:
            return max((cls for cls in operands if not free[cls]), key=paths.__getitem__)
        if node not in self.dear:  # paths stay: of 1,000 operands each is looked at once, not once per landmark
            self.dear[node] = sorted(operands, key=paths.__getitem__, reverse=True)[::-1]
        dear = self.dear[node]
        while free[dear[-1]]:
            dear.pop()
        return dear[-1]

    def _settle(self, fresh: list[int]) -> None:
        """Marks what e-nodes make free that cost nothing and have no operand that does."""
        owner, users, waiting, left, free = self.problem.owner, self.problem.users, self.waiting, self.left, self.free
        while fresh:
            cls = owner[fresh.pop()]
            if not free[cls]:
                free[cls] = 1
                for user in users[cls]:
                    waiting[user] -= 1
                    if not waiting[user] and not left[user]:
                        fresh.append(user)


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
