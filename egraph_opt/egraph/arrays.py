"""An e-graph frozen into arrays (compressed sparse rows), and a selection of one e-node per needed e-class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class SelectionError(ValueError):
    """A selection is not a graph: a class without e-node, an e-node of another class, or a cycle."""


@dataclass(frozen=True)
class EGraph:
    """E-nodes ``0..n-1`` in e-classes ``0..m-1``.

    Attributes:
        node_class: (n,) the class of each e-node.
        child_offsets: (n+1,) where each e-node's operands start in ``children``.
        children: operand classes, all e-nodes one after the other, in operand order, repetitions kept.
        roots: classes that must be computed, in output order; repetitions allowed.
        labels: (n,) the operator of each e-node, for people and JSON.
    """

    node_class: Ints
    child_offsets: Ints
    children: Ints
    roots: Ints
    labels: tuple[str, ...]
    class_count: int

    @staticmethod
    def build(nodes: Sequence[tuple[str, int, Sequence[int]]], roots: Sequence[int], class_count: int) -> EGraph:
        """From ``(label, class, operand classes)`` per e-node."""
        offsets = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum([len(children) for _, _, children in nodes], out=offsets[1:])
        return EGraph(
            np.array([cls for _, cls, _ in nodes], np.int64),
            offsets,
            np.array([child for _, _, children in nodes for child in children], np.int64),
            np.array(roots, np.int64),
            tuple(label for label, _, _ in nodes),
            class_count,
        )

    @property
    def node_count(self) -> int:
        return len(self.node_class)

    def operands(self, node: int) -> Ints:
        """Operand classes of an e-node, in order."""
        return self.children[self.child_offsets[node] : self.child_offsets[node + 1]]

    @cached_property
    def class_nodes(self) -> tuple[Ints, Ints]:
        """``(offsets, nodes)``: the e-nodes of class c are ``nodes[offsets[c]:offsets[c+1]]``, ascending."""
        counts = np.bincount(self.node_class, minlength=self.class_count)
        offsets = np.zeros(self.class_count + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        return offsets, np.argsort(self.node_class, kind="stable")

    def nodes_of(self, cls: int) -> Ints:
        """The e-nodes of a class, ascending."""
        offsets, nodes = self.class_nodes
        return nodes[offsets[cls] : offsets[cls + 1]]


@dataclass(frozen=True)
class Selection:
    """``choice[c]`` is the e-node that computes class c, or -1 where the class is not needed."""

    choice: Ints

    def order(self, egraph: EGraph) -> list[int]:
        """The selected e-nodes that the roots need, operands first. This is also the check of a selection.

        Raises:
            SelectionError: a needed class has no e-node or one of another class, or the selection has a cycle.
        """
        state = np.zeros(egraph.class_count, np.int8)  # 0 new, 1 on the path, 2 done
        order: list[int] = []
        for root in egraph.roots:
            stack = [int(root)]
            while stack:
                cls = stack[-1]
                node = int(self.choice[cls])
                if state[cls] == 0:
                    if node < 0 or egraph.node_class[node] != cls:
                        raise SelectionError(f"class {cls} is needed, but e-node {node} does not compute it")
                    state[cls] = 1
                    for child in egraph.operands(node):
                        if state[child] == 1:
                            raise SelectionError(f"class {child} needs itself")
                        if state[child] == 0:
                            stack.append(int(child))
                else:
                    stack.pop()
                    if state[cls] == 1:
                        state[cls] = 2
                        order.append(node)
        return order


def selection_cost(egraph: EGraph, costs: Floats, selection: Selection) -> float:
    """The cost of a checked selection: each selected e-node that the roots need counts once.

    Raises:
        SelectionError: as ``Selection.order``.
    """
    return float(costs[np.array(selection.order(egraph), np.int64)].sum()) if egraph.roots.size else 0.0
