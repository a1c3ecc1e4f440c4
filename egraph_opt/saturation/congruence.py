"""Congruence closure of a frozen e-graph: what else is equal once some of its classes are.

Downey, Sethi and Tarjan, "Variations on the common subexpression problem" (JACM 1980): a union-find over classes, and a
table of e-nodes by their operator and the representatives of their operands; only users of united classes are looked at
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from egraph_opt.saturation.enodes import ENode


class Congruence:
    """Classes of ``enodes``, numbered as there, that can be united."""

    def __init__(self, enodes: Sequence[ENode], class_count: int) -> None:
        self._parents = list(range(class_count))
        self._users: list[list[int]] = [[] for _ in range(class_count)]
        self._enodes = enodes
        self._heads = [(e.op, repr(e.attrs)) for e in enodes]
        self._table: dict[tuple[tuple[str, str], tuple[int, ...]], int] = {}
        for index, enode in enumerate(enodes):
            self._table.setdefault((self._heads[index], enode.operands), enode.cls)
            for cls in set(enode.operands):
                self._users[cls].append(index)

    def find(self, cls: int) -> int:
        """The representative of a class."""
        while self._parents[cls] != cls:
            self._parents[cls] = self._parents[self._parents[cls]]
            cls = self._parents[cls]
        return cls

    def unite(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Makes the classes of each pair one, and all that follows from it."""
        pending = list(pairs)
        while pending:
            a, b = (self.find(cls) for cls in pending.pop())
            if a == b:
                continue
            if len(self._users[a]) < len(self._users[b]):
                a, b = b, a
            self._parents[b] = a
            moved, self._users[b] = self._users[b], []
            self._users[a] += moved
            for index in moved:
                enode = self._enodes[index]
                key = (self._heads[index], tuple(self.find(c) for c in enode.operands))
                pending.append((enode.cls, self._table.setdefault(key, enode.cls)))
