"""One extraction problem as plain lists: what every strategy works on.

Lists, not arrays: the strategies walk the graph edge by edge, where Python lists are several times faster
than NumPy scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import fsum

import numpy as np
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph, Selection
from egraph_opt.errors import EgraphOptError, UsageError

Choice = list[int]
"""The e-node of each class, or -1: ``Selection.choice`` as a list."""


class NoExtractionError(EgraphOptError):
    """A root class has no e-node that can be computed at finite cost without needing itself."""

    exit_code = 3


@dataclass(frozen=True)
class Problem:
    """The e-nodes that may be selected, their costs and the classes that must be computed.

    Attributes:
        costs: finite cost of each e-node; meaningless for e-nodes that ``nodes`` does not list.
        operands: operand classes of each e-node, ascending; a class that is used twice is there twice, because
            trees count it twice.
        owner: the class of each e-node.
        nodes: the usable e-nodes of each class, ascending; empty where a class cannot be computed.
        roots: distinct classes that must be computed, in order of their first mention.
    """

    costs: list[float]
    operands: list[tuple[int, ...]]
    owner: list[int]
    nodes: list[list[int]]
    roots: list[int]

    @staticmethod
    def build(egraph: EGraph, costs: NDArray[np.float64], forbidden: NDArray[np.bool_] | None = None) -> Problem:
        """The problem of ``egraph``; ``costs`` and ``forbidden`` have shape (n,).

        Raises:
            UsageError: an array has another shape, or a cost is NaN or minus infinity.
        """
        costs = np.asarray(costs, np.float64)
        _check_shape("costs", costs.shape, egraph.node_count)
        unusable = np.isposinf(costs)
        if forbidden is not None:
            _check_shape("forbidden", np.shape(forbidden), egraph.node_count)
            unusable |= np.asarray(forbidden, np.bool_)
        wrong = np.flatnonzero(np.isnan(costs) | np.isneginf(costs))
        if wrong.size:
            node = int(wrong[0])
            raise UsageError(
                f"the cost of e-node {node} ({egraph.labels[node]}) is {costs[node]}: costs must be numbers, "
                "or +inf for an e-node that must not be selected"
            )
        owner: list[int] = egraph.node_class.tolist()
        flat: list[int] = egraph.children.tolist()
        offsets: list[int] = egraph.child_offsets.tolist()
        operands = [tuple(sorted(flat[a:b])) for a, b in pairwise(offsets)]
        nodes: list[list[int]] = [[] for _ in range(egraph.class_count)]
        for node in np.flatnonzero(~unusable).tolist():
            nodes[owner[node]].append(node)
        return Problem(costs.tolist(), operands, owner, nodes, list(dict.fromkeys(egraph.roots.tolist())))

    @cached_property
    def users(self) -> list[list[int]]:
        """The usable e-nodes that have each class as an operand, once per use."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for members in self.nodes:
            for node in members:
                for child in self.operands[node]:
                    users[child].append(node)
        return users

    @cached_property
    def successors(self) -> list[list[int]]:
        """The class graph: the distinct operand classes of each class's usable e-nodes, ascending."""
        return [sorted({child for node in members for child in self.operands[node]}) for members in self.nodes]

    @cached_property
    def operand_counts(self) -> list[int]:
        """The number of operands of each e-node."""
        return [len(children) for children in self.operands]

    @cached_property
    def leaves(self) -> list[int]:
        """The usable e-nodes without operands."""
        return [node for members in self.nodes for node in members if not self.operands[node]]

    @cached_property
    def has_negative_costs(self) -> bool:
        return any(self.costs[node] < 0 for members in self.nodes for node in members)

    def order(self, choice: Sequence[int]) -> list[int] | None:
        """The classes that the roots need under ``choice``, operands first; None if it is open or cyclic."""
        state = bytearray(len(self.nodes))  # 0 new, 1 on the path, 2 done
        order: list[int] = []
        for root in self.roots:
            stack = [root]
            while stack:
                cls = stack[-1]
                if state[cls]:
                    stack.pop()
                    if state[cls] == 1:
                        state[cls] = 2
                        order.append(cls)
                    continue
                if choice[cls] < 0:
                    return None
                state[cls] = 1
                for child in self.operands[choice[cls]]:
                    if state[child] == 1:
                        return None
                    if not state[child]:
                        stack.append(child)
        return order

    def trim(self, choice: Sequence[int]) -> Choice:
        """``choice`` with -1 for every class that the roots do not need. ``choice`` must be acyclic and closed."""
        trimmed = [-1] * len(self.nodes)
        for cls in self.order(choice) or ():
            trimmed[cls] = choice[cls]
        return trimmed

    def rank(self, choice: Sequence[int]) -> tuple[float, int, Choice]:
        """What makes one trimmed choice better than another: cost, then number of e-nodes, then order of e-nodes.

        The cost is rounded once (``math.fsum``), so that it does not depend on the order of the classes.
        """
        selected = [node for node in choice if node >= 0]
        return fsum(self.costs[node] for node in selected), len(selected), list(choice)

    def best(self, choices: Sequence[Choice]) -> Choice:
        """The best of several trimmed choices, by ``rank``."""
        return min(choices, key=self.rank)

    def selection(self, choice: Sequence[int]) -> Selection:
        return Selection(np.array(self.trim(choice), np.int64))


def _check_shape(name: str, shape: tuple[int, ...], node_count: int) -> None:
    if shape != (node_count,):
        raise UsageError(f"{name} must have one entry per e-node: shape ({node_count},), not {shape}")
