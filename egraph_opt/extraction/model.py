"""Extraction as a binary program, and the cuts that rule out cycles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import inf

from egraph_opt.extraction.graph import strongly_connected
from egraph_opt.extraction.highs import Row
from egraph_opt.extraction.problem import Choice, Problem

_VIOLATED = 1e-4  # by how much the present point must violate a cut for it to be worth a row


class Model:
    """The program of one problem: a column x per e-node, and a column y per class where that is not a sum of one x.

    The operands of each e-node must be distinct.

        minimise  sum of costs[n] * x[n]
        x[n] summed over the e-nodes n of class c          = y[c]       (1 for a root)
        x[n] summed over the e-nodes n of c that use d    <= y[d]

    Cycles are left to cuts. For a set U of classes and c in U, *some* class of U must be computed without U:

        y[c] <= x[n] summed over the e-nodes n of the classes of U that use no class of U

    These are the loop formulas of answer set programming (Lin and Zhao, "ASSAT", 2004): every acyclic selection
    satisfies all of them, no cyclic one does. Only sets inside one strongly connected component matter.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        count = len(problem.costs)
        roots = set(problem.roots)
        # The column that says whether a class is selected; -1 for roots, which always are.
        self.active: list[int] = []
        for cls, members in enumerate(problem.nodes):
            if cls in roots:
                self.active.append(-1)
            elif len(members) == 1:
                self.active.append(members[0])
            else:
                self.active.append(count)
                count += 1
        self.objective = [*problem.costs, *[0.0] * (count - len(problem.costs))]
        self.component = strongly_connected(problem.successors)

    def rows(self) -> Iterator[Row]:
        """The rows of the program, and the cuts for all cycles of two classes."""
        problem = self.problem
        for cls, members in enumerate(problem.nodes):
            if self.active[cls] < 0:
                yield Row(members, [1.0] * len(members), 1.0, 1.0)
            elif len(members) > 1:
                yield Row([*members, self.active[cls]], [*[1.0] * len(members), -1.0], 0.0, 0.0)
            for child in problem.successors[cls]:
                if self.active[child] >= 0:
                    using = [node for node in members if child in problem.operands[node]]
                    if len(using) == len(members) and self.active[cls] >= 0:
                        using = [self.active[cls]]
                    yield Row([*using, self.active[child]], [*[1.0] * len(using), -1.0], -inf, 0.0)
        if problem.has_negative_costs:  # else no class is selected for its own sake
            for cls, column in enumerate(self.active):
                if column >= 0:
                    users = problem.users[cls]
                    yield Row([*users, column], [*[-1.0] * len(users), 1.0], -inf, 0.0)
        for cls, below in enumerate(problem.successors):
            for child in below:
                if child < cls and self.component[child] == self.component[cls] and cls in problem.successors[child]:
                    yield self.cut([cls, child], cls)
                    yield self.cut([cls, child], child)

    def outside_support(self, members: Sequence[int]) -> list[int]:
        """The e-nodes of the classes ``members`` that use none of them."""
        inside = set(members)
        operands = self.problem.operands
        return [node for cls in members for node in self.problem.nodes[cls] if inside.isdisjoint(operands[node])]

    def cut(self, members: Sequence[int], target: int) -> Row:
        """``target`` is selected only if one of the classes ``members`` is computed without the others."""
        support = self.outside_support(members)
        if self.active[target] < 0:
            return Row(support, [1.0] * len(support), 1.0, inf)
        terms = dict.fromkeys(support, -1.0)
        terms[self.active[target]] = terms.get(self.active[target], 0.0) + 1.0
        return Row(list(terms), list(terms.values()), -inf, 0.0)

    def violated_cuts(self, values: Sequence[float], limit: int) -> list[Row]:
        """Cuts that the point ``values`` (columns,) violates, the most violated first; at most ``limit``.

        Exact for points in {0, 1}: a cycle of selected e-nodes always yields a cut. For others, a set U is found
        as the shortest cycle through a class, where the way from class d to its operand m is as long as d is
        computed without m.
        """
        lengths = self._lengths(values)
        found: dict[tuple[tuple[int, ...], int], float] = {}
        for cls in lengths:
            cycle = self._shortest_cycle(cls, lengths, self._activity(cls, values) - _VIOLATED)
            if cycle is None:
                continue
            members = tuple(sorted(cycle))
            support = sum(values[node] for node in self.outside_support(members))
            for target in members:
                violation = self._activity(target, values) - support
                if violation > _VIOLATED:
                    found[members, target] = violation
        ranked = sorted(found, key=lambda key: (-found[key], len(key[0]), key))
        return [self.cut(members, target) for members, target in ranked[:limit]]

    def choice(self, values: Sequence[float]) -> Choice:
        """The e-node of each class of largest value; -1 where that is less than a half."""
        best = [max(members, key=values.__getitem__) for members in self.problem.nodes]
        return [node if values[node] > 0.5 else -1 for node in best]

    def point(self, choice: Sequence[int]) -> list[float]:
        """The columns' values for a trimmed choice."""
        values = [0.0] * len(self.objective)
        for cls, node in enumerate(choice):
            if node >= 0:
                values[node] = 1.0
                if self.active[cls] >= 0:
                    values[self.active[cls]] = 1.0
        return values

    def _activity(self, cls: int, values: Sequence[float]) -> float:
        return 1.0 if self.active[cls] < 0 else values[self.active[cls]]

    def _lengths(self, values: Sequence[float]) -> dict[int, dict[int, float]]:
        """Per class and operand class in its component: how much the class is computed without that operand."""
        lengths: dict[int, dict[int, float]] = {}
        for cls, members in enumerate(self.problem.nodes):
            using: dict[int, float] = {}
            for node in members:
                if values[node] > 1e-9:
                    for child in self.problem.operands[node]:
                        if self.component[child] == self.component[cls]:
                            using[child] = using.get(child, 0.0) + values[node]
            if using:
                activity = self._activity(cls, values)
                lengths[cls] = {child: max(0.0, activity - value) for child, value in using.items()}
        return lengths

    def _shortest_cycle(self, cls: int, lengths: dict[int, dict[int, float]], bound: float) -> list[int] | None:
        """The classes of the shortest cycle through ``cls``; None if none is below ``bound``. Ties: fewest classes."""
        done: dict[int, int] = {}
        heap = [(0.0, 0, cls, -1)]
        while heap:
            distance, hops, at, source = heappop(heap)
            if at in done and not (at == cls and hops):
                continue
            if hops and at == cls:
                cycle = [source]
                while cycle[-1] != cls:
                    cycle.append(done[cycle[-1]])
                return cycle
            done[at] = source
            for child, length in lengths.get(at, {}).items():
                if distance + length < bound and (child not in done or child == cls):
                    heappush(heap, (distance + length, hops + 1, child, at))
        return None
