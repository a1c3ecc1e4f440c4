"""Reductions over axes, and the positions of extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from egraph_opt.ir import FLOATS, NUMERIC, AttrValue, Size, TensorType, Type
from egraph_opt.ops.base import (
    Operator,
    Param,
    Sample,
    distinct_shape,
    fitting,
    integer,
    ints,
    numpy_limits,
    require,
    wide,
)
from egraph_opt.ops.draws import shuffled
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir

_SUMMED = FLOATS | {"int32", "int64", "uint32", "uint64"}


class Reduce(Operator):
    """Reduction over ``axes`` (increasing, from the front, at least one); ``keepdims`` leaves them with size 1."""

    params = (Param("axes"), Param("keepdims", "int"))

    def __init__(
        self,
        name: str,
        function: Callable[[Array, tuple[int, ...]], Array],
        *,
        dtypes: frozenset[str] = _SUMMED,
        ring: Literal["exact", "no"] = "no",
        operand_since: int = 18,
        empty: bool = True,
        adds: bool = False,
    ) -> None:
        self.name, self.function, self.dtypes, self.ring = name, function, dtypes, ring
        self.operand_since, self.empty, self.adds = operand_since, empty, adds
        self.onnx_names = (name,)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        axes, keep, x = ints(attrs[0]), integer(attrs[1]), types[0]
        if x.dtype not in self.dtypes:
            raise IllTyped(f"{self.name} is not defined on {x.dtype}")
        require(keep in (0, 1), "keepdims is 0 or 1")
        if not axes or list(axes) != sorted(set(axes)) or axes[0] < 0 or axes[-1] >= x.rank:
            raise IllTyped(f"{self.name} of {x} over axes {axes}")
        require(self.empty or all(x.shape[axis] != 0 for axis in axes), f"{self.name} of nothing")
        return TensorType(x.dtype, _reduced(x.shape, axes, keep))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x, axes = operands[0], ints(attrs[0])
        y = np.asarray(self.function(wide(x), axes)).astype(x.dtype, copy=False)
        return y if attrs[1] else y.reshape([n for axis, n in enumerate(y.shape) if axis not in axes])

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        least = 1 if attrs[0] is None else max(ints(attrs[0]), default=0) + 1
        x = types[0] or TensorType("float64", distinct_shape(rng, max(least, int(rng.integers(1, 5)))))
        if x.rank == 0:
            return None
        count = int(rng.integers(1, x.rank + 1))
        axes = tuple(sorted(shuffled(rng, range(x.rank))[:count])) if attrs[0] is None else attrs[0]
        return fitting(self, (axes, int(rng.integers(2)) if attrs[1] is None else attrs[1]), (x,))

    def from_onnx(self, source: Source) -> int:
        rank = source.type(0).rank
        axes = source.ints(1, "the axes") if source.has(1) else source.ints_attr("axes")
        if not axes:
            # no axes mean all axes unless noop_with_empty_axes says none; reducing a scalar changes nothing
            axes = () if source.int_attr("noop_with_empty_axes", 0) else tuple(range(rank))
        if not axes:
            return source.operand(0)
        normal = tuple(sorted({source.axis(axis, rank) for axis in axes}))
        keep = int(bool(source.int_attr("keepdims", 1)))
        return source.apply(self.name, source.operand(0), axes=normal, keepdims=keep)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        axes, keep = ints(low.attrs[0]), low.attrs[1]
        if low.opset < self.operand_since:
            return low.op(self.name, low.inputs, axes=axes, keepdims=keep)
        return low.op(self.name, [*low.inputs, low.ints(axes)], keepdims=keep)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return math.prod(types[0].numbers())

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        shape = types[0].numbers()
        return math.prod(shape[axis] for axis in ints(attrs[0])) * largest[0] if self.adds else math.inf


class Arg(Operator):
    """Position (int64) of the largest or smallest element along ``axis``; the first one, or the last one if asked."""

    params = (Param("axis", "int"), Param("keepdims", "int"), Param("select_last_index", "int"))

    def __init__(self, name: str, function: Callable[..., Array]) -> None:
        self.name, self.function = name, function
        self.onnx_names = (name,)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        axis, keep, last = (integer(a) for a in attrs)
        x = types[0]
        require(x.dtype in NUMERIC, f"{self.name} is not defined on {x.dtype}")
        require(keep in (0, 1) and last in (0, 1), "keepdims and select_last_index are 0 or 1")
        require(0 <= axis < x.rank and x.shape[axis] != 0, f"{self.name} of {x} along axis {axis}")
        return TensorType("int64", _reduced(x.shape, (axis,), keep))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        axis, keep, last = (integer(a) for a in attrs)
        x = wide(operands[0])
        y = self.function(np.flip(x, axis) if last else x, axis=axis, keepdims=bool(keep))
        return np.asarray(x.shape[axis] - 1 - y if last else y, np.int64)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        least = 1 if attrs[0] is None else integer(attrs[0]) + 1
        x = types[0] or TensorType("float64", distinct_shape(rng, max(least, int(rng.integers(1, 5)))))
        if x.rank == 0:
            return None
        axis = int(rng.integers(x.rank)) if attrs[0] is None else attrs[0]
        flags = (int(rng.integers(2)) if flag is None else flag for flag in attrs[1:])
        return fitting(self, (axis, *flags), (x,))

    def from_onnx(self, source: Source) -> int:
        flags = {
            "keepdims": int(bool(source.int_attr("keepdims", 1))),
            "select_last_index": int(bool(source.int_attr("select_last_index", 0))),
        }
        axis = source.axis(source.int_attr("axis", 0), source.type(0).rank)
        return source.apply(self.name, source.operand(0), axis=axis, **flags)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        axis, keep, last = low.attrs
        return low.op(self.name, low.inputs, axis=axis, keepdims=keep, select_last_index=last or None)

    def opset(self, attrs: Attrs, types: Types) -> int:
        return max(super().opset(attrs, types), 12 if attrs[2] else 9)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return math.prod(types[0].numbers())


def _reduced(shape: tuple[Size, ...], axes: tuple[int, ...], keep: int) -> tuple[Size, ...]:
    if keep:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    return np.sum(x, axis=axes, keepdims=True, dtype=x.dtype)


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    if x.dtype.kind in "iu":  # towards zero
        count = int(np.prod([x.shape[axis] for axis in axes]))
        total = np.sum(x, axis=axes, keepdims=True)
        return np.where(total < 0, -(np.abs(total) // count), total // count)
    return np.mean(x, axis=axes, keepdims=True, dtype=x.dtype)


def _max(x: Array, axes: tuple[int, ...]) -> Array:
    return np.max(x, axis=axes, keepdims=True, initial=numpy_limits(x.dtype)[0])


def _min(x: Array, axes: tuple[int, ...]) -> Array:
    return np.min(x, axis=axes, keepdims=True, initial=numpy_limits(x.dtype)[1])


def _prod(x: Array, axes: tuple[int, ...]) -> Array:
    return np.prod(x, axis=axes, keepdims=True, dtype=x.dtype)


_ORDERED = _SUMMED | {"int8", "uint8"}

OPERATORS = (
    Reduce("ReduceSum", _sum, ring="exact", operand_since=13, adds=True),
    Reduce("ReduceMean", _mean, empty=False),
    Reduce("ReduceMax", _max, dtypes=_ORDERED),
    Reduce("ReduceMin", _min, dtypes=_ORDERED),
    Reduce("ReduceProd", _prod),  # exact in a ring, but the product leaves int64 before a caller can reduce it
    Arg("ArgMax", np.argmax),
    Arg("ArgMin", np.argmin),
)
