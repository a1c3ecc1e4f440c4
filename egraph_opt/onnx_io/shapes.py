"""Types of ONNX values: symbolic dimensions under safe names, and inference for what the table does not declare."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

import onnx_ir
import onnx_shape_inference

from egraph_opt.errors import UsageError
from egraph_opt.ir import OpaqueType, Size, TensorType, symbol
from egraph_opt.ops import dtype_name

Type = TensorType | OpaqueType
_NAME = re.compile(r"[^\W\d]\w*\Z")


def input_type(value: onnx_ir.Value) -> Type:
    """The declared type of a graph input.

    A dimension that carries a name keeps it; ``?``, -1 and nothing at all are not one unknown size but each its own,
    called ``<input>:<axis>``.
    """
    name = value.name or ""
    return value_type(value, lambda axis: symbol(f"{name}:{axis}"), keep_names=True)


def value_type(value: onnx_ir.Value, fresh, keep_names: bool) -> Type:  # type: ignore[no-untyped-def]
    """The type that ``value`` declares; ``fresh(axis)`` names a size that has no usable name."""
    if not isinstance(value.type, onnx_ir.TensorType) or value.shape is None:
        kind = dtype_name(value.dtype) if value.dtype is not None else "unknown"
        return OpaqueType(value.name or "", kind)
    shape: list[Size] = []
    for axis, dim in enumerate(value.shape):
        label = dim if isinstance(dim, int) else dim.value
        if isinstance(label, int) and label >= 0:
            shape.append(label)
        elif keep_names and isinstance(label, str) and usable_name(label):
            shape.append(symbol(label))
        else:
            shape.append(fresh(axis))
    return TensorType(dtype_name(value.type.dtype), tuple(shape))


def usable_name(label: str) -> bool:
    """Whether a dimension's text is a name, and not a placeholder or an expression."""
    return bool(_NAME.match(label)) and label.lower() not in {"none", "unknown"}


def specialise(model: onnx_ir.Model, shapes: Mapping[str, Sequence[int]]) -> None:
    """Fixes the shapes of inputs, in place; a size of the same name is fixed in every input.

    Raises:
        UsageError: no such input, another rank, or a size that contradicts a fixed one.
    """
    inputs = {value.name: value for value in model.graph.inputs}
    named: dict[str, int] = {}
    for name, sizes in shapes.items():
        if name not in inputs:
            raise UsageError(f"--shape {name}: the inputs are {', '.join(str(n) for n in inputs)}")
        if any(size < 0 for size in sizes):
            raise UsageError(f"--shape {name}: sizes are numbers from 0 up")
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
        inputs[name].shape = onnx_ir.Shape(sizes)
    for value in inputs.values():
        if value.shape is not None and not value.shape.is_static():
            value.shape = onnx_ir.Shape([_fixed(dim, named) for dim in value.shape])


def _fixed(dim: int | onnx_ir.SymbolicDim, named: Mapping[str, int]) -> int | onnx_ir.SymbolicDim:
    return dim if isinstance(dim, int) else named.get(dim.value or "", dim)


class InferredTypes:
    """Types of every value of the main graph by ONNX shape inference, computed when first asked for.

    Sizes that are not one of the model's own symbols get fresh names, ``<value>:<axis>``.
    """

    def __init__(self, model: onnx_ir.Model) -> None:
        self._model = model
        self._types: dict[str, Type] | None = None

    def __getitem__(self, value: onnx_ir.Value) -> Type:
        if self._types is None:
            self._types = _infer(self._model)
        found = self._types.get(value.name or "")
        if found is None:
            kind = dtype_name(value.dtype) if value.dtype is not None else "unknown"
            return OpaqueType(value.name or "", kind)
        return found


def _infer(model: onnx_ir.Model) -> dict[str, Type]:
    clone = model.clone()
    back: dict[str, Size] = {}  # the inference's parser wants plain names, so ours travel under an alias
    for value in clone.graph.inputs:
        if isinstance(value.type, onnx_ir.TensorType) and value.shape is not None:
            type_ = input_type(value)
            assert isinstance(type_, TensorType)
            value.shape = onnx_ir.Shape([_alias(size, back) for size in type_.shape])
    for node in clone.graph.all_nodes():
        for output in node.outputs:
            output.shape = None  # a stale claim in the file must not win over inference
        _own_constants(node)
    for value in clone.graph.outputs:
        value.shape = None
    logging.getLogger("onnx_shape_inference").setLevel(logging.ERROR)
    try:
        onnx_shape_inference.infer_symbolic_shapes(clone, warn_on_missing=False)
    except Exception:  # noqa: BLE001 - inference is a convenience: without it the values are only less known
        return {}
    types: dict[str, Type] = {}
    for node in clone.graph:
        for output in node.outputs:
            name = output.name or ""
            known = value_type(output, lambda axis, n=name: symbol(f"{n}:{axis}"), keep_names=True)
            if isinstance(known, TensorType):
                shape = tuple(
                    size if isinstance(size, int) else back.get(str(size), symbol(f"{name}:{axis}"))
                    for axis, size in enumerate(known.shape)
                )
                known = TensorType(known.dtype, shape)
            types[name] = known
    return types


def _own_constants(node: onnx_ir.Node) -> None:
    """Gives the tensors in a node's attributes to the node: inference names them, and a clone shares them."""
    for attr in list(node.attributes.values()):
        if attr.type == onnx_ir.AttributeType.TENSOR:
            tensor = attr.as_tensor()
            shape = onnx_ir.Shape([int(n) for n in tensor.shape])  # type: ignore[arg-type]
            own = onnx_ir.LazyTensor(lambda t=tensor: t, dtype=tensor.dtype, shape=shape, name=tensor.name)
            node.attributes[attr.name] = onnx_ir.AttrTensor(attr.name, own)


def _alias(size: Size, back: dict[str, Size]) -> int | str:
    if isinstance(size, int):
        return size
    for name, known in back.items():
        if known == size:
            return name
    back[f"sym{len(back)}"] = size
    return f"sym{len(back) - 1}"
