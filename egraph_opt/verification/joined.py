"""Two models as one tensor graph: inputs meet by name, constants by content, operators by hash-consing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir

from egraph_opt.ir import (
    AttrValue,
    Constant,
    OpaqueType,
    Size,
    SizeExpr,
    TensorGraph,
    TensorType,
    TupleType,
    Type,
    substitute,
    symbol,
)
from egraph_opt.onnx_io import import_model
from egraph_opt.onnx_io.functions import inlined
from egraph_opt.onnx_io.opaque import OpaqueNode
from egraph_opt.saturation import fold_constants

PREFIX = "second/"
"""What names of values of the second model start with."""


@dataclass(frozen=True)
class Joined:
    """Both graphs in one; the outputs of each, in order, and the nodes that each consists of."""

    graph: TensorGraph
    outputs: tuple[tuple[int, ...], tuple[int, ...]]
    sides: tuple[frozenset[int], frozenset[int]]


def join(first: onnx_ir.Model, second: onnx_ir.Model) -> Joined:
    """Two models of one interface in one graph.

    The second is imported with the first one's names of sizes, and with names of values that no value of the first has:
    a size that is only known while the model runs is called after a value, and two such sizes must not be taken for
    one. Opaque nodes are shared where ONNX says that the operator is deterministic and all attributes are equal.
    """
    first, second = inlined(first), inlined(second).clone()  # values of functions need names of their own as well
    shapes = {v.name: v.shape for v in first.graph.inputs}
    for value in second.graph.inputs:
        value.shape = shapes.get(value.name, value.shape)
    for node in second.graph.all_nodes():
        for output in node.outputs:
            if output.name:
                output.name = f"{PREFIX}{output.name}"
    joiner = _Joiner()
    outputs = (joiner.add(first), joiner.add(second))
    graph = joiner.graph
    graph.outputs = outputs[0] + outputs[1]
    return Joined(graph, outputs, (frozenset(graph.live(outputs[0])), frozenset(graph.live(outputs[1]))))


class _Joiner:
    def __init__(self) -> None:
        self.graph = TensorGraph()
        self._placed: dict[tuple[bytes, tuple[int, ...]], int] = {}
        self._numbers: dict[tuple[bytes, Type], int] = {}
        self._sizes: dict[str, Size] = {}  # sizes of the second model that are sizes of the first under another name

    def add(self, model: onnx_ir.Model) -> tuple[int, ...]:
        """Adds a model; returns the nodes of its outputs."""
        graph, opset = fold_constants(import_model(model).graph), model.opset_imports.get("", 0)
        place: list[int] = []
        for node, type_ in zip(graph.nodes, graph.types, strict=True):
            operands = tuple(place[i] for i in node.operands)
            if node.op == "Const":
                place.append(self.graph.constant(_by_content(graph.constants[int(str(node.attrs[0]))])))
            elif node.op == "Opaque":
                opaque = graph.opaques[int(str(node.attrs[0]))]
                assert isinstance(opaque, OpaqueNode)
                place.append(self._add_opaque(opaque, opset, operands, self._type(type_)))
            else:
                attrs = tuple(self._renamed(a) for a in node.attrs)
                place.append(self.graph.add(node.op, attrs, operands, self._type(type_)))
        return tuple(place[i] for i in graph.outputs)

    def _add_opaque(self, opaque: OpaqueNode, opset: int, operands: tuple[int, ...], type_: Type) -> int:
        """An opaque node: the one that is there, if it computes the same from the same operands, else one that becomes
        the same once their operands are."""
        key = _identity(opaque, opset)
        if key is None:
            return self.graph.add("Opaque", (self._number(opaque),), operands, type_)
        found = self._placed.get((key, operands))
        if found is not None:
            renamed = _renaming(type_, self.graph.types[found])
            if renamed is not None:
                self._sizes |= renamed
                return found
        if (key, type_) not in self._numbers:
            self._numbers[key, type_] = self._number(opaque)
        index = self.graph.add("Opaque", (self._numbers[key, type_],), operands, type_)
        self._placed.setdefault((key, operands), index)
        return index

    def _number(self, opaque: OpaqueNode) -> int:
        self.graph.opaques.append(opaque)
        return len(self.graph.opaques) - 1

    def _type(self, type_: Type) -> Type:
        if isinstance(type_, TupleType):
            return TupleType(tuple(self._part(t) for t in type_.items))
        return self._part(type_)

    def _part(self, type_: TensorType | OpaqueType) -> TensorType | OpaqueType:
        if isinstance(type_, OpaqueType):
            return type_
        return TensorType(type_.dtype, tuple(substitute(s, self._sizes) for s in type_.shape))

    def _renamed(self, value: AttrValue) -> AttrValue:
        if isinstance(value, SizeExpr):
            return substitute(value, self._sizes)
        return tuple(self._renamed(v) for v in value) if isinstance(value, tuple) else value


def _identity(opaque: OpaqueNode, opset: int) -> bytes | None:
    """What a deterministic node computes from its operands, as bytes; ``None`` where ONNX does not say that it is."""
    if opaque.bodies:  # what a body takes from outside is known by name there, and names say nothing
        return None
    node = onnx_ir.to_proto(opaque.node)
    assert isinstance(node, onnx.NodeProto)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    if schema.node_determinism != schema.NodeDeterminism.Deterministic:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    outputs = [bool(name) for name in node.output]
    for field in ("input", "output", "name", "doc_string", "metadata_props"):
        node.ClearField(field)
    said = f"{schema.since_version} {opaque.present} {outputs}"
    return node.SerializeToString(deterministic=True) + said.encode()


def _renaming(new: Type, old: Type) -> dict[str, Size] | None:
    """Which unknown sizes of ``new`` are which of ``old``, if the types agree otherwise."""
    match new, old:
        case TensorType(dtype, shape), TensorType(other, sizes) if dtype == other and len(shape) == len(sizes):
            found: dict[str, Size] = {}
            for a, b in zip(shape, sizes, strict=True):
                if a != b:
                    name = str(a)
                    if a != symbol(name) or not name.startswith(PREFIX) or found.setdefault(name, b) != b:
                        return None
            return found
        case TupleType(items), TupleType(others) if len(items) == len(others):
            parts = [_renaming(a, b) for a, b in zip(items, others, strict=True)]
            return None if None in parts else {k: v for p in parts if p for k, v in p.items()}
        case OpaqueType(_, dtype), OpaqueType(_, other) if dtype == other:
            return {}
        case _:
            return None


def _by_content(constant: Constant) -> Constant:
    """The constant under a key of its bits alone, wherever they are stored."""
    type_ = constant.type
    if not isinstance(type_, TensorType) or type_.dtype == "string":
        return constant
    digest = hashlib.sha256(np.ascontiguousarray(constant.load()).tobytes()).hexdigest()
    return Constant(type_, f"{type_}:{digest}", constant.load, constant.names)
