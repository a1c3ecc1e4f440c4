"""Nodes that are kept bit for bit: their attributes, subgraphs, and the outer values that the subgraphs use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir


@dataclass(frozen=True)
class OpaqueNode:
    """An ONNX node that the optimizer does not look into.

    Attributes:
        present: which of the node's inputs are given; the operands in the tensor graph are those, then the captures.
        captures: values of the outer graph that its subgraphs use.
    """

    node: onnx_ir.Node
    present: tuple[bool, ...]
    captures: tuple[onnx_ir.Value, ...]

    @staticmethod
    def of(node: onnx_ir.Node) -> OpaqueNode:
        return OpaqueNode(node, tuple(v is not None for v in node.inputs), tuple(_captures(node)))

    def emit(self, operands: Sequence[onnx_ir.Value]) -> onnx_ir.Node:
        """A new node with the same attributes, on other operands; nothing is shared with the old graph."""
        given = iter(operands)
        inputs = [next(given) if here else None for here in self.present]
        captured = dict(zip(self.captures, given, strict=True))
        attributes = [_clone_attribute(attr, captured) for attr in self.node.attributes.values()]
        copy = onnx_ir.Node(
            self.node.domain,
            self.node.op_type,
            inputs,
            attributes,
            overload=self.node.overload,
            num_outputs=len(self.node.outputs),
            name=self.node.name,
            doc_string=self.node.doc_string,
            metadata_props=dict(self.node.metadata_props),
        )
        for old, new in zip(self.node.outputs, copy.outputs, strict=True):
            new.type, new.shape = old.type, old.shape
            new.name = "" if old.name == "" else None  # an output that is left out stays so
        return copy

    def carried(self, old: int, new: int) -> OpaqueNode | None:
        """This node as opset ``new`` of the default domain writes it, or ``None`` where that is not known.

        A node all of whose ONNX operators mean the same in both opsets is its own answer. Otherwise onnx's converter is
        asked, on a model of this node alone; its answer counts when it is one node with the same inputs and outputs.
        """
        nodes = [self.node, *(n for graph in _subgraphs(self.node) for n in graph.all_nodes())]
        if all(n.domain not in ("", "ai.onnx") or _since(n.op_type, old) == _since(n.op_type, new) for n in nodes):
            return self
        return None if len(nodes) > 1 else self._converted(old, new)

    def _converted(self, old: int, new: int) -> OpaqueNode | None:
        proto = onnx_ir.to_proto(self.node)
        assert isinstance(proto, onnx.NodeProto)
        unknown = onnx.helper.make_tensor_value_info
        inputs = [unknown(v.name or "", _element_type(v), None) for v in self.node.inputs if v is not None]
        outputs = [unknown(v.name or "", _element_type(v), None) for v in self.node.outputs if v.name]
        graph = onnx.helper.make_graph([proto], "one", list({v.name: v for v in inputs}.values()), outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", old)])
        try:
            nodes = onnx.version_converter.convert_version(model, new).graph.node
        except Exception:  # the converter's errors have no common base class; without it the opset is not raised
            return None
        if len(nodes) != 1 or nodes[0].op_type != proto.op_type:
            return None
        if list(nodes[0].input) != list(proto.input) or list(nodes[0].output) != list(proto.output):
            return None
        attributes = [onnx_ir.serde.deserialize_attribute(attribute) for attribute in nodes[0].attribute]
        replacement = onnx_ir.Node(
            self.node.domain,
            self.node.op_type,
            [],
            attributes,
            num_outputs=len(self.node.outputs),
            name=self.node.name,
            doc_string=self.node.doc_string,
            metadata_props=dict(self.node.metadata_props),
        )
        return OpaqueNode(replacement, self.present, self.captures)


def _element_type(value: onnx_ir.Value) -> int:
    return int(value.dtype) if value.dtype is not None else onnx.TensorProto.FLOAT


def _since(op_type: str, opset: int) -> int:
    try:
        return onnx.defs.get_schema(op_type, opset).since_version
    except onnx.defs.SchemaError:
        return -1


def _subgraphs(node: onnx_ir.Node) -> Iterator[onnx_ir.Graph]:
    for attr in node.attributes.values():
        if attr.type == onnx_ir.AttributeType.GRAPH:
            yield attr.as_graph()
        elif attr.type == onnx_ir.AttributeType.GRAPHS:
            yield from attr.as_graphs()


def _captures(node: onnx_ir.Node) -> list[onnx_ir.Value]:
    """Values of the enclosing graph that the node's subgraphs use, at any depth, in order of first use."""
    found: dict[onnx_ir.Value, None] = {}
    for graph in _subgraphs(node):
        for value in _free_values(graph):
            found[value] = None
    return list(found)


def _free_values(graph: onnx_ir.Graph) -> list[onnx_ir.Value]:
    bound = {*graph.inputs, *graph.initializers.values()}
    free: dict[onnx_ir.Value, None] = {}
    for node in graph:
        used = [v for v in node.inputs if v is not None] + _captures(node)
        free.update((v, None) for v in used if v not in bound)
        bound.update(node.outputs)
    free.update((v, None) for v in graph.outputs if v not in bound)
    return list(free)


def _clone_attribute(attr: onnx_ir.Attr, captured: Mapping[onnx_ir.Value, onnx_ir.Value]) -> onnx_ir.Attr:
    if attr.type == onnx_ir.AttributeType.GRAPH:
        return onnx_ir.AttrGraph(attr.name, _clone_graph(attr.as_graph(), captured))
    if attr.type == onnx_ir.AttributeType.GRAPHS:
        return onnx_ir.AttrGraphs(attr.name, [_clone_graph(graph, captured) for graph in attr.as_graphs()])
    return attr


def _clone_graph(graph: onnx_ir.Graph, captured: Mapping[onnx_ir.Value, onnx_ir.Value]) -> onnx_ir.Graph:
    clone = graph.clone(allow_outer_scope_values=True)
    for node in clone.all_nodes():
        for index, value in enumerate(node.inputs):
            if value is not None and value in captured:
                node.replace_input_with(index, captured[value])
    for inner in [clone, *clone.subgraphs()]:
        for index, value in enumerate(inner.outputs):
            if value in captured:
                inner.outputs[index] = captured[value]
    return clone
