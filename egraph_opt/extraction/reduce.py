"""Shrinks a problem without changing the cost of its best selection.

Each step is a method of ``_Workspace``, with the argument why it keeps an optimal selection. Steps marked *signed*
also hold with negative costs; the others are left out then. Sources: extraction-gym's ``faster_ilp_cbc.rs``
(forced classes, dominated e-nodes, single parents), dominators, and the simplifications of monotone circuits in
Sun, Zhang and Ni, "E-graphs as circuits, and optimal extraction via treewidth" (2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum, inf

from egraph_opt.extraction.bounds import forced_classes, unavoidable_paths
from egraph_opt.extraction.graph import immediate_dominators, strongly_connected
from egraph_opt.extraction.landmarks import landmarks
from egraph_opt.extraction.problem import Problem
from egraph_opt.extraction.reduced import Reduced
from egraph_opt.extraction.tree_greedy import cheapest_trees

_MAX_ROUNDS = 20  # each round pays for itself only while it removes something; nearly always 3 to 6 are enough
_MAX_LANDMARK_ROUNDS = 6
_PROVEN = 1e-9  # relative: what counts as proven everywhere in this room
_WORTHWHILE = 0.03  # the part of the problem that a round must remove for another one to be worth its time


def reduce(
    problem: Problem,
    upper: float = inf,
    stop: Callable[[], bool] = lambda: False,
    *,
    thorough: bool = True,
    check: Callable[[], None] = lambda: None,
) -> Reduced:
    """Applies all steps until they remove next to nothing, or ``stop()`` says so between two steps.

    With ``upper``, the cost of a known selection, e-nodes that only dearer selections contain go as well (if no
    cost is negative). The known selection itself may not survive; one of no higher cost does. If landmarks prove at
    once that none costs less, that ends the work: there may be more left than need be.

    Unless ``thorough``, what takes long as a rule is left out. ``check`` is called now and then inside the steps, and
    may raise what ends all of this.
    """
    work = _Workspace(problem, upper, check)
    steps: dict[str, Callable[[], None]] = {
        "settled": work.settle_free_leaves,  # where constants are free, little is left for the others
        "unreachable": work.drop_unreachable,
        "merged": work.merge_single_nodes,
        "dominated": work.drop_dominated,
        "landmarks": lambda: work.drop_beside_landmarks(stop, fresh=False),  # early: they may prove that all is done
        "impossible": work.drop_impossible,
        "too dear": work.drop_too_dear,
        "cyclic": work.drop_cyclic,
        "paid for": work.drop_paid_operands,
        "costs moved": work.move_costs_up,
    }
    if work.signed:
        del steps["dominated"], steps["too dear"]
    if work.signed or upper == inf:
        del steps["landmarks"]
    removed = dict.fromkeys(steps, 0)

    def ended() -> bool:
        return work.proven or stop()

    _repeat(work, steps, removed, ended)
    if thorough and "landmarks" in steps:
        _repeat_with_landmarks(work, steps, removed, ended)
    if not work.proven:
        # Whatever stopped the steps: what is left is closed, and reachable.
        work.drop_impossible()
        work.drop_unreachable()
    return work.finish(removed)


def _repeat_with_landmarks(
    work: _Workspace, steps: dict[str, Callable[[], None]], removed: dict[str, int], stop: Callable[[], bool]
) -> None:
    """Rounds of the best landmarks, and then of ``steps``, while they remove something."""
    for _ in range(_MAX_LANDMARK_ROUNDS):
        if stop():
            return
        before = work.size()
        work.drop_beside_landmarks(stop)
        fewer = before - work.size()
        removed["landmarks"] += fewer
        if fewer:
            _repeat(work, steps, removed, stop)
        if work.size() >= (1 - _WORTHWHILE) * before:
            return


def _repeat(
    work: _Workspace, steps: dict[str, Callable[[], None]], removed: dict[str, int], stop: Callable[[], bool]
) -> None:
    """Rounds of ``steps`` until one of them removes next to nothing."""
    before = work.size()
    for _ in range(_MAX_ROUNDS):
        at_start = before
        for name, step in steps.items():
            if stop():
                return
            step()
            after = work.size()
            removed[name] += before - after
            before = after
        if before >= (1 - _WORTHWHILE) * at_start:
            return


class _Workspace:
    """A problem that changes: ``nodes`` and ``operands`` shrink, costs move towards the roots."""

    def __init__(self, problem: Problem, upper: float, check: Callable[[], None]) -> None:
        self.upper = upper
        self.check = check
        self.lower_bound = -inf
        self.replaced: dict[int, int] = {}
        self.owner = problem.owner
        self.signed = problem.has_negative_costs
        self.costs = list(problem.costs)
        self.operands = [frozenset(children) for children in problem.operands]
        self.nodes = [list(members) for members in problem.nodes]
        self.roots = dict.fromkeys(problem.roots)
        self.fixed: dict[int, int] = {}
        self.base: list[float] = []

    @property
    def proven(self) -> bool:
        """Whether no selection can cost less than the known one, as far as sums of rounded numbers can tell."""
        return self.lower_bound >= self.upper - _PROVEN * abs(self.upper)

    def size(self) -> int:
        """E-nodes and operands that are left."""
        return sum(1 + len(self.operands[node]) for members in self.nodes for node in members)

    def problem(self) -> Problem:
        self.check()
        operands: list[tuple[int, ...]] = [()] * len(self.operands)
        for members in self.nodes:
            for node in members:
                operands[node] = tuple(sorted(self.operands[node]))
        return Problem(self.costs, operands, self.owner, self.nodes, list(self.roots))

    def finish(self, removed: dict[str, int]) -> Reduced:
        removed = {step: count for step, count in removed.items() if count}
        return Reduced(self.problem(), fsum(self.base), self.fixed, self.replaced, self.lower_bound, removed)

    def keep(self, wanted: Callable[[int], bool]) -> None:
        self.nodes = [[node for node in members if wanted(node)] if members else members for members in self.nodes]

    def users(self) -> list[set[int]]:
        self.check()
        users: list[set[int]] = [set() for _ in self.nodes]
        for members in self.nodes:
            for node in members:
                for child in self.operands[node]:
                    users[child].add(node)
        return users

    def successors(self) -> list[list[int]]:
        self.check()
        operands = self.operands
        return [
            sorted(set[int]().union(*[operands[node] for node in members])) if members else [] for members in self.nodes
        ]

    def drop_impossible(self) -> None:
        """E-nodes with an operand that no acyclic selection computes (signed)."""
        problem = self.problem()
        choice, _ = cheapest_trees(problem, [0.0] * len(self.costs))
        self.keep(lambda node: all(choice[child] >= 0 for child in self.operands[node]))

    def drop_unreachable(self) -> None:
        """Classes that no root leads to (signed)."""
        reached = set(self.roots)
        stack = list(reached)
        while stack:
            for node in self.nodes[stack.pop()]:
                fresh = self.operands[node] - reached
                reached |= fresh
                stack.extend(fresh)
        self.keep(lambda node: self.owner[node] in reached)

    def drop_cyclic(self) -> None:
        """E-nodes of a class c with an operand d that is c, or lies on every path from the roots to c (signed).

        A selection that needs c contains a path from a root to c, so d, and then d needs c and c needs d.
        """
        start = len(self.nodes)
        dominator = immediate_dominators([*self.successors(), list(self.roots)], start)
        enter, leave = _visit_times(dominator, start)

        def closes_cycle(node: int) -> bool:
            cls = self.owner[node]
            return any(enter[d] <= enter[cls] < leave[d] for d in self.operands[node])

        self.keep(lambda node: not closes_cycle(node))

    def drop_paid_operands(self) -> None:
        """Operands that are selected in any case and cannot lead back to the e-node's class (signed).

        A class that is an operand of every e-node of a root is a root as well: it is needed in any case.
        """
        self.roots = dict.fromkeys(forced_classes(self.problem()))
        component = strongly_connected(self.successors())
        for members in self.nodes:
            for node in members:
                home = component[self.owner[node]]
                paid = [d for d in self.operands[node] if d in self.roots and component[d] != home]
                if paid:
                    self.operands[node] = self.operands[node].difference(paid)

    def move_costs_up(self) -> None:
        """What a class costs at least, moved to the only e-node that uses it, or to the base for a root (signed).

        The class is selected exactly when that e-node is. Operands come first, so that costs move all the way.
        """
        users = self.users()
        component = strongly_connected(self.successors())
        for cls in sorted(range(len(self.nodes)), key=component.__getitem__):
            members = self.nodes[cls]
            if members and (cls in self.roots or len(users[cls]) == 1):
                least = min(self.costs[node] for node in members)
                for node in members:
                    self.costs[node] -= least
                if cls in self.roots:
                    self.base.append(least)
                else:
                    self.costs[next(iter(users[cls]))] += least

    def settle_free_leaves(self) -> None:
        """Classes with an e-node that costs nothing and has no operands: nothing can be better than that e-node.

        Signed if it is the only e-node of its class.
        """
        users = self.users()
        queue = [node for members in self.nodes for node in members if self._is_free_leaf(node)]
        while queue:
            node = queue.pop()
            cls = self.owner[node]
            if cls in self.fixed or (self.signed and len(self.nodes[cls]) > 1):
                continue
            self._remove_class(cls, node)
            for user in users[cls]:
                self.operands[user] -= {cls}
                if self._is_free_leaf(user):
                    queue.append(user)

    def _is_free_leaf(self, node: int) -> bool:
        return not self.operands[node] and self.costs[node] == 0

    def _remove_class(self, cls: int, node: int) -> None:
        self.fixed[cls] = node
        self.nodes[cls] = []
        self.roots.pop(cls, None)

    def merge_single_nodes(self) -> None:
        """Classes with one e-node, merged into the e-nodes that use them where no cost is counted twice (signed).

        That is, into the only user, or into all users if it costs nothing and has at most one operand. Every cycle
        through such a class passes through one of its users, so cycles are kept.
        """
        users = self.users()
        component = strongly_connected(self.successors())
        for cls in sorted(range(len(self.nodes)), key=component.__getitem__):
            members = self.nodes[cls]
            if len(members) != 1 or cls in self.roots or cls in self.operands[members[0]]:
                continue
            node = members[0]
            below = self.operands[node]
            if len(users[cls]) != 1 and (self.costs[node] != 0 or len(below) > 1):
                continue
            for user in users[cls]:
                self.operands[user] = (self.operands[user] - {cls}) | below
                self.costs[user] += self.costs[node]
            for child in below:
                users[child].discard(node)
                users[child] |= users[cls]
            self._remove_class(cls, node)

    def drop_dominated(self) -> None:
        """E-nodes that a sibling can replace at no higher cost.

        The sibling may have further operands if their cheapest trees are paid for by the difference in cost, and
        they cannot lead back to the class (else the replacement could close a cycle). Ties keep the e-node of
        fewer operands, then the lower number.
        """
        _, trees = cheapest_trees(self.problem(), self.costs)
        component = strongly_connected(self.successors())
        for cls, members in enumerate(self.nodes):
            if len(members) < 2:
                continue
            ranked = sorted(members, key=lambda node: (self.costs[node], len(self.operands[node]), node))
            prices = {
                child: trees[child] if component[child] != component[cls] else inf
                for node in members
                for child in self.operands[node]
            }
            self.nodes[cls] = sorted(self._undominated(ranked, prices))

    def drop_too_dear(self) -> None:
        """E-nodes whose dearest unavoidable path costs more than a known selection."""
        paths = unavoidable_paths(self.problem())
        left = self._left_over(0.0)
        self.keep(lambda node: self.costs[node] + max((paths[d] for d in self.operands[node]), default=0.0) <= left)

    def drop_beside_landmarks(self, stop: Callable[[], bool], *, fresh: bool = True) -> None:
        """E-nodes that cost more, beside what the landmarks pay for, than a known selection leaves."""
        found = landmarks(self.problem(), enough=self._left_over(0.0), stop=stop, fresh=fresh)
        self.lower_bound = max(self.lower_bound, min(self.upper, fsum([*self.base, found.bound])))
        left = self._left_over(found.bound)
        self.keep(lambda node: found.left[node] <= left)

    def _left_over(self, bound: float) -> float:
        """What a known selection costs beyond ``bound``; rounding must not cut off that selection."""
        return self.upper - fsum(self.base) - bound + 1e-9 * abs(self.upper)

    def _undominated(self, ranked: Sequence[int], prices: dict[int, float]) -> list[int]:
        kept: list[int] = []
        by_operands: dict[frozenset[int], int] = {}
        for node in ranked:
            operands, cost = self.operands[node], self.costs[node]
            if operands in by_operands:
                self.replaced[node] = by_operands[operands]
                continue
            for sibling in kept[:_MAX_COMPARED]:
                extra = self.operands[sibling] - operands
                if not extra or self.costs[sibling] + sum(prices[child] for child in extra) <= cost:
                    self.replaced[node] = sibling
                    break
            else:
                kept.append(node)
                by_operands[operands] = node
        return kept


_MAX_COMPARED = 200  # e-nodes of one class that each further one is compared with: bounds the work, not the result


def _visit_times(parents: Sequence[int], root: int) -> tuple[list[int], list[int]]:
    """When a depth-first walk enters and leaves each vertex of a tree; vertices outside the tree get (-1, -1)."""
    children: list[list[int]] = [[] for _ in parents]
    for vertex, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(vertex)
    enter, leave = [-1] * len(parents), [-1] * len(parents)
    time = 0
    stack = [root]
    while stack:
        vertex = stack[-1]
        if enter[vertex] < 0:
            enter[vertex] = time
            time += 1
            stack.extend(children[vertex])
        else:
            leave[vertex] = time
            stack.pop()
    return enter, leave
