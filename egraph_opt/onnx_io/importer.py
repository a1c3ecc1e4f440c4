"""An ONNX model as a tensor graph. What the operator table cannot express stays opaque, exactly as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir

from egraph_opt.errors import InvalidModelError
from egraph_opt.ir import Constant, TensorGraph, TensorType, TupleType, Type
from egraph_opt.onnx_io.opaque import OpaqueNode
from egraph_opt.onnx_io.shapes import InferredTypes, input_type
from egraph_opt.ops import Builder, Source, Unsupported, dtype_name, importers


@dataclass(frozen=True)
class Imported:
    """A model's tensor graph and what is needed to write it back.

    Attributes:
        model: the model it came from; interface, functions and metadata are taken from here on the way out.
        opaque: per opaque node, the operator and why it is not understood.
    """

    model: onnx_ir.Model
    graph: TensorGraph
    opset: int
    opaque: tuple[tuple[str, str], ...] = ()
    input_types: dict[str, Type] = field(default_factory=dict[str, Type])

    @property
    def declared_nodes(self) -> int:
        """How many ONNX nodes of the main graph the operator table understands."""
        return self.model.graph.num_nodes() - len(self.opaque)


def import_model(model: onnx_ir.Model) -> Imported:
    """The main graph of ``model`` as a tensor graph.

    Raises:
        InvalidModelError: a node uses a value that does not exist yet.
    """
    opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))
    return _Importer(model, opset).run()


class _Importer:
    def __init__(self, model: onnx_ir.Model, opset: int) -> None:
        self.model, self.opset = model, opset
        self.builder = Builder(TensorGraph())
        self.values: dict[onnx_ir.Value, int] = {}
        self.inferred = InferredTypes(model)
        self.opaque: list[tuple[str, str]] = []

    def run(self) -> Imported:
        graph, onnx_graph = self.builder.graph, self.model.graph
        constant_inputs = self.model.ir_version < 4  # up to IR 3 every initializer had to be an input as well
        input_types: dict[str, Type] = {}
        for value in onnx_graph.inputs:
            if value.is_initializer() and constant_inputs:
                continue
            name = value.name or ""
            input_types[name] = input_type(value)
            self._define(value, graph.add("Input", (name,), (), input_types[name]))
        for value in onnx_graph.initializers.values():
            if value not in self.values and value.const_value is not None:
                self._define(value, graph.constant(constant_of(value.const_value, value.name)))
        for node in onnx_graph:
            self._node(node)
        graph.outputs = tuple(self._known(value) for value in onnx_graph.outputs)
        return Imported(self.model, graph, self.opset, tuple(self.opaque), input_types)

    def _define(self, value: onnx_ir.Value, index: int) -> None:
        self.values[value] = index
        if value.name and self.builder.graph.nodes[index].op != "Const":
            self.builder.graph.names.setdefault(index, value.name)

    def _known(self, value: onnx_ir.Value) -> int:
        if value not in self.values:
            raise InvalidModelError(f"the value {value.name!r} is used before any node computes it")
        return self.values[value]

    def _node(self, node: onnx_ir.Node) -> None:
        operands = tuple(None if v is None else self._known(v) for v in node.inputs)
        declared = importers().get(node.op_type) if node.domain in ("", "ai.onnx") else None
        reason = f"{node.domain + '.' if node.domain else ''}{node.op_type} is not in the operator table"
        if declared is not None:
            try:
                made = declared.from_onnx(Source(self.builder, node, operands, self.opset))
            except Unsupported as why:
                reason = str(why)
            else:
                results = (made,) if isinstance(made, int) else made
                for value, index in zip(node.outputs, results, strict=False):
                    self._define(value, index)
                return
        self._keep_opaque(node, operands, reason)

    def _keep_opaque(self, node: onnx_ir.Node, operands: tuple[int | None, ...], reason: str) -> None:
        graph = self.builder.graph
        self.opaque.append((node.op_type, reason))
        kept = OpaqueNode.of(node)
        captured = tuple(self._known(v) for v in kept.captures)
        graph.opaques.append(kept)
        types = tuple(self.inferred[value] for value in node.outputs)
        type_: Type = types[0] if len(types) == 1 else TupleType(types)
        present = tuple(i for i in operands if i is not None)
        index = graph.add("Opaque", (len(graph.opaques) - 1,), present + captured, type_)
        parts = (index,) if len(types) == 1 else self.builder.parts(index)
        for value, part in zip(node.outputs, parts, strict=True):
            self._define(value, part)


def constant_of(tensor: onnx_ir.TensorProtocol, name: str | None = None) -> Constant:
    """A constant of the table for an ONNX tensor, which is read when its value is needed.

    The key tells equal bits apart from other bits; a tensor in an external file is known by its place, so that
    gigabytes need not be read to import a model.
    """
    shape = tuple(int(d) for d in tensor.shape)  # type: ignore[arg-type]
    type_ = TensorType(dtype_name(tensor.dtype), shape)
    if isinstance(tensor, onnx_ir.ExternalTensor):
        digest = f"{tensor.path}@{tensor.offset}+{tensor.length}"
    elif isinstance(tensor, onnx_ir.StringTensor):
        texts = list(tensor.string_data())  # as objects: NumPy's own bytes end at the last zero
        digest = hashlib.sha256(repr(texts).encode()).hexdigest()
        return Constant(type_, f"{type_}:{digest}", lambda: _objects(texts, shape), (name,) if name else ())
    else:
        digest = hashlib.sha256(tensor.tobytes()).hexdigest()
    return Constant(type_, f"{type_}:{digest}", lambda: np.asarray(tensor.numpy()), (name,) if name else ())


def _objects(texts: Sequence[bytes], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)
