"""Which node of a tensor graph holds which ONNX value; a subgraph sees the values of the graphs around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx_ir

from egraph_opt.errors import InvalidModelError
from egraph_opt.ir import Constant, OpaqueType, Size, TensorGraph, TensorType, substitute
from egraph_opt.onnx_io.forced import Pair
from egraph_opt.onnx_io.opaque import CAPTURE
from egraph_opt.onnx_io.shapes import Fresh
from egraph_opt.ops import GraphBuilder, known_value

Item = TensorType | OpaqueType


@dataclass
class Context:
    """What all graphs of one model share.

    Attributes:
        fresh: names of unknown sizes.
        opaque: per opaque node, the operator and why it is not understood.
        decided: how many ``If`` nodes were replaced by one of their branches.
        taken: the branch that is read in place of an ``If``, whatever its condition.
        undecided: ``If`` nodes of the main graph that stay, and whose results are of no known rank.
        failing: nodes of the main graph that fail on operands of such ranks.
        repeated: how many nodes compute what an earlier one computes.
        known: what symbols stand for, as far as an earlier reading of the model found out.
        forced: sizes that must be equal, with the node of the main graph that fails where they are not.
    """

    opsets: dict[str, int]
    opset: int
    fresh: Fresh = field(default_factory=Fresh)
    opaque: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    decided: int = 0
    taken: Mapping[onnx_ir.Node, str] = field(default_factory=dict[onnx_ir.Node, str])
    undecided: list[onnx_ir.Node] = field(default_factory=list[onnx_ir.Node])
    failing: list[int] = field(default_factory=list[int])
    repeated: int = 0
    known: dict[str, Size] = field(default_factory=dict[str, Size])
    forced: list[tuple[int, Pair]] = field(default_factory=list[tuple[int, Pair]])

    def resolved(self, type_: Item) -> Item:
        """``type_`` with the symbols replaced that an earlier reading found out about."""
        if isinstance(type_, OpaqueType) or not self.known:
            return type_
        return TensorType(type_.dtype, tuple(substitute(size, self.known) for size in type_.shape))


@dataclass
class Captures:
    """Values of an outer graph that the bodies of one node use, in order of first use."""

    outer: Scope
    numbers: dict[onnx_ir.Value, int] = field(default_factory=dict[onnx_ir.Value, int])


class Scope:
    """The values of one graph under construction."""

    def __init__(self, context: Context, captures: Captures | None = None) -> None:
        self.context, self.captures = context, captures
        self.builder = GraphBuilder(TensorGraph())
        self.values: dict[onnx_ir.Value, int] = {}
        self.constants: dict[str, int] = {}  # number of the capture that holds a constant, by its key

    @property
    def graph(self) -> TensorGraph:
        return self.builder.graph

    def define(self, value: onnx_ir.Value, index: int) -> None:
        """Says that node ``index`` computes ``value``."""
        self.values[value] = index
        if value.name and self.graph.nodes[index].op != "Const":
            self.graph.names.setdefault(index, value.name)

    def known(self, value: onnx_ir.Value) -> int:
        """The node that computes ``value``; a value of an outer graph is captured.

        Raises:
            InvalidModelError: no node before this one computes it.
        """
        if value not in self.values:
            if self.captures is None:
                raise InvalidModelError(f"the value {value.name!r} is used before any node computes it")
            self.values[value] = self._capture(value, self.captures)
        return self.values[value]

    def _capture(self, value: onnx_ir.Value, captures: Captures) -> int:
        graph = captures.outer.graph
        index = captures.outer.known(value)
        type_ = graph.types[index]
        if graph.nodes[index].op == "Const":
            (number,) = graph.nodes[index].attrs
            constant = graph.constants[int(str(number))]
            self.constants[constant.key] = captures.numbers.setdefault(value, len(captures.numbers))
            return self.graph.constant(constant)
        array = known_value(graph, index, captures.outer.builder.given)
        if array is not None and array.dtype.kind != "O" and isinstance(type_, TensorType):
            return self.graph.constant(Constant.of(array, type_.dtype))
        number = captures.numbers.setdefault(value, len(captures.numbers))
        made = self.graph.add("Input", (f"{CAPTURE}{number}",), (), type_)
        if array is not None:
            self.builder.given[made] = array
        return made
