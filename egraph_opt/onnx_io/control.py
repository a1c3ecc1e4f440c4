"""Bodies of If, Loop and Scan as graphs of their own, and what they say of the types of the node's outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import onnx_ir

from egraph_opt.ir import OpaqueType, Size, TensorType, TupleType, Type, symbol
from egraph_opt.onnx_io.opaque import FORMAL, Body, OpaqueNode
from egraph_opt.onnx_io.scope import Captures, Context, Item, Scope

_ROUNDS = 4
"""How often the types of values that a loop carries are widened before they count as unknown."""


def read_bodies(
    outer: Scope, reader: Callable[[Context, Captures], Scope], node: onnx_ir.Node, operands: Sequence[int | None]
) -> tuple[OpaqueNode, tuple[Item, ...]] | None:
    """``node`` with its bodies read, and the types of its outputs; ``None`` where they do not belong together."""
    if not _fits(node):
        return None
    control = _Control(outer, reader, node, operands)
    types = CONTROL[node.op_type](control)
    present = tuple(i is not None for i in operands)
    used = sorted(set[int]().union(*(body.captures() for body in control.bodies.values())))
    return OpaqueNode(node, present, tuple(control.captures.numbers), control.bodies, tuple(used)), types


class _Control:
    def __init__(
        self,
        outer: Scope,
        reader: Callable[[Context, Captures], Scope],
        node: onnx_ir.Node,
        operands: Sequence[int | None],
    ) -> None:
        self.outer, self.reader, self.node, self.operands = outer, reader, node, operands
        self.captures = Captures(outer)
        self.bodies: dict[str, Body] = {}

    # --- the three operators

    def branches(self) -> tuple[Item, ...]:
        """If: each output has what the types of both branches have in common."""
        pairs = zip(self._body("then_branch", ()), self._body("else_branch", ()), self.node.outputs, strict=True)
        return tuple(self._common(a, b, value) for a, b, value in pairs)

    def loop(self) -> tuple[Item, ...]:
        """Loop: the values that it carries, then what it collects."""
        start = [self._operand(i) for i in range(2, len(self.operands))]
        formals = (TensorType("int64", ()), TensorType("bool", ()))
        outputs = self._fixpoint(formals, start, (), skip=1)
        trips = self._number(0)
        runs = trips is not None and trips >= 1 and (self._missing(1) or bool(self._number(1)))
        collected = [self._collected(t, v, 0, runs) for t, v in zip(*self._rest(outputs, start), strict=True)]
        return (*self._carried(start, outputs), *collected)

    def scan(self) -> tuple[Item, ...]:
        """Scan: the same, over slices of its last inputs."""
        node = self.node
        scans = node.attributes["num_scan_inputs"].as_int()
        first = len(self.operands) - scans
        start = [self._operand(i) for i in range(first)]
        axes = self._ints("scan_input_axes", scans)
        scanned = [self._operand(first + i) for i in range(scans)]
        values = node.attributes["body"].as_graph().inputs[first:]
        slices = [self._without(t, axis, v) for t, axis, v in zip(scanned, axes, values, strict=True)]
        outputs = self._fixpoint((), start, slices, skip=0)
        lengths = [t.shape[axis] for t, axis in zip(scanned, axes, strict=True) if isinstance(t, TensorType)]
        runs = any(isinstance(n, int) and n >= 1 for n in lengths)
        left, values = self._rest(outputs, start)
        out_axes = self._ints("scan_output_axes", len(left))
        collected = [self._collected(t, v, a, runs) for t, v, a in zip(left, values, out_axes, strict=True)]
        return (*self._carried(start, outputs), *collected)

    # --- bodies

    def _body(self, name: str, formals: Sequence[Item]) -> tuple[Item, ...]:
        """Reads a body whose inputs have these types; returns the types of its outputs."""
        graph = self.node.attributes[name].as_graph()
        scope = self.reader(self.outer.context, self.captures)
        for number, (value, type_) in enumerate(zip(graph.inputs, formals, strict=True)):
            scope.define(value, scope.graph.add("Input", (f"{FORMAL}{number}",), (), type_))
        read = scope.read(graph)  # type: ignore[attr-defined]
        self.bodies[name] = Body(graph, read, scope.constants)
        return tuple(_item(read.types[i]) for i in read.outputs)

    def _fixpoint(
        self, before: Sequence[Item], start: Sequence[Item], after: Sequence[Item], skip: int
    ) -> tuple[Item, ...]:
        """Types of a body's outputs from ``skip`` on, where those of the carried values hold in every iteration.

        They begin as those of the initial values and are widened until the body gives back what it takes.
        """
        values = self.node.attributes["body"].as_graph().inputs[len(before) :]
        carried, widened = list(start), set[Size]()
        seen = len(self.outer.context.opaque)
        for number in count():
            del self.outer.context.opaque[seen:]
            outputs = self._body("body", (*before, *carried, *after))[skip:]
            pairs = zip(carried, outputs, values, strict=False)
            wider = [a if isinstance(a, OpaqueType) else self._common(a, b, v, widened) for a, b, v in pairs]
            if wider == carried:
                return outputs
            if number >= _ROUNDS:
                every = zip(carried, wider, values, strict=False)
                wider = [a if a == b else self._unknown(a, v) for a, b, v in every]
            carried = wider
        raise AssertionError

    # --- types

    def _common(self, a: Item, b: Item, value: onnx_ir.Value, widened: set[Size] | None = None) -> Item:
        """What ``a`` and ``b`` have in common; sizes that differ become fresh ones, or stay such."""
        if not isinstance(a, TensorType) or not isinstance(b, TensorType) or (a.dtype, a.rank) != (b.dtype, b.rank):
            return self._unknown(a if a.dtype == b.dtype else None, value)
        if a == b:
            return a
        stem = self.outer.context.fresh.stem(value)
        shape: list[Size] = []
        for axis, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)):
            if m == n or (widened is not None and m in widened):
                shape.append(m)
            else:
                shape.append(symbol(f"{stem}:{axis}"))
                if widened is not None:
                    widened.add(shape[-1])
        return TensorType(a.dtype, tuple(shape))

    def _unknown(self, like: Item | None, value: onnx_ir.Value) -> OpaqueType:
        return OpaqueType(self.outer.context.fresh.stem(value), "unknown" if like is None else like.dtype)

    def _carried(self, start: Sequence[Item], outputs: Sequence[Item]) -> list[Item]:
        """Final values of what a loop carries: after no iteration they are the initial ones."""
        pairs = zip(start, outputs, self.node.outputs, strict=False)
        return [self._common(a, b, value) for a, b, value in pairs]

    def _rest(self, outputs: Sequence[Item], start: Sequence[Item]) -> tuple[list[Item], list[onnx_ir.Value]]:
        return list(outputs[len(start) :]), list(self.node.outputs[len(start) :])

    def _collected(self, part: Item, value: onnx_ir.Value, axis: int, runs: bool) -> Item:
        """What is stacked up along ``axis``; without an iteration only a run can tell more than its dtype."""
        if not isinstance(part, TensorType) or not runs or not -part.rank - 1 <= axis <= part.rank:
            return self._unknown(part, value)
        place = axis if axis >= 0 else axis + part.rank + 1
        length = symbol(f"{self.outer.context.fresh.stem(value)}:{place}")
        return TensorType(part.dtype, (*part.shape[:place], length, *part.shape[place:]))

    def _without(self, type_: Item, axis: int, value: onnx_ir.Value) -> Item:
        if not isinstance(type_, TensorType) or not -type_.rank <= axis < type_.rank:
            return self._unknown(type_, value)
        axis %= type_.rank
        return TensorType(type_.dtype, (*type_.shape[:axis], *type_.shape[axis + 1 :]))

    # --- operands

    def _operand(self, index: int) -> Item:
        found = self.operands[index]
        return OpaqueType("", "unknown") if found is None else _item(self.outer.graph.types[found])

    def _missing(self, index: int) -> bool:
        return index >= len(self.operands) or self.operands[index] is None

    def _number(self, index: int) -> int | None:
        if self._missing(index):
            return None
        found = self.outer.builder.known(int(str(self.operands[index])))
        return None if found is None or found.size != 1 else int(found.reshape(-1)[0])

    def _ints(self, name: str, count: int) -> Sequence[int]:
        attr = self.node.attributes.get(name)
        return (0,) * count if attr is None else attr.as_ints()


def _fits(node: onnx_ir.Node) -> bool:
    """Whether the bodies take and give as many values as the node does."""
    if node.op_type == "If":
        bodies = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        return all(not body.inputs and len(body.outputs) == len(node.outputs) for body in bodies)
    body = node.attributes["body"].as_graph()
    extra = 1 if node.op_type == "Loop" else 0
    return len(body.inputs) == len(node.inputs) and len(body.outputs) == len(node.outputs) + extra


def _item(type_: Type) -> Item:
    return OpaqueType("", "unknown") if isinstance(type_, TupleType) else type_


CONTROL: dict[str, Callable[[_Control], tuple[Item, ...]]] = {
    "If": _Control.branches,
    "Loop": _Control.loop,
    "Scan": _Control.scan,
}
"""Operators whose bodies are read."""
