"""E-nodes and nodes in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from egraph_opt.explanation.conditions import said
from egraph_opt.onnx_io.opaque import opaque_node
from egraph_opt.ops import operator
from egraph_opt.saturation import Frozen

PLAIN = (None, (), "", 1, False)
"""Attributes that are not worth a word."""


@dataclass(frozen=True)
class Words:
    """Says what e-nodes and nodes of a graph are."""

    frozen: Frozen

    def operator(self, number: int) -> str:
        """The operator of an e-node, in the words of ONNX."""
        enode = self.frozen.enodes[number]
        if enode.op == "Opaque":
            return opaque_node(self.frozen.graph, self._first[enode.cls]).node.op_type
        return f"Conv+{enode.attrs[4]}" if enode.op == "FusedConv" else enode.op

    def enode(self, number: int) -> str:
        """An e-node with its operands and its attributes."""
        enode = self.frozen.enodes[number]
        shown = [self.value(cls) for cls in enode.operands]
        if enode.op not in ("Opaque", "Input", "Const"):
            named = zip(operator(enode.op).params, enode.attrs, strict=True)
            shown += [f"{p.name}={said(v)}" for p, v in named if v not in PLAIN]
        return f"{self.operator(number)}({', '.join(shown)})"

    def value(self, cls: int) -> str:
        """A class, by the name of its value, or by its type."""
        if cls in self._first:
            index = self._first[cls]
            node = self.frozen.graph.nodes[index]
            if node.op == "Input":
                return str(node.attrs[0])
            if node.op != "Const":
                return self.frozen.graph.names.get(index) or node.op
        if any(self.frozen.enodes[n].op == "Const" for n in self.frozen.egraph.nodes_of(cls)):
            return f"constant {self.frozen.class_types[cls]}"
        first = next(iter(self.frozen.egraph.nodes_of(cls)), None)
        return "?" if first is None else f"a {self.frozen.enodes[first].op}"

    def node(self, index: int) -> str:
        """What people call a node of the graph."""
        origin = self.frozen.graph.origins.get(index)
        return origin.nodes[0] if origin and origin.nodes else self.frozen.graph.names.get(index, "")

    @cached_property
    def _first(self) -> dict[int, int]:
        """The first node of the graph in each class."""
        found: dict[int, int] = {}
        for index, cls in enumerate(self.frozen.original):
            found.setdefault(cls, index)
        return found
