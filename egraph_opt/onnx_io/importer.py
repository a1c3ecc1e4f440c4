"""An ONNX model as a tensor graph. What the operator table cannot express stays opaque, exactly as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import onnx_ir

from egraph_opt.ir import Constant, OpaqueType, Origin, Size, TensorGraph, TensorType, TupleType, Type, substitute
from egraph_opt.onnx_io.control import CONTROL, read_bodies
from egraph_opt.onnx_io.forced import equal_sizes, fails, solve
from egraph_opt.onnx_io.functions import inlined
from egraph_opt.onnx_io.opaque import OpaqueNode
from egraph_opt.onnx_io.scope import Context, Scope
from egraph_opt.onnx_io.shapes import input_type, node_types
from egraph_opt.ops import Array, Source, Unsupported, dtype_name, importers


@dataclass(frozen=True)
class Imported:
    """A model's tensor graph and what is needed to write it back.

    Attributes:
        model: the model it came from; interface and metadata are taken from here on the way out.
        source: the same with its local functions inlined, where it has any.
        decided: how many ``If`` nodes were replaced by the branch that they always take.
        repeated: how many nodes compute what an earlier one computes.
        opaque: per opaque node, those of subgraphs included, the operator and why it is not understood.
    """

    model: onnx_ir.Model
    graph: TensorGraph
    opset: int
    opaque: tuple[tuple[str, str], ...] = ()
    input_types: dict[str, Type] = field(default_factory=dict[str, Type])
    source: onnx_ir.Model | None = None
    decided: int = 0
    repeated: int = 0

    @property
    def is_lighter(self) -> bool:
        """Whether reading the model already left out nodes that are more than constants: branches that are never
        taken, repetitions, and shape arithmetic whose answer is known for every size."""
        live = set(self.graph.live())
        dead = [n.op for i, n in enumerate(self.graph.nodes) if i not in live]
        return self.decided > 0 or self.repeated > 0 or any(op not in ("Input", "Const", "Get") for op in dead)

    @property
    def nodes(self) -> int:
        """How many ONNX nodes were read, those of subgraphs included."""
        return sum(1 for _ in (self.source or self.model).graph.all_nodes())

    @property
    def declared_nodes(self) -> int:
        """How many of them the operator table understands."""
        return self.nodes - len(self.opaque)


def import_model(model: onnx_ir.Model) -> Imported:
    """The main graph of ``model`` as a tensor graph.

    Raises:
        InvalidModelError: a node uses a value that does not exist yet.
    """
    source = inlined(model)
    known: dict[str, Size] = {}
    taken: dict[onnx_ir.Node, str] = {}
    while True:
        reading = _read(model, source, known, taken)
        if reading.found:  # each time some symbols are replaced for good, or an If
            found = reading.found
            known = {name: substitute(size, found) for name, size in known.items()} | found
        elif (forced := _forced_branch(reading, partial(_read, model, source, known), taken)) is not None:
            taken = forced
        else:
            return reading.imported


@dataclass(frozen=True)
class _Reading:
    """One reading of a model.

    Attributes:
        found: what it says of symbols, beyond what was known before.
        undecided: ``If`` nodes of which either branch may be taken.
        fails: whether a node that every run needs cannot run.
    """

    imported: Imported
    found: dict[str, Size]
    undecided: tuple[onnx_ir.Node, ...]
    fails: bool


def _forced_branch(
    reading: _Reading, read: Callable[[dict[onnx_ir.Node, str]], _Reading], taken: dict[onnx_ir.Node, str]
) -> dict[onnx_ir.Node, str] | None:
    """``taken`` with the branch of one more ``If``, since no run gets to the end with the other one."""
    for node in () if reading.fails else reading.undecided[:_TRIALS]:
        for branch, other in (_BRANCHES, _BRANCHES[::-1]):
            if read(taken | {node: branch}).fails:
                return taken | {node: other}
    return None


_BRANCHES = ("then_branch", "else_branch")
_TRIALS = 4
"""How many ``If`` nodes are read as either branch: what decides the first often decides those behind it."""


def _read(
    model: onnx_ir.Model, source: onnx_ir.Model, known: dict[str, Size], taken: dict[onnx_ir.Node, str]
) -> _Reading:
    opset = source.opset_imports.get("", source.opset_imports.get("ai.onnx", 0))
    context = Context(dict(source.opset_imports), opset, known=known, taken=taken)
    reader = _Reader(context)
    constant_inputs = source.ir_version < 4  # up to IR 3 every initializer had to be an input as well
    input_types: dict[str, Type] = {}
    for value, like in zip(source.graph.inputs, model.graph.inputs, strict=True):
        if value.is_initializer() and constant_inputs:
            continue
        name = like.name or ""  # one that a function passes through is called after its result in the source
        context.fresh.taken.add(name)
        input_types[name] = context.resolved(input_type(like))
        reader.define(value, reader.graph.add("Input", (name,), (), input_types[name]))
    graph = reader.read(source.graph)
    imported = Imported(
        model,
        graph,
        opset,
        tuple(context.opaque),
        input_types,
        source,
        decided=context.decided,
        repeated=context.repeated,
    )
    live = set(graph.live())  # a node that nothing reads need not run
    found = solve([pair for index, pair in context.forced if index in live], known)
    return _Reading(imported, found, tuple(context.undecided), any(index in live for index in context.failing))


class _Reader(Scope):
    """Reads the nodes of one graph."""

    def read(self, graph: onnx_ir.Graph) -> TensorGraph:
        self.graph.outputs = self._run(graph)
        return self.graph

    def _run(self, graph: onnx_ir.Graph) -> tuple[int, ...]:
        """Reads all of ``graph``; returns its outputs."""
        for value in graph.initializers.values():
            if value not in self.values and value.const_value is not None:
                self.define(value, self.graph.constant(constant_of(value.const_value, value.name)))
        for node in graph:
            self._node(node)
        return tuple(self.known(value) for value in graph.outputs)

    def _node(self, node: onnx_ir.Node) -> None:
        first = len(self.graph.nodes)
        self._read(node)
        origin = Origin((label_of(node),))
        results = {self.values[value] for value in node.outputs if value in self.values}
        operands = {self.values.get(value) for value in node.inputs if value is not None}
        if len(self.graph.nodes) == first and any(self.graph.nodes[i].op != "Const" for i in results - operands):
            self.context.repeated += 1
        for index in sorted(results | set(range(first, len(self.graph.nodes)))):
            self.graph.came_from(index, origin)

    def _read(self, node: onnx_ir.Node) -> None:
        operands = tuple(None if v is None else self.known(v) for v in node.inputs)
        standard = node.domain in ("", "ai.onnx")
        taken = self._taken(node, operands) if standard and node.op_type == "If" else None
        if taken is not None:
            self.context.decided += 1
            for value, index in zip(node.outputs, self._run(taken), strict=True):
                self.define(value, index)
            return
        declared = importers().get(node.op_type) if standard else None
        why = Unsupported(f"{node.domain + '.' if node.domain else ''}{node.op_type} is not in the operator table")
        if declared is not None:
            try:
                made = declared.from_onnx(Source(self.builder, node, operands, self.context.opset))
            except Unsupported as reason:
                why = reason
            else:
                results = (made,) if isinstance(made, int) else made
                for value, index in zip(node.outputs, results, strict=False):
                    self.define(value, index)
                return
        self.context.opaque.append((node.op_type, str(why)))
        self._keep(node, operands, why)

    def _taken(self, node: onnx_ir.Node, operands: Sequence[int | None]) -> onnx_ir.Graph | None:
        """The branch of an ``If`` whose condition is known, or of which no other can be taken."""
        if node in self.context.taken:
            return node.attributes[self.context.taken[node]].as_graph()
        condition = None if not operands or operands[0] is None else self.builder.known(operands[0])
        if condition is None or condition.size != 1:
            return None
        return node.attributes["then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"].as_graph()

    def _keep(self, node: onnx_ir.Node, operands: tuple[int | None, ...], why: Unsupported) -> None:
        """Adds an opaque node, whose one result is of type ``why.type`` where that is not for inference to say."""
        graph = self.graph
        present = tuple(i for i in operands if i is not None)
        control = node.domain in ("", "ai.onnx") and node.op_type in CONTROL
        read = read_bodies(self, _Reader, node, operands) if control else None
        kept, types = read or (OpaqueNode.of(node), None if why.type is None else (why.type,))
        captured = tuple(self.known(kept.captures[number]) for number in kept.kept)
        if types is None:
            operand_types = [None if i is None else graph.types[i] for i in operands]
            values = [None if i is None else self._number(i) for i in operands]
            types = node_types(node, self.context.opsets, operand_types, values, self.context.fresh)
        types = tuple(self.context.resolved(t) for t in types)
        type_: Type = types[0] if len(types) == 1 else TupleType(types)
        graph.opaques.append(replace(kept, why=str(why)))
        index = graph.add("Opaque", (len(graph.opaques) - 1,), present + captured, type_)
        if self.captures is None:  # a body need not run
            operand_types = [None if i is None else graph.types[i] for i in operands]
            self.context.forced += [(index, pair) for pair in equal_sizes(node, operand_types)]
            self.context.failing += [index] if fails(node, operand_types) else []
            if node.op_type == "If" and any(isinstance(t, OpaqueType) for t in types):
                self.context.undecided.append(node)
        parts = (index,) if len(types) == 1 else self.builder.parts(index)
        for value, part in zip(node.outputs, parts, strict=True):
            self.define(value, part)

    def _number(self, index: int) -> Array | None:
        """The value of a node where it is small and known."""
        type_ = self.graph.types[index]
        if not isinstance(type_, TensorType) or not isinstance(type_.elements, int) or type_.elements > _SMALL:
            return None
        return self.builder.known(index)


def label_of(node: onnx_ir.Node) -> str:
    """What people call a node: its name, or where it has none its first output."""
    return node.name or next((value.name for value in node.outputs if value.name), "")


_SMALL = 64
"""Elements of the largest operand that inference of an opaque node may look at."""


def constant_of(tensor: onnx_ir.TensorProtocol, name: str | None = None) -> Constant:
    """A constant of the table for an ONNX tensor, which is read when its value is needed.

    The key tells equal bits apart from other bits; a tensor in an external file is known by its place, so that
    gigabytes need not be read to import a model.
    """
    shape = tuple(int(d) for d in tensor.shape)  # type: ignore[arg-type]
    type_ = TensorType(dtype_name(tensor.dtype), shape)
    names = (name,) if name else ()
    if isinstance(tensor, onnx_ir.ExternalTensor):
        digest = f"{tensor.path}@{tensor.offset}+{tensor.length}"
        # mapped anew each time, so that the pages are given back with the array
        return Constant(type_, f"{type_}:{digest}", lambda: np.asarray(same_place(tensor).numpy()), names, tensor)
    if isinstance(tensor, onnx_ir.StringTensor):
        texts = list(tensor.string_data())  # as objects: NumPy's own bytes end at the last zero
        digest = hashlib.sha256(repr(texts).encode()).hexdigest()
        return Constant(type_, f"{type_}:{digest}", lambda: _objects(texts, shape), names)
    digest = hashlib.sha256(tensor.tobytes()).hexdigest()
    return Constant(type_, f"{type_}:{digest}", lambda: np.asarray(tensor.numpy()), names)


def same_place(tensor: onnx_ir.ExternalTensor) -> onnx_ir.ExternalTensor:
    """Another reference to the same bytes of the same file."""
    return onnx_ir.ExternalTensor(
        tensor.location,
        tensor.offset,
        tensor.length,
        tensor.dtype,
        shape=onnx_ir.Shape(tensor.shape.numpy()),
        name=tensor.name or "",
        base_dir=tensor.base_dir,
    )


def _objects(texts: Sequence[bytes], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)
