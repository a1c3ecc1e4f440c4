"""A tensor graph as an ONNX model: same inputs, outputs, names, types and metadata as the model it came from."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

import onnx
import onnx_ir

from egraph_opt.errors import EgraphOptError
from egraph_opt.ir import Constant, Origin, Size, SizeExpr, TensorGraph, TensorType, Type
from egraph_opt.onnx_io.annotations import carry_over
from egraph_opt.onnx_io.importer import Imported, constant_of, same_place
from egraph_opt.onnx_io.opaque import CAPTURE, FORMAL, Body, OpaqueNode, opaque_node, prune
from egraph_opt.onnx_io.shapes import resized, usable_name
from egraph_opt.onnx_io.spreading import spread_factors, write_spread
from egraph_opt.ops import Lowering, Sink, operator
from egraph_opt.ops.lowering import onnx_dtype

Values = tuple[onnx_ir.Value, ...]
CAME_FROM, MADE_BY = "pkg.egraph_opt.nodes", "pkg.egraph_opt.rules"
"""Keys of a node's metadata: JSON lists of the nodes of the original model, and of the rules that made it of them."""


class OpsetError(EgraphOptError):
    """The graph needs a newer opset than an opaque node of the model can be carried into."""


def needed_opset(graph: TensorGraph, floor: int) -> int:
    """The lowest opset, at least ``floor``, in which every live node can be written."""
    needed = floor
    for index in graph.live():
        node = graph.nodes[index]
        if node.op == "Opaque":
            for body in opaque_node(graph, index).bodies.values():
                needed = needed_opset(body.graph, needed)
        elif node.op not in ("Input", "Const", "Get"):
            types = [graph.types[i] for i in node.operands]
            needed = max(needed, operator(node.op).opset(node.attrs, types))  # type: ignore[arg-type]
    return needed


def export_model(
    imported: Imported, graph: TensorGraph, *, provenance: bool = False, spread: bool = False
) -> onnx_ir.Model:
    """``graph``, whose inputs and outputs are those of ``imported``, as a model with the same interface.

    The opset is the model's own unless a node needs a newer one. ``provenance``: the metadata of each node says where
    it comes from. ``spread``: factors of channels are repeated over their images, see ``spreading``.

    Raises:
        OpsetError: a newer opset is needed, and an opaque node means something else there.
    """
    old, source = imported.model, imported.source or imported.model
    graph = prune(graph)
    opset = needed_opset(graph, imported.opset)
    taken = _inner_names(graph) | {v.name for v in old.graph.outputs if v.name}
    writer = _Writer(graph, imported.opset, opset, taken, provenance=provenance)
    if spread:
        writer.spread = spread_factors(graph, opset)
    inputs = [_copy_value(v) for v in old.graph.inputs if v.name in imported.input_types]
    writer.place_inputs(inputs)
    writer.place_nodes()
    outputs = writer.outputs([(v.name or "", v) for v in old.graph.outputs])
    writer.say_shapes(outputs)
    overridable = [v for v in inputs if v.const_value is not None]
    new = writer.finish(inputs, outputs, overridable, old.graph)
    imports = dict(source.opset_imports)
    imports["" if "" in imports or "ai.onnx" not in imports else "ai.onnx"] = opset
    if not imported.opset and not any(n.domain == "" for n in new):
        imports = dict(source.opset_imports)
    new.opset_imports.update(imports)
    return onnx_ir.Model(
        new,
        ir_version=_ir_version(old.ir_version, imported.opset, opset),
        producer_name=old.producer_name,
        producer_version=old.producer_version,
        domain=old.domain,
        model_version=old.model_version,
        doc_string=old.doc_string,
        functions=list(source.functions.values()),
        metadata_props=dict(old.metadata_props),
    )


def export_graph(
    graph: TensorGraph,
    inputs: Sequence[tuple[str, TensorType]],
    outputs: Sequence[str],
    *,
    opset: int,
    ir_version: int = 10,
) -> onnx_ir.Model:
    """A tensor graph on its own, with the given inputs, as a model; ``outputs`` names ``graph.outputs`` in order."""
    writer = _Writer(graph, opset, opset, set(outputs))
    values = [_new_value(name, type_) for name, type_ in inputs]
    writer.place_inputs(values)
    writer.place_nodes()
    declared = [(name, _new_value(name, graph.types[i])) for name, i in zip(outputs, graph.outputs, strict=True)]
    new = writer.finish(values, writer.outputs(declared), [], None)
    new.opset_imports[""] = opset
    return onnx_ir.Model(new, ir_version=ir_version, producer_name="egraph-opt")


class _Writer:
    """Writes one graph. Bodies are written by writers of their own, which share the names that are ``taken``, and leave
    those alone that the graphs around them ``want``."""

    def __init__(
        self,
        graph: TensorGraph,
        old: int,
        opset: int,
        taken: set[str],
        wanted: frozenset[str] = frozenset(),
        provenance: bool = False,
    ) -> None:
        self.graph, self.sink, self.old = graph, Sink(opset), old
        self.opaque = _carried(graph, old, opset)
        self.values: dict[int, Values] = {}
        self.kept: dict[str, onnx_ir.Value] = {}  # by the name in the graph as it was
        self.outer: set[onnx_ir.Value] = set()
        self.inner = False
        self.taken, self.wanted, self.provenance = taken, wanted, provenance
        self.spread: Mapping[int, int] = {}

    def place_inputs(self, inputs: Iterable[onnx_ir.Value]) -> None:
        by_name = {value.name or "": value for value in inputs}
        self.taken |= by_name.keys() - {""}
        self.kept |= by_name
        self._place_inputs(by_name)

    def _place_inputs(self, by_name: Mapping[str, onnx_ir.Value]) -> None:
        for index, node in enumerate(self.graph.nodes):
            if node.op == "Input" and node.attrs[0] in by_name:
                self.values[index] = (by_name[str(node.attrs[0])],)

    def body(self, body: Body, captured: Mapping[int, onnx_ir.Value]) -> onnx_ir.Graph:
        """A subgraph, whose captures are these values of the outer graph."""
        ours = {name for constant in self.graph.constants for name in constant.names} | set(self.graph.names.values())
        writer = _Writer(body.graph, self.old, self.sink.opset, self.taken, self.wanted | ours, self.provenance)
        writer.outer, writer.inner = set(captured.values()), True
        formals = [_copy_value(value) for value in body.like.inputs]
        writer.kept |= {like.name or "": value for like, value in zip(body.like.inputs, formals, strict=True)}
        for value in formals:
            value.name = writer._fresh(value.name or "input")
        writer._place_inputs({f"{FORMAL}{i}": value for i, value in enumerate(formals)})
        writer._place_inputs({f"{CAPTURE}{i}": value for i, value in captured.items()})
        for index, number in body.captured_constants().items():
            if number in captured:
                writer.values[index] = (captured[number],)
        writer.place_nodes()
        declared = [(writer._fresh(v.name or "output"), v) for v in body.like.outputs]
        return writer.finish(formals, writer.outputs(declared), [], body.like)

    def place_nodes(self) -> None:
        for index in self.graph.live():
            if index not in self.values:
                first = len(self.sink.nodes)
                self.values[index] = self._place(index)
                if self.provenance:
                    self._say_origin(index, self.sink.nodes[first:])

    def say_shapes(self, outputs: Collection[onnx_ir.Value]) -> None:
        """Writes down the shapes that depend on symbols, a size by the text of its formula; not of ``outputs``.

        Behind a stride ONNX Runtime knows no such size. Where two values are seen to have the same, it adds them in the
        layout of its convolutions, or inside one, and lets them share memory.
        """
        for index, (value, *_) in self.values.items():
            type_ = self.graph.types[index]
            inner = value.producer() is not None and value.shape is None and value not in outputs
            if inner and isinstance(type_, TensorType) and not all(isinstance(size, int) for size in type_.shape):
                value.type = onnx_ir.TensorType(onnx_dtype(type_.dtype))
                value.shape = onnx_ir.Shape([s if isinstance(s, int) else str(s) for s in type_.shape])

    def _say_origin(self, index: int, made: Sequence[onnx_ir.Node]) -> None:
        origin = self.graph.origins.get(index, Origin())
        said = {CAME_FROM: origin.nodes, MADE_BY: origin.rules}
        for node in made:
            node.metadata_props.update({key: json.dumps(names) for key, names in said.items() if names})

    def _place(self, index: int) -> Values:
        node, type_ = self.graph.nodes[index], self.graph.types[index]
        if node.op == "Const":
            return (self._constant(self.graph.constants[int(str(node.attrs[0]))]),)
        if node.op == "Get":
            return (self.values[node.operands[0]][int(str(node.attrs[0]))],)
        inputs = tuple(self.values[i][0] for i in node.operands)
        if node.op == "Opaque":
            opaque = self.opaque[index]
            captured = opaque.captured(inputs)
            graphs = {name: self.body(body, captured) for name, body in opaque.bodies.items()}
            self.sink.nodes.append(opaque.emit(inputs, graphs))
            return tuple(self.sink.nodes[-1].outputs)
        operand_types = tuple(self.graph.types[i] for i in node.operands)
        if index in self.spread:
            assert isinstance(type_, TensorType)
            factor = self.spread[index]
            inputs = tuple(write_spread(self.sink, v, type_) if i == factor else v for i, v in enumerate(inputs))
            operand_types = (type_, type_)
        made = operator(node.op).to_onnx(Lowering(self.sink, node.attrs, inputs, operand_types, type_))
        return made if isinstance(made, tuple) else (made,)

    def _constant(self, constant: Constant) -> onnx_ir.Value:
        dtype = onnx_dtype(constant.type.dtype)
        shape = onnx_ir.Shape(constant.type.numbers())
        tensor: onnx_ir.TensorProtocol
        if isinstance(constant.stored, onnx_ir.ExternalTensor):
            tensor = same_place(constant.stored)
        elif dtype == onnx_ir.DataType.STRING:
            tensor = onnx_ir.StringTensor(constant.load().astype(object), shape=shape)
        else:
            tensor = onnx_ir.Tensor(constant.load(), dtype=dtype, shape=shape)  # type: ignore[arg-type]
        name = next((n for n in constant.names if self._is_free(n)), None)
        value = onnx_ir.Value(name=name, type=onnx_ir.TensorType(dtype), shape=shape, const_value=tensor)
        if name:
            self.taken.add(name)
            self.kept[name] = value
        self.sink.initializers.append(value)
        return value

    def outputs(self, declared: Sequence[tuple[str, onnx_ir.Value]]) -> list[onnx_ir.Value]:
        """The output values, in order, named as declared; a value that already has a role is passed on by Identity.

        An input or initializer that is an output of that name in the declared graph is one here as well.
        """
        fixed = self.outer | {v for values in self.values.values() for v in values if v.producer() is None}
        stored = set(self.sink.initializers)
        results: dict[str, onnx_ir.Value] = {}
        for (name, like), index in zip(declared, self.graph.outputs, strict=True):
            if name in results:
                continue
            (value,) = self.values[index]
            if value.name == name and value in fixed and value not in stored:
                self.kept[name] = results[name] = value
                continue
            if value in stored and like.is_initializer():
                stored.discard(value)
            elif value in fixed:
                (value,) = self.sink.node("Identity", [value], {})
            fixed.add(value)
            value.name, value.type, value.shape = name, like.type, like.shape
            value.doc_string = like.doc_string
            value.metadata_props.update(like.metadata_props)
            value.meta.update(like.meta)
            self.kept[like.name or name] = results[name] = value
        return [results[name] for name, _ in declared]

    def finish(
        self,
        inputs: Sequence[onnx_ir.Value],
        outputs: Sequence[onnx_ir.Value],
        overridable: Sequence[onnx_ir.Value],
        like: onnx_ir.Graph | None,
    ) -> onnx_ir.Graph:
        named = set(inputs) | set(outputs) | self.outer
        self._keep_names(named)
        if like is not None:
            self.taken |= carry_over(like, self.kept, self._store, inner=self.inner)
        self._name_others(named)
        return onnx_ir.Graph(
            list(inputs),
            list(outputs),
            nodes=self.sink.nodes,
            initializers=[*overridable, *self.sink.initializers],
            name=like.name if like is not None else "main",  # an empty graph is false
            doc_string=like.doc_string if like is not None else None,
            metadata_props=dict(like.metadata_props) if like is not None else None,
        )

    def _store(self, value: onnx_ir.Value) -> bool:
        """Stores an initializer of the graph as it was, if its name is free."""
        if value.const_value is None or not self._is_free(value.name or ""):
            return False
        self._constant(constant_of(value.const_value, value.name))
        return True

    def _keep_names(self, named: set[onnx_ir.Value]) -> None:
        """Values that existed in the model keep their names."""
        for index in self.graph.live():
            name = self.graph.names.get(index)
            values = self.values[index]
            if name and len(values) == 1 and values[0] not in named and self._is_free(name):
                values[0].name = name
                named.add(values[0])
                self.taken.add(name)
                self.kept[name] = values[0]

    def _name_others(self, named: set[onnx_ir.Value]) -> None:
        for count, value in enumerate(self._all_values()):
            left_out = value.name == "" and value.producer() is not None
            if value not in named and not left_out and not (value.name and value.producer() is None):
                producer = value.producer()
                value.name = self._fresh(f"{producer.op_type}_{count}" if producer else f"constant_{count}")
        names: set[str] = set()
        for count, node in enumerate(self.sink.nodes):
            if not node.name or node.name in names:
                node.name = f"{node.op_type}_{count}"
            names.add(node.name)

    def _all_values(self) -> list[onnx_ir.Value]:
        return [*self.sink.initializers, *(v for node in self.sink.nodes for v in node.outputs)]

    def _is_free(self, name: str) -> bool:
        return name not in self.taken and name not in self.wanted

    def _fresh(self, stem: str) -> str:
        name, count = stem, 0
        while not self._is_free(name):
            count += 1
            name = f"{stem}_{count}"
        self.taken.add(name)
        return name


def _carried(graph: TensorGraph, old: int, new: int) -> dict[int, OpaqueNode]:
    """The live opaque nodes, by node index, as opset ``new`` writes them.

    Raises:
        OpsetError: one of them is written differently there, and onnx's converter does not know how.
    """
    carried: dict[int, OpaqueNode] = {}
    for index in graph.live():
        if graph.nodes[index].op == "Opaque":
            kept = opaque_node(graph, index)
            found = kept if old == new else kept.carried(old, new)
            if found is None:
                raise OpsetError(f"{kept.node.op_type} cannot be carried from opset {old} to {new}")
            carried[index] = found
    return carried


def _inner_names(graph: TensorGraph) -> set[str]:
    """Names inside subgraphs that are kept as they are: a new name of the outer graph must not hide behind those."""
    opaque = [opaque_node(graph, index) for index in graph.live() if graph.nodes[index].op == "Opaque"]
    return set[str]().union(*(node.inner_names() for node in opaque))


def _copy_value(value: onnx_ir.Value) -> onnx_ir.Value:
    copy = onnx_ir.Value(
        name=value.name,
        type=value.type,
        shape=resized(value.shape, list(value.shape)) if value.shape is not None else None,
        doc_string=value.doc_string,
        const_value=value.const_value,
        metadata_props=dict(value.metadata_props),
    )
    copy.meta.update(value.meta)  # annotations of quantization, which are written with the graph
    return copy


def _new_value(name: str, type_: Type) -> onnx_ir.Value:
    if not isinstance(type_, TensorType):
        return onnx_ir.Value(name=name)
    dtype = onnx_ir.TensorType(onnx_dtype(type_.dtype))
    return onnx_ir.Value(name=name, type=dtype, shape=onnx_ir.Shape([_dim(size) for size in type_.shape]))


def _dim(size: Size) -> int | str | None:
    if isinstance(size, SizeExpr):
        return str(size) if usable_name(str(size)) else None
    return size


def _ir_version(old: int, old_opset: int, opset: int) -> int:
    version = max(old, 4)  # from IR 4 on initializers need not be inputs
    if opset > old_opset:
        version = max(version, onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)]))
    return version
