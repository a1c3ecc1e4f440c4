"""Local search on the exact DAG cost: one e-node at a time, or one e-node and what is then worth changing around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from egraph_opt.extraction.order import Order
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.tree_greedy import cheapest_trees


class LocalSearch:
    """A selection that changes. ``references`` counts roots and selected e-nodes that use a class.

    Keeps one e-node per class, for all classes, without a cycle even among those that are not needed: so any
    class can be taken in at any time. What a change frees and adds is told by the reference counts, as in *exact
    local area* (Mishchenko, Chatterjee, Brayton, "Improvements to technology mapping for LUT-based FPGAs", 2006).

    Attributes:
        effort: bound on the work: edges visited. Some million a second; unlike seconds, the same on every machine.
        cost: of the selection, up to rounding.
    """

    def __init__(self, problem: Problem, effort: int, stop: Callable[[], bool] = lambda: False) -> None:
        self.problem = problem
        self.effort = effort
        self.stop = stop
        self.sweep_effort = 2 * sum(map(len, problem.users))
        self.positive_costs = [max(cost, 0.0) for cost in problem.costs]
        self.choice: Choice = []
        self.references: list[int] = []
        self.cost = 0.0
        self._journal: list[tuple[int, int]] = []
        self._largest = max((abs(problem.costs[n]) for members in problem.nodes for n in members), default=0.0)

    def load(self, start: Sequence[int]) -> None:
        """Go on from ``start``, which must be acyclic and complete over all classes that can be computed."""
        self.choice = list(start)
        self.order = Order(self.problem, self.choice)
        self.references = [0] * len(self.problem.nodes)
        self.cost = sum(self._take([root])[0] for root in self.problem.roots)
        self.effort -= len(self.choice)

    def selection(self) -> Choice:
        """The present selection, trimmed."""
        return [node if count else -1 for node, count in zip(self.choice, self.references, strict=True)]

    def descend(self, reserve: int = 0) -> None:
        """Choose the best e-node class by class, until nothing changes or only ``reserve`` of the effort is left."""
        improved = True
        while improved and self.effort > reserve:
            improved = False
            for cls in reversed(self.problem.order(self.choice) or []):
                if self.effort <= reserve or self.stop():
                    return
                if self.references[cls] and len(self.problem.nodes[cls]) > 1:
                    improved |= self._improve_class(cls)
            if improved:
                self.renew_unneeded()

    def sweep(self, reserve: int = 0) -> bool:
        """Kick every e-node near the selection once, until only ``reserve`` effort is left; whether that helped."""
        helped = False
        for node in self.nearby():
            if self.effort <= reserve or self.stop():
                break
            if self.choice[self.problem.owner[node]] != node or not self.references[self.problem.owner[node]]:
                helped |= self.kick(node) < 0.0
        return helped

    def nearby(self) -> list[int]:
        """The e-nodes that cost something or compete with others, in the order of their distance from the selection."""
        problem = self.problem
        near = [cls for cls, count in enumerate(self.references) if count]
        seen = set(near)
        for cls in near:  # grows while it is walked
            for child in problem.successors[cls]:
                if child not in seen:
                    seen.add(child)
                    near.append(child)
        self.effort -= len(near)
        return [
            node
            for cls in near
            for node in problem.nodes[cls]
            if len(problem.nodes[cls]) > 1 or problem.costs[node] > 0.0
        ]

    def renew_unneeded(self) -> None:
        """Give classes outside the selection the e-node that adds least to it."""
        self.effort -= self.sweep_effort
        order = self.problem.order(self.choice) or []
        paid = [(cls, self.choice[cls]) for cls in order]
        self.load(cheapest_trees(self.problem, self.positive_costs, paid=paid)[0])

    def kick(self, node: int, allowance: float = 0.0, reach: int = 24) -> float:
        """Choose ``node``, and what its presence makes cheaper; undo that if the cost rises by over ``allowance``.

        While the classes that could use it are tried, nearest first and at most ``reach`` of them, ``node`` counts
        as paid for. So an e-node is found that is worth its cost only to several users together. Returns by how
        much the cost rose, 0 if nothing was kept.
        """
        cls = self.problem.owner[node]
        before, self._journal = self.cost, []
        if not self._choose(cls, node):
            return 0.0
        self.cost += self._take([cls])[0]
        self._spread(cls, reach)
        self.cost -= self._drop([cls])[0]
        rise = self.cost - before
        noise = self._noise(before)
        if rise > max(allowance, noise) or (allowance <= 0.0 and rise > -noise):
            for changed, old in reversed(self._journal):
                self._choose(changed, old)
            self.cost = before
            return 0.0
        return rise

    def _spread(self, start: int, reach: int) -> None:
        """Let the classes above ``start`` use what is there now; first those that it costs least to take in."""
        problem, owner, references = self.problem, self.problem.owner, self.references
        heap = [(0.0, start)]
        seen = {start}
        while heap and reach > 0 and self.effort > 0:
            _, below = heappop(heap)
            for user in problem.users[below]:
                cls = owner[user]
                if references[cls] and self.choice[cls] != user:
                    reach -= 1
                    self._replace(cls, user)
                elif not references[cls] and cls not in seen:
                    reach -= 1
                    if self._replace(cls, user) or self.choice[cls] == user:
                        seen.add(cls)
                        heappush(heap, (self._price(user), cls))
                if reach <= 0:
                    break

    def _price(self, node: int) -> float:
        """What taking ``node`` in would add to the selection."""
        operands = self.problem.operands[node]
        price = self.problem.costs[node] + self._take(operands)[0]
        self._drop(operands)
        return price

    def _replace(self, cls: int, node: int) -> bool:
        """Choose ``node`` for ``cls`` if that is cheaper than the present e-node; whether that was so."""
        current = self.choice[cls]
        if not self._usable(node):
            return False
        if self.references[cls]:
            before = self.cost
            if not self._choose(cls, node):
                return False
            if self.cost < before - self._noise(before):
                return True
            self._choose(cls, current)
            self._journal.pop()
            self._journal.pop()
            return False
        return self._price(node) < self._price(current) - self._noise(self.cost) and self._choose(cls, node)

    def _choose(self, cls: int, node: int) -> bool:
        """Choose ``node`` for ``cls`` whatever it costs; False, and nothing changes, if that closes a cycle."""
        problem, current = self.problem, self.choice[cls]
        if node == current:
            return True
        if not self._usable(node):
            return False
        blockers = self.order.blockers(node, cls)
        if blockers is None:
            return False
        self.effort -= 1 + len(blockers)
        if self.references[cls]:
            # The new operands first, so that what both use is not counted twice.
            self.cost += problem.costs[node] + self._take(problem.operands[node])[0]
            self.cost -= problem.costs[current] + self._drop(problem.operands[current])[0]
        self.order.move(blockers, cls)
        self.choice[cls] = node
        self._journal.append((cls, current))
        return True

    def _improve_class(self, cls: int) -> bool:
        """Choose the e-node of ``cls`` that costs least, everything else being as it is; whether that changed."""
        problem, current = self.problem, self.choice[cls]
        costs, operands = problem.costs, problem.operands
        freed = self._drop(operands[current])
        best, best_key = current, (costs[current] + freed[0], 1 + freed[1])
        for node in problem.nodes[cls]:
            if node == current or not self._usable(node):
                continue
            blockers = self.order.blockers(node, cls)
            if blockers is None:
                continue
            self.effort -= len(blockers)
            added = self._take(operands[node])
            self._drop(operands[node])
            key = (costs[node] + added[0], 1 + added[1])
            if key[0] < best_key[0] - self._noise(best_key[0]) or (key[0] <= best_key[0] and key[1] < best_key[1]):
                best, best_key = node, key
        self._take(operands[current])
        return best != current and self._choose(cls, best)

    def _noise(self, cost: float) -> float:
        """Sums of the same costs in another order differ by less than this: no reason to change, and change back."""
        return 1e-12 * max(abs(cost), self._largest)

    def _usable(self, node: int) -> bool:
        """Whether all operands can be computed."""
        return all(self.choice[child] >= 0 for child in self.problem.operands[node])

    def _take(self, classes: Sequence[int]) -> tuple[float, int]:
        """Count one more use of each class: the cost and the number of e-nodes that this adds."""
        return self._follow(list(classes), 1)

    def _drop(self, classes: Sequence[int]) -> tuple[float, int]:
        """Count one use less of each class: the cost and the number of e-nodes that this frees."""
        return self._follow(list(classes), -1)

    def _follow(self, stack: list[int], step: int) -> tuple[float, int]:
        problem, references, choice = self.problem, self.references, self.choice
        total, count, visited = 0.0, 0, 0
        turning_point = 1 if step > 0 else 0
        while stack:
            cls = stack.pop()
            visited += 1
            references[cls] += step
            if references[cls] == turning_point:
                node = choice[cls]
                total += problem.costs[node]
                count += 1
                stack.extend(problem.operands[node])
        self.effort -= visited
        return total, count
