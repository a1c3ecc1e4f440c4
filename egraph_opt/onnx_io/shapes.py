"""Types of ONNX values: symbolic dimensions under safe names, and inference for what the table does not declare."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx
import onnx_ir

from egraph_opt.errors import UsageError
from egraph_opt.ir import OpaqueType, Size, TensorType, TupleType, Type, symbol
from egraph_opt.ops import Array, dtype_name
from egraph_opt.ops.lowering import onnx_dtype

LARGEST = 2**40
"""The largest size that is believed: an axis of more elements is in no memory."""
_NAME = re.compile(r"[^\W\d]\w*\Z")


def input_type(value: onnx_ir.Value) -> TensorType | OpaqueType:
    """The declared type of a graph input.

    A dimension that carries a name keeps it; ``?``, -1 and nothing at all are not one unknown size but each its own,
    called ``<input>:<axis>``.
    """
    if not isinstance(value.type, onnx_ir.TensorType) or value.shape is None:
        kind = dtype_name(value.dtype) if value.dtype is not None else "unknown"
        return OpaqueType(value.name or "", kind)
    shape: list[Size] = []
    for axis, dim in enumerate(value.shape):
        label = dim if isinstance(dim, int) else dim.value
        if isinstance(label, int) and label >= 0:
            shape.append(label)
        elif isinstance(label, str) and usable_name(label):
            shape.append(symbol(label))
        else:
            shape.append(symbol(f"{value.name or ''}:{axis}"))
    return TensorType(dtype_name(value.type.dtype), tuple(shape))


def usable_name(label: str) -> bool:
    """Whether a dimension's text is a name, and not a placeholder or an expression."""
    return bool(_NAME.match(label)) and label.lower() not in {"none", "unknown"}


def specialise(model: onnx_ir.Model, shapes: Mapping[str, Sequence[int]]) -> None:
    """Fixes the shapes of inputs, in place; a size of the same name is fixed in every input.

    A size of -1 of an output is said no longer: now that it has one answer, checkers would hold the -1 against it.

    Raises:
        UsageError: no such input, another rank, or a size that contradicts a fixed one.
    """
    inputs = {value.name: value for value in model.graph.inputs}
    named: dict[str, int] = {}
    for name, sizes in shapes.items():
        if name not in inputs:
            raise UsageError(f"--shape {name}: the inputs are {', '.join(str(n) for n in inputs)}")
        if not all(0 <= size <= LARGEST for size in sizes):
            raise UsageError(f"--shape {name}: sizes are numbers from 0 to {LARGEST:,}")
        declared = inputs[name].shape
        if declared is not None:
            if len(declared) != len(sizes):
                raise UsageError(f"--shape {name} has {len(sizes)} sizes, but the input has rank {len(declared)}")
            for axis, (dim, size) in enumerate(zip(declared, sizes, strict=True)):
                label = dim if isinstance(dim, int) else dim.value
                if isinstance(label, int) and label >= 0 and label != size:
                    raise UsageError(f"--shape {name}: axis {axis} is fixed to {label} by the model, not {size}")
                if isinstance(label, str) and usable_name(label) and named.setdefault(label, size) != size:
                    raise UsageError(f"--shape {name}: {label} is {named[label]} elsewhere, not {size}")
        inputs[name].shape = onnx_ir.Shape(sizes) if declared is None else resized(declared, sizes)
    for value in inputs.values():
        if value.shape is not None and not value.shape.is_static():
            value.shape = resized(value.shape, [_fixed(dim, named) for dim in value.shape])
    for value in model.graph.outputs if shapes else ():
        if value.shape is not None:
            value.shape = resized(value.shape, [_unsaid(dim) for dim in value.shape])


def resized(shape: onnx_ir.Shape, dims: Sequence[int | onnx_ir.SymbolicDim]) -> onnx_ir.Shape:
    """Other sizes on axes that mean what they meant (ONNX calls it their denotation, which ``Shape.copy`` forgets)."""
    return onnx_ir.Shape(dims, [shape.get_denotation(axis) for axis in range(len(shape))])


def _fixed(dim: int | onnx_ir.SymbolicDim, named: Mapping[str, int]) -> int | onnx_ir.SymbolicDim:
    return dim if isinstance(dim, int) else named.get(dim.value or "", dim)


def _unsaid(dim: int | onnx_ir.SymbolicDim) -> int | onnx_ir.SymbolicDim:
    return onnx_ir.SymbolicDim(None) if isinstance(dim, int) and dim < 0 else dim


@dataclass
class Fresh:
    """Hands out names for sizes that only a run can tell: ``<value>:<axis>``, where no two stems are the same."""

    taken: set[str] = field(default_factory=set[str])

    def stem(self, value: onnx_ir.Value) -> str:
        """The name of ``value``, with a number where another value had it."""
        name = stem = value.name or ""
        count = 0
        while stem in self.taken:
            count += 1
            stem = f"{name}'{count}"
        self.taken.add(stem)
        return stem


def node_types(
    node: onnx_ir.Node,
    opsets: Mapping[str, int],
    operands: Sequence[Type | None],
    values: Sequence[Array | None],
    fresh: Fresh,
) -> tuple[TensorType | OpaqueType, ...]:
    """Types of the outputs of a node that the operator table does not express, from those of its operands.

    ``values`` are the operands that are known numbers, small ones. Sizes that inference does not know are fresh ones;
    what it cannot type at all has no known rank.
    """
    aliases = _Aliases()
    try:
        infer = _by_schema if node.domain in ("", "ai.onnx") else _by_library
        found = infer(node, opsets, [aliases.proto(t) for t in operands], values)
    except Exception:  # noqa: BLE001 - inference is a convenience: without it the values are only less known
        found = {}
    return tuple(aliases.type(found.get(f"o{i}"), value, fresh) for i, value in enumerate(node.outputs))


class _Aliases:
    """Sizes under plain names, which is what inference reads, and back."""

    def __init__(self) -> None:
        self.names: dict[Size, str] = {}

    def proto(self, type_: Type | None) -> onnx.TypeProto | None:
        """``type_`` for ONNX; empty for what is no tensor of known dtype."""
        if type_ is None:
            return None
        if isinstance(type_, TupleType) or type_.dtype == "unknown":
            return onnx.TypeProto()
        shape = None
        if isinstance(type_, TensorType):
            shape = [s if isinstance(s, int) else self._alias(s) for s in type_.shape]
        return onnx.helper.make_tensor_type_proto(int(onnx_dtype(type_.dtype)), shape)

    def _alias(self, size: Size) -> str:
        return self.names.setdefault(size, f"sym{len(self.names)}")

    def type(self, proto: onnx.TypeProto | None, value: onnx_ir.Value, fresh: Fresh) -> TensorType | OpaqueType:
        """What inference says of ``value``, in our terms."""
        stem = fresh.stem(value)
        if proto is None or not proto.HasField("tensor_type") or not proto.tensor_type.elem_type:
            return OpaqueType(stem, dtype_name(value.dtype) if value.dtype is not None else "unknown")
        dtype = dtype_name(onnx_ir.DataType(proto.tensor_type.elem_type))
        if not proto.tensor_type.HasField("shape"):
            return OpaqueType(stem, dtype)
        back = {alias: size for size, alias in self.names.items()}
        shape: list[Size] = []
        for axis, dim in enumerate(proto.tensor_type.shape.dim):
            size = back.get(dim.dim_param)
            size = symbol(f"{stem}:{axis}") if size is None else size
            shape.append(dim.dim_value if dim.HasField("dim_value") else size)
        return TensorType(dtype, tuple(shape))


def _by_schema(
    node: onnx_ir.Node,
    opsets: Mapping[str, int],
    operands: Sequence[onnx.TypeProto | None],
    values: Sequence[Array | None],
) -> dict[str, onnx.TypeProto]:
    """By ONNX's own inference of one node."""
    version = opsets.get("", opsets.get("ai.onnx", 0))
    proto = onnx.NodeProto(op_type=node.op_type)
    proto.attribute.extend(onnx_ir.to_proto(attr) for attr in node.attributes.values())  # type: ignore[arg-type]
    proto.input.extend("" if t is None else f"i{i}" for i, t in enumerate(operands))
    proto.output.extend(f"o{i}" if value.name else "" for i, value in enumerate(node.outputs))
    schema = onnx.defs.get_schema(node.op_type, version)
    types = {f"i{i}": t for i, t in enumerate(operands) if t is not None}
    data = {f"i{i}": onnx.numpy_helper.from_array(v, f"i{i}") for i, v in enumerate(values) if v is not None}
    imports = [onnx.helper.make_opsetid("", version)]
    return onnx.shape_inference.infer_node_outputs(schema, proto, types, data, None, imports)


def _by_library(
    node: onnx_ir.Node,
    opsets: Mapping[str, int],
    operands: Sequence[onnx.TypeProto | None],
    values: Sequence[Array | None],
) -> dict[str, onnx.TypeProto]:
    """By a library that knows operators of other domains, on a model of this node alone."""
    import onnx_shape_inference  # with the whole of SymPy, for the few models that have such operators

    inputs = [None if t is None else _value(f"i{i}", t) for i, t in enumerate(operands)]
    stored: list[onnx_ir.Value] = []
    for i, (value, array) in enumerate(zip(inputs, values, strict=True)):
        if value is not None and array is not None:
            value.const_value = onnx_ir.tensor(array, name=f"i{i}")
            stored.append(value)
    one = onnx_ir.Node(node.domain, node.op_type, inputs, node.attributes.values(), num_outputs=len(node.outputs))
    for i, output in enumerate(one.outputs):
        output.name = f"o{i}"
    given = [value for value in inputs if value is not None and value not in stored]
    graph = onnx_ir.Graph(given, one.outputs, nodes=[one], initializers=stored, opset_imports=dict(opsets), name="one")
    logging.getLogger("onnx_shape_inference").setLevel(logging.ERROR)
    onnx_shape_inference.infer_symbolic_shapes(onnx_ir.Model(graph, ir_version=10), warn_on_missing=False)
    found: dict[str, onnx.TypeProto] = {}
    for i, output in enumerate(one.outputs):
        if output.dtype is not None:
            dims = None if output.shape is None else [d if isinstance(d, int) else d.value for d in output.shape]
            found[f"o{i}"] = onnx.helper.make_tensor_type_proto(int(output.dtype), dims)
    return found


def _value(name: str, type_: onnx.TypeProto) -> onnx_ir.Value:
    shape = onnx_ir.serde.deserialize_type_proto_for_shape(type_)
    return onnx_ir.Value(name=name, type=onnx_ir.serde.deserialize_type_proto_for_type(type_), shape=shape)
