"""Nodes that are no operators of the table: they keep their attributes; subgraphs are read, or kept as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx
import onnx_ir

from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io.functions import since


@dataclass(frozen=True)
class Body:
    """A subgraph of a node, as a tensor graph of its own.

    Its ``Input`` nodes are called ``formal:<i>`` (inputs of the subgraph) and ``capture:<i>`` (values of the outer
    graph, numbered as the node's captures are). A captured constant is a constant here as well.

    Attributes:
        like: the subgraph as it was; names and declared types come from there.
        constants: which capture holds a constant, by its key.
    """

    like: onnx_ir.Graph
    graph: TensorGraph
    constants: Mapping[str, int]

    def captures(self) -> set[int]:
        """Numbers of the captures that the outputs need."""
        live, stored = self.graph.live(), self.captured_constants()
        used = {stored[index] for index in live if index in stored}
        for index in live:
            name = str(self.graph.nodes[index].attrs[0]) if self.graph.nodes[index].op == "Input" else ""
            if name.startswith(CAPTURE):
                used.add(int(name.removeprefix(CAPTURE)))
        return used

    def captured_constants(self) -> dict[int, int]:
        """Numbers of the captures that hold constants, by the node that is that constant here."""
        nodes, constants = self.graph.nodes, self.graph.constants
        keys = {i: constants[int(str(n.attrs[0]))].key for i, n in enumerate(nodes) if n.op == "Const"}
        return {index: self.constants[key] for index, key in keys.items() if key in self.constants}


FORMAL, CAPTURE = "formal:", "capture:"


@dataclass(frozen=True)
class OpaqueNode:
    """An ONNX node that is no operator of the table.

    Attributes:
        present: which of the node's inputs are given; the operands in the tensor graph are those, then the captures.
        captures: values of the outer graph that its subgraphs use.
        bodies: the subgraphs that were read, by attribute; others are kept as they are.
        kept: numbers of the captures that are operands; without bodies all of them are.
        why: what of it is not understood.
    """

    node: onnx_ir.Node
    present: tuple[bool, ...]
    captures: tuple[onnx_ir.Value, ...]
    bodies: Mapping[str, Body] = field(default_factory=dict[str, Body])
    kept: tuple[int, ...] = ()
    why: str = ""

    @staticmethod
    def of(node: onnx_ir.Node) -> OpaqueNode:
        captures = tuple(_captures(node))
        return OpaqueNode(node, tuple(v is not None for v in node.inputs), captures, kept=tuple(range(len(captures))))

    def pruned(self, operands: Sequence[int]) -> tuple[OpaqueNode, tuple[int, ...]]:
        """This node and its operands without the captures that its bodies do not use."""
        inputs = sum(self.present)
        used = set[int]().union(*(body.captures() for body in self.bodies.values()))
        if not self.bodies or used >= set(self.kept):
            return self, tuple(operands)
        left = [(number, i) for number, i in zip(self.kept, operands[inputs:], strict=True) if number in used]
        return replace(self, kept=tuple(n for n, _ in left)), (*operands[:inputs], *(i for _, i in left))

    def captured(self, operands: Sequence[onnx_ir.Value]) -> dict[int, onnx_ir.Value]:
        """The captured values among the operands, by their number."""
        return dict(zip(self.kept, operands[sum(self.present) :], strict=True))

    def emit(self, operands: Sequence[onnx_ir.Value], graphs: Mapping[str, onnx_ir.Graph]) -> onnx_ir.Node:
        """A new node with the same attributes, on other operands; nothing is shared with the old graph.

        ``graphs`` are its bodies, by attribute.
        """
        given = iter(operands)
        inputs = [next(given) if here else None for here in self.present]
        captured = {self.captures[number]: value for number, value in self.captured(operands).items()}
        attributes = [
            onnx_ir.AttrGraph(name, graphs[name]) if name in graphs else _clone_attribute(attr, captured)
            for name, attr in self.node.attributes.items()
        ]
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

    def inner_names(self) -> set[str]:
        """Names of values inside subgraphs that are kept as they are."""
        names: set[str] = set()
        for body in self.bodies.values():
            for index in body.graph.live():
                if body.graph.nodes[index].op == "Opaque":
                    names |= opaque_node(body.graph, index).inner_names()
        for graph in () if self.bodies else _subgraphs(self.node):
            for inner in (graph, *graph.subgraphs()):
                values = [*inner.inputs, *inner.initializers.values(), *(v for n in inner for v in n.outputs)]
                names |= {value.name for value in values if value.name}
        return names

    def carried(self, old: int, new: int) -> OpaqueNode | None:
        """This node as opset ``new`` of the default domain writes it, or ``None`` where that is not known.

        A node all of whose ONNX operators mean the same in both opsets is its own answer. Otherwise onnx's converter is
        asked, on a model of this node alone; its answer counts when it is one node with the same inputs and outputs.
        """
        nodes = [self.node]
        if not self.bodies:  # bodies are written anew
            nodes += [n for graph in _subgraphs(self.node) for n in graph.all_nodes()]
        if all(n.domain not in ("", "ai.onnx") or since(n.op_type, old) == since(n.op_type, new) for n in nodes):
            return self
        if self.bodies:
            return None
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
        return replace(self, node=replacement)


def opaque_node(graph: TensorGraph, index: int) -> OpaqueNode:
    """What the opaque node ``index`` of ``graph`` stands for."""
    kept = graph.opaques[int(str(graph.nodes[index].attrs[0]))]
    assert isinstance(kept, OpaqueNode)
    return kept


def prune(graph: TensorGraph) -> TensorGraph:
    """The same graph, in which nodes have no captures among their operands that their bodies do not use."""
    new = TensorGraph(opaques=list(graph.opaques))
    place: list[int] = []
    for index, (node, type_) in enumerate(zip(graph.nodes, graph.types, strict=True)):
        operands = tuple(place[i] for i in node.operands)
        if node.op == "Const":
            place.append(new.constant(graph.constants[int(str(node.attrs[0]))]))
        else:
            if node.op == "Opaque":
                new.opaques[int(str(node.attrs[0]))], operands = opaque_node(graph, index).pruned(operands)
            place.append(new.add(node.op, node.attrs, operands, type_))
        if index in graph.names:
            new.names.setdefault(place[-1], graph.names[index])
        new.came_from(place[-1], graph.origins.get(index))
    new.outputs = tuple(place[i] for i in graph.outputs)
    return new


def _element_type(value: onnx_ir.Value) -> int:
    return int(value.dtype) if value.dtype is not None else onnx.TensorProto.FLOAT


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
