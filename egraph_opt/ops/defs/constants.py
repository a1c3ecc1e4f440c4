"""Constants: ``Fill``, and the ONNX operators that are a constant, or nothing at all, on the way in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import FLOATS, NUMERIC, AttrValue, Constant, TensorType, Type, floordiv
from egraph_opt.ops.base import (
    Operator,
    Param,
    Sample,
    as_element,
    distinct_shape,
    fitting,
    holds,
    integer,
    ints,
    lower_bound,
    require,
    wide,
)
from egraph_opt.ops.kinds import Array, Attrs, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering, dtype_name, numpy_dtype
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir

_LARGEST_RANGE = 16 * 2**10
"""Bytes of a ``Range`` that is read as a constant, so that it may end up in the file; a longer one stays a node."""


class Fill(Operator):
    """``value`` everywhere in a tensor of ``shape`` and ``dtype``; ONNX's ConstantOfShape of a constant shape."""

    name = "Fill"
    params = (Param("shape"), Param("value"), Param("dtype"))
    arity = (0, 0)
    ring = "exact"
    onnx_names = ("ConstantOfShape",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        shape, value, dtype = ints(attrs[0]), attrs[1], attrs[2]
        require(dtype in NUMERIC | {"bool"}, f"Fill of {dtype}")
        require(min(shape, default=0) >= 0, f"Fill of shape {shape}")
        require(holds(str(dtype), value), f"Fill of {dtype} with {value!r}")
        return TensorType(str(dtype), shape)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        return np.full(ints(attrs[0]), attrs[1], numpy_dtype(str(attrs[2])))  # type: ignore[arg-type]

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        shape, value, dtype = attrs
        dtype = "float64" if dtype is None else dtype
        if value is None:
            value = as_element(str(dtype), int(rng.integers(-2 if dtype in FLOATS else 0, 4)))
        return fitting(self, (distinct_shape(rng) if shape is None else shape, value, dtype), ())

    def from_onnx(self, source: Source) -> int:
        shape, tensor = source.sizes(0, "the sizes of the tensor"), source.attr("value")
        value, dtype = (0.0, "float32") if tensor is None else _single(tensor)
        return source.apply_or_type(TensorType(dtype, shape), "Fill", shape=shape, value=value, dtype=dtype)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        shape, value, dtype = low.attrs
        import onnx_ir

        tensor = onnx_ir.tensor(np.array([value], numpy_dtype(str(dtype))))
        return low.op("ConstantOfShape", [low.ints(ints(shape))], value=tensor)

    def opset(self, attrs: Attrs, types: Types) -> int:
        return 20 if attrs[2] == "bfloat16" else 9

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 0


def _single(tensor: AttrValue) -> tuple[AttrValue, str]:
    import onnx_ir

    assert isinstance(tensor, onnx_ir.TensorProtocol)
    array = tensor.numpy()
    if array.size != 1:
        raise Unsupported(f"ConstantOfShape with {array.size} values")
    return array.reshape(-1)[0].item(), dtype_name(tensor.dtype)


class Importer(Operator):
    """An ONNX operator that only the way in knows."""

    def __init__(self, *names: str) -> None:
        self.name = names[0]
        self.onnx_names = names


class ConstantImporter(Importer):
    """``Constant`` in any of its forms but strings and sparse tensors."""

    def from_onnx(self, source: Source) -> int:
        import onnx_ir

        forms = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
        for name, dtype in forms.items():
            value = source.attr(name)
            if value is not None:
                return source.builder.constant(np.array(value, dtype))
        tensor = source.attr("value")
        if not isinstance(tensor, onnx_ir.TensorProtocol) or tensor.dtype == onnx_ir.DataType.STRING:
            raise Unsupported("Constant of strings or of a sparse tensor")
        return source.builder.graph.constant(Constant.of(tensor.numpy(), dtype_name(tensor.dtype)))


class ShapeOf(Operator):
    """The sizes of axes ``start`` (inclusive) to ``end`` of the operand, as int64; needs only its type.

    The importer writes a constant where the sizes are numbers.
    """

    name = "Shape"
    params = (Param("start", "int"), Param("end", "int"))
    onnx_names = ("Shape",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        start, end = (integer(a) for a in attrs)
        require(0 <= start <= end <= types[0].rank, f"Shape of axes {start} to {end} of {types[0]}")
        return TensorType("int64", (end - start,))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        start, end = (integer(a) for a in attrs)
        return np.array(operands[0].shape[start:end], np.int64)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        least = max((integer(a) for a in attrs if a is not None), default=0)
        x = types[0] or TensorType("float64", distinct_shape(rng, max(least, int(rng.integers(1, 5)))))
        start = int(rng.integers(0, x.rank + 1)) if attrs[0] is None else integer(attrs[0])
        if start > x.rank:
            return None
        end = int(rng.integers(start, x.rank + 1)) if attrs[1] is None else attrs[1]
        return fitting(self, (min(start, end) if attrs[0] is None and isinstance(end, int) else start, end), (x,))

    def from_onnx(self, source: Source) -> int:
        x, end = source.type(0), source.attr("end")
        assert end is None or isinstance(end, int)
        start, stop, _ = slice(source.int_attr("start", 0), end).indices(x.rank)
        stop = max(start, stop)
        numbers = [size for size in x.shape[start:stop] if isinstance(size, int)]
        if len(numbers) == stop - start:
            return source.builder.constant(np.array(numbers, np.int64))
        return source.apply("Shape", source.operand(0), start=start, end=stop)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        start, end = (integer(a) for a in low.attrs)
        whole = end == low.tensor_type(0).rank
        if low.opset >= 15:
            return low.op("Shape", low.inputs, start=start or None, end=None if whole else end)
        return low.op("Shape", low.inputs)

    def opset(self, attrs: Attrs, types: Types) -> int:
        whole = attrs == (0, types[0].rank)
        return max(super().opset(attrs, types), 9 if whole else 15)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 0

    def moves_data(self, attrs: Attrs) -> bool:
        return False


class SizeImporter(Importer):
    """``Size``: a number, or the product of the sizes."""

    def from_onnx(self, source: Source) -> int:
        x = source.type(0)
        if isinstance(x.elements, int):
            return source.builder.constant(np.array(x.elements, np.int64))
        sizes = source.apply("Shape", source.operand(0), start=0, end=x.rank)
        return source.apply("ReduceProd", sizes, axes=(0,), keepdims=0)


class RangeImporter(Importer):
    """``Range`` between constants."""

    def from_onnx(self, source: Source) -> int:
        arrays = [source.array(i) for i in range(3)]
        start, limit, delta = (a.reshape(-1)[0] if a is not None and a.size == 1 else None for a in arrays)
        if start is None or limit is None or delta is None:
            raise Unsupported("Range between values that are computed while the model runs", _range_type(source))
        if delta == 0:
            raise Unsupported("Range with a step of 0")
        count = max(int(np.ceil((float(limit) - float(start)) / float(delta))), 0)
        if count * start.itemsize > _LARGEST_RANGE:
            long = f"Range of {count} elements, which is too long to be a constant"
            raise Unsupported(long, TensorType(str(start.dtype), (count,)))
        if source.int_attr("stash_type", 1) != 1:
            raise Unsupported("Range with another stash_type than float32")
        first, step = wide(np.asarray(start)), wide(np.asarray(delta))
        return source.builder.constant((first + np.arange(count).astype(first.dtype) * step).astype(start.dtype))


def _range_type(source: Source) -> TensorType | None:
    """The type of a ``Range`` between sizes, if it goes upwards whatever they are."""
    try:
        start, limit, delta = (source.sizes(i, "the bounds") for i in range(3))
    except Unsupported:
        return None
    gap, step = limit[0] - start[0], delta[0]
    if lower_bound(gap) < 0 or lower_bound(step) < 1:
        return None
    return TensorType(source.type(0).dtype, (floordiv(gap + step - 1, step),))


class IdentityImporter(Importer):
    """``Identity``, and ``Dropout`` as it is outside training: the operand itself."""

    def from_onnx(self, source: Source) -> int:
        if source.op_type == "Dropout":
            source.only_output("its mask is used")
            training = source.array(2)
            if source.has(2) and (training is None or bool(training.reshape(-1)[0])):
                raise Unsupported("Dropout that may be in training mode")
        return source.operand(0)


OPERATORS = (Fill(), ShapeOf())
IMPORTERS = (
    ConstantImporter("Constant"),
    SizeImporter("Size"),
    RangeImporter("Range"),
    IdentityImporter("Identity", "Dropout"),
)
