"""A topological order of the classes that follows the choice as it changes."""

from __future__ import annotations

from collections.abc import Sequence

from egraph_opt.extraction.problem import Problem


class Order:
    """Labels such that each class stands above the operands of its chosen e-node.

    A change of one choice moves only the classes that stand between: those below the new operands and above the
    class, to right under it. That is half of the algorithm of Pearce and Kelly, "A dynamic topological sort
    algorithm for directed acyclic graphs" (2006), with labels of an ordered list in place of positions.
    """

    def __init__(self, problem: Problem, choice: list[int]) -> None:
        """``choice`` (m,) is acyclic, closed where it is not -1, and stays the caller's, who changes it."""
        self.operands = problem.operands
        self.choice = choice
        self.label = [-1.0] * len(choice)
        self.below = [-1] * len(choice)  # the neighbours in the list; -1 at its ends
        self.above = [-1] * len(choice)
        self._renumber(self._sorted())

    def blockers(self, node: int, cls: int) -> list[int] | None:
        """The classes that must move under ``cls`` before it can choose ``node``; None if that closes a cycle."""
        label, operands, choice = self.label, self.operands, self.choice
        line = label[cls]
        found = [child for child in set(operands[node]) if label[child] >= line]
        if not found:
            return found
        seen = set(found)
        for child in found:  # grows while it is walked
            if child == cls:
                return None
            for lower in operands[choice[child]]:
                if label[lower] >= line and lower not in seen:
                    seen.add(lower)
                    found.append(lower)
        return found

    def move(self, blockers: list[int], cls: int) -> None:
        """Moves what ``blockers`` found to right under ``cls``, in the order in which it stood."""
        if not blockers:
            return
        label, below, above = self.label, self.below, self.above
        blockers.sort(key=label.__getitem__)
        for mover in blockers:
            self._link(below[mover], above[mover])
        low = below[cls]
        floor = label[low] if low >= 0 else label[cls] - 2.0 * len(blockers)
        step = (label[cls] - floor) / (len(blockers) + 1)
        for index, mover in enumerate(blockers, 1):
            self._link(low, mover)
            label[mover] = floor + index * step
            low = mover
        self._link(low, cls)
        if step < 1e-6:
            self._renumber(self._listed(cls))

    def _link(self, low: int, high: int) -> None:
        if low >= 0:
            self.above[low] = high
        if high >= 0:
            self.below[high] = low

    def _listed(self, cls: int) -> list[int]:
        while self.below[cls] >= 0:
            cls = self.below[cls]
        listed = [cls]
        while self.above[listed[-1]] >= 0:
            listed.append(self.above[listed[-1]])
        return listed

    def _renumber(self, listed: Sequence[int]) -> None:
        last = -1
        for position, cls in enumerate(listed):
            self.label[cls] = float(position + 1)
            self.below[cls], self.above[cls] = last, -1
            if last >= 0:
                self.above[last] = cls
            last = cls

    def _sorted(self) -> list[int]:
        """Every class that has a choice, operands first."""
        operands, choice = self.operands, self.choice
        done = bytearray(len(choice))
        order: list[int] = []
        for start, chosen in enumerate(choice):
            if chosen < 0 or done[start]:
                continue
            stack = [start]
            while stack:
                cls = stack[-1]
                if done[cls]:
                    stack.pop()
                    continue
                waiting = [child for child in operands[choice[cls]] if not done[child]]
                if waiting:
                    stack.extend(waiting)
                else:
                    stack.pop()
                    done[cls] = 1
                    order.append(cls)
        return order
