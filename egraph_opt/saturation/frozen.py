"""A snapshot of the worker as the e-graph that extraction works on, and the way back to a tensor graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from egraph_opt.egraph import EGraph, Selection
from egraph_opt.ir import AttrValue, TensorGraph, Type
from egraph_opt.ops import operator
from egraph_opt.rewrites import Rule
from egraph_opt.saturation.constants import ConstantFolder
from egraph_opt.saturation.enodes import ENode
from egraph_opt.saturation.repeats import Key, without_repeats
from egraph_opt.saturation.snapshot import Snapshot
from egraph_opt.terms.pattern import App

LEAVES = ("Input", "Const", "Opaque")


@dataclass(frozen=True)
class Frozen:
    """An e-graph over a tensor graph.

    Attributes:
        egraph: the arrays; e-node i of it is ``enodes[i]``. A constant class has one e-node, ``Const``, whose
            attribute is
            the class itself: its value comes from ``folder``.
        class_types: type of each class.
        original: classes of the nodes of the graph, in the graph's order.
        fired: per class, names of the rules that proved something equal to it.
        makes: per rule, the operators at the root of its right side.
        rules: the rules by name.
        is_new: (n,) whether the e-node was made by a rule, and is not part of the graph.
    """

    graph: TensorGraph
    egraph: EGraph
    enodes: tuple[ENode, ...]
    class_types: tuple[Type | None, ...]
    original: tuple[int, ...]
    fired: dict[int, tuple[str, ...]]
    makes: dict[str, frozenset[str]]
    folder: ConstantFolder
    rules: Mapping[str, Rule]

    @cached_property
    def is_new(self) -> np.ndarray:
        """(n,) bool, as said above."""
        known = {self._key(n.op, n.attrs, [self.original[i] for i in n.operands]) for n in self.graph.nodes}
        return np.array([e.op != "Const" and self._key(e.op, e.attrs, e.operands) not in known for e in self.enodes])

    @cached_property
    def places(self) -> list[int]:
        """The e-node of each node of the graph; -1 where there is none, because its value is stored instead."""
        index = {self._key(e.op, e.attrs, e.operands): i for i, e in enumerate(self.enodes) if e.op != "Const"}
        stored = {e.cls: i for i, e in enumerate(self.enodes) if e.op == "Const"}
        return [
            stored.get(cls, -1)
            if node.op == "Const"
            else index.get(self._key(node.op, node.attrs, [self.original[i] for i in node.operands]), -1)
            for node, cls in zip(self.graph.nodes, self.original, strict=True)
        ]

    @staticmethod
    def _key(op: str, attrs: Sequence[AttrValue], operands: Sequence[int]) -> tuple[str, str, tuple[int, ...]]:
        return op, repr(tuple(attrs)), tuple(operands)

    def original_enodes(self) -> list[int]:
        """The e-nodes of the graph as it was, one for each node that its outputs need (a constant class is one
        ``Const``).

        No selection is that where rules found two nodes of the graph equal: one class then has two of them.
        """
        stored = {e.cls: i for i, e in enumerate(self.enodes) if e.op == "Const"}
        found: dict[int, None] = {}
        again: list[int] = []
        needed = set(self.graph.outputs)
        for number in reversed(range(len(self.graph.nodes))):
            node, cls = self.graph.nodes[number], self.original[number]
            if number not in needed:
                continue
            if cls in stored:
                found[stored[cls]] = None
                continue
            needed.update(node.operands)
            place = self.places[number]
            if place in found:
                again.append(place)
            elif place >= 0:
                found[place] = None
        return [*found, *again]

    def selection_of_original(self) -> Selection:
        """The graph as it was, as far as a selection can be: of nodes that rules found equal, the first."""
        choice = np.full(self.egraph.class_count, -1, np.int64)
        for cls in set(self.egraph.node_class[[e.op == "Const" for e in self.enodes]].tolist()):
            choice[cls] = self.egraph.nodes_of(cls)[0]
        for cls, place in zip(self.original, self.places, strict=True):
            if choice[cls] < 0 and place >= 0:
                choice[cls] = place
        return Selection(choice)

    def made_by(self, index: int) -> frozenset[str]:
        """Rules that may have made a new e-node: they reached its class, and their right side has its operator."""
        enode = self.enodes[index]
        return frozenset(n for n in self.fired.get(enode.cls, ()) if enode.op in self.makes.get(n, ()))

    def rules_behind(self, selection: Selection) -> dict[str, int]:
        """Rules that led to the selection, with the number of places where each did, most first.

        Those that made a selected e-node, and those that reached a value of the graph that is no longer computed: what
        a chain of rules passes through on its way is gone in the end.
        """
        counts: dict[str, int] = {}
        kept: set[int] = set()
        for index in selection.order(self.egraph):
            kept.add(self.enodes[index].cls)
            if self.is_new[index]:
                for name in self.made_by(index):
                    counts[name] = counts.get(name, 0) + 1
        selected = {
            self._key(e.op, e.attrs, e.operands) for e in (self.enodes[int(i)] for i in selection.order(self.egraph))
        }
        for node, cls in zip(self.graph.nodes, self.original, strict=True):
            gone = self._key(node.op, node.attrs, [self.original[i] for i in node.operands]) not in selected
            if node.op not in LEAVES and gone and (cls not in kept or not self._is_replaced(cls, selection)):
                for name in self.fired.get(cls, ()):
                    counts[name] = counts.get(name, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def _is_replaced(self, cls: int, selection: Selection) -> bool:
        """Whether a rule made what now computes the class (and has been counted for that)."""
        return bool(self.is_new[int(selection.choice[cls])])


def freeze(graph: TensorGraph, snapshot: Snapshot, rules: Sequence[Rule], *, guard_cancellation: bool = True) -> Frozen:
    """The e-graph of a snapshot of ``graph``. E-nodes without a type are left out: they cannot be computed.

    ``guard_cancellation`` refuses to fold sums that lose many bits (all numerics levels but ``fast``).
    """
    class_types: list[Type | None] = [None] * snapshot.class_count
    for cls, number in snapshot.class_types.items():
        class_types[cls] = snapshot.types[number]
    decoded = [(e, k) for e, k in _decode(snapshot) if all(class_types[c] is not None for c in (e.cls, *e.operands))]
    every, keys = [e for e, _ in decoded], [key for _, key in decoded]
    original = tuple(snapshot.node_class)
    known = {(n.op, repr(n.attrs), tuple(original[i] for i in n.operands)) for n in graph.nodes}
    ours = frozenset(i for i, key in enumerate(keys) if key in known)
    roots = frozenset(original[i] for i in graph.outputs)
    folder = ConstantFolder(
        every, class_types, graph.constants, ours, guard_cancellation, frozenset(snapshot.constant), roots
    )
    stored = {cls for cls in folder.recipe if folder.storable(cls)}
    offered = [i for i, e in enumerate(every) if i not in folder.refused and e.cls not in stored and e.op != "Const"]
    offered = without_repeats(every, keys, offered, ours, stored, snapshot.class_types)
    used = {*original, *(cls for i in offered for cls in every[i].operands)}
    enodes = [every[i] for i in offered] + [ENode("Const", (cls,), (), cls) for cls in sorted(stored & used)]
    if folder.refused:
        enodes = _computable(enodes)
    egraph = EGraph.build(
        [(e.op, e.cls, e.operands) for e in enodes], [original[i] for i in graph.outputs], snapshot.class_count
    )
    fired: dict[int, tuple[str, ...]] = {}
    for cls, number in snapshot.fired:
        fired[cls] = (*fired.get(cls, ()), snapshot.rule_names[number])
    makes = {r.name: frozenset(p.op for p in r.rhs if isinstance(p, App)) for r in rules}
    return Frozen(
        graph, egraph, tuple(enodes), tuple(class_types), original, fired, makes, folder, {r.name: r for r in rules}
    )


def _computable(enodes: Sequence[ENode]) -> list[ENode]:
    """The e-nodes that can be computed from leaves, without what was refused."""
    users: dict[int, list[int]] = {}
    for index, enode in enumerate(enodes):
        for cls in set(enode.operands):
            users.setdefault(cls, []).append(index)
    missing = [len(set(enode.operands)) for enode in enodes]
    ready = [index for index, count in enumerate(missing) if not count]
    reached: set[int] = set()
    for index in ready:  # grows meanwhile
        if (cls := enodes[index].cls) not in reached:
            reached.add(cls)
            for user in users.get(cls, ()):
                missing[user] -= 1
                if not missing[user]:
                    ready.append(user)
    return [enode for enode, count in zip(enodes, missing, strict=True) if not count]


def _decode(snapshot: Snapshot) -> Iterator[tuple[ENode, Key]]:
    for table in snapshot.tables:
        raw = [True] if table.op in ("Const", "Opaque") else [False]
        if table.op not in LEAVES:
            raw = [p.kind == "int" for p in operator(table.op).params]
        known: dict[tuple[int, ...], tuple[tuple[AttrValue, ...], str]] = {}
        for attrs, operands, cls in zip(table.attrs, table.operands, table.classes, strict=True):
            if attrs not in known:
                values = tuple(v if r else snapshot.values[v] for v, r in zip(attrs, raw, strict=True))
                known[attrs] = values, repr(values)
            values, shown = known[attrs]
            yield ENode(table.op, values, operands, cls), (table.op, shown, operands)
