"""``Pad`` with constants, the border or a reflection."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from egraph_opt.ir import FLOATS, NUMERIC, AttrValue, Size, TensorType, Type
from egraph_opt.ops.base import (
    Operator,
    Param,
    Sample,
    as_element,
    distinct_shape,
    fitting,
    holds,
    ints,
    lower_bound,
    require,
)
from egraph_opt.ops.draws import integers
from egraph_opt.ops.kinds import Array, Attrs, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir

_MODES = ("constant", "reflect", "edge")


class Pad(Operator):
    """Grows (or, by negative pads and in constant mode only, crops) every axis.

    ``pads`` are the begins of all axes and then the ends; ``value`` fills in constant mode and is 0 in the others.
    """

    name = "Pad"
    params = (Param("pads"), Param("mode"), Param("value"))
    ring = "exact"
    onnx_names = ("Pad",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        pads, mode, value = ints(attrs[0]), attrs[1], attrs[2]
        x = types[0]
        require(mode in _MODES, f"Pad has no mode {mode}")
        require(holds(x.dtype, value), f"Pad of {x} with {value!r}")
        require(x.dtype in NUMERIC | {"bool"} and len(pads) == 2 * x.rank, f"Pad of {x} by {pads}")
        require(x.rank > 0, "Pad of a scalar")
        for axis, size in enumerate(x.shape):
            begin, end = pads[axis], pads[axis + x.rank]
            left = size + min(begin, 0) + min(end, 0)
            require(mode == "constant" or min(begin, end) >= 0, f"Pad of mode {mode} by negative pads")
            require(left == size or lower_bound(left) >= 0, f"Pad crops {size} by {begin} and {end}")
            inside = max(begin, end) < size if isinstance(size, int) else True
            require(mode != "reflect" or inside or begin == end == 0, f"Pad reflects {size} by {begin} and {end}")
            require(mode != "edge" or size != 0 or begin == end == 0, "Pad repeats the border of nothing")
        return TensorType(x.dtype, tuple(size + pads[i] + pads[i + x.rank] for i, size in enumerate(x.shape)))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        pads, mode, value = ints(attrs[0]), attrs[1], attrs[2]
        x = operands[0]
        width = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
        if mode != "constant":
            return np.pad(x, width, mode=cast(Literal["edge", "reflect"], mode))
        if min(pads, default=0) < 0:
            x = x[tuple([slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(width, x.shape, strict=True)])]
            width = [(max(a, 0), max(b, 0)) for a, b in width]
        y = np.full([n + a + b for n, (a, b) in zip(x.shape, width, strict=True)], value, x.dtype)  # type: ignore[arg-type]
        y[tuple([slice(a, a + n) for n, (a, _) in zip(x.shape, width, strict=True)])] = x
        return y

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        rank = None if attrs[0] is None else len(ints(attrs[0])) // 2
        x = types[0] or TensorType("float64", distinct_shape(rng, rank))
        mode = str(rng.choice(_MODES, p=[0.6, 0.2, 0.2])) if attrs[1] is None else attrs[1]
        low = -2 if x.dtype in FLOATS else 0
        value = as_element(x.dtype, int(rng.integers(low, 3)) if mode == "constant" else 0)
        pads = _random_pads(rng, x.numbers(), mode) if attrs[0] is None else attrs[0]
        return fitting(self, (pads, mode, value if attrs[2] is None else attrs[2]), (x,))

    def from_onnx(self, source: Source) -> int:
        x, mode = source.type(0), source.attr("mode", "constant")
        if mode not in _MODES:
            raise Unsupported(f"Pad of mode {mode}")
        value: AttrValue = source.attr("value", 0.0)
        if source.opset < 11:
            pads = source.ints_attr("pads") or ()
        else:
            pads = source.sizes(1, "the pads")
            value = _value(source)
        axes = source.ints(3, "the axes") if source.has(3) else tuple(range(x.rank))
        if len(pads) != 2 * len(axes):
            raise Unsupported(f"Pad with {len(pads)} pads for {len(axes)} axes")
        full: list[Size] = [0] * (2 * x.rank)
        for i, axis in enumerate(axes):
            full[source.axis(axis, x.rank)] = pads[i]
            full[source.axis(axis, x.rank) + x.rank] = pads[i + len(axes)]
        if mode != "constant":
            value = 0.0
        result = TensorType(x.dtype, tuple(size + full[i] + full[i + x.rank] for i, size in enumerate(x.shape)))
        filled = as_element(x.dtype, value)
        return source.apply_or_type(result, "Pad", source.operand(0), pads=tuple(full), mode=mode, value=filled)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        pads, mode, value = ints(low.attrs[0]), low.attrs[1], low.attrs[2]
        if low.opset < 11:
            return low.op("Pad", low.inputs, pads=pads, mode=mode, value=float(value))  # type: ignore[arg-type]
        operands = [*low.inputs, low.ints(pads)]
        if mode == "constant":
            operands.append(low.scalar(value, low.tensor_type(0).dtype))  # type: ignore[arg-type]
        return low.op("Pad", operands, mode=mode)

    def opset(self, attrs: Attrs, types: Types) -> int:
        with np.errstate(over="ignore"):
            fits = np.float32(attrs[2]) == attrs[2] or attrs[2] != attrs[2]  # type: ignore[arg-type]
        return max(super().opset(attrs, types), 9 if fits else 11)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 0

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        filled = abs(float(attrs[2]))  # type: ignore[arg-type]
        return max(largest[0], filled) if filled < math.inf else math.inf  # it may not be a number


def _value(source: Source) -> AttrValue:
    if not source.has(2):
        return 0.0
    array = source.array(2)
    if array is None or array.size != 1:
        raise Unsupported("Pad: the value is computed while the model runs")
    return array.reshape(-1)[0].item()


def _random_pads(rng: Rng, shape: tuple[int, ...], mode: AttrValue) -> tuple[int, ...]:
    sides: list[tuple[int, int]] = []
    for size in shape:
        high = min(3, size) if mode == "reflect" else 3
        begin, end = integers(rng, 0, max(high, 1), 2)
        if mode == "constant" and size > 1 and rng.random() < 0.2:
            begin = -1
        sides.append((begin, end))
    if len(shape) > 2 and rng.random() < 0.4:  # as convolutions pad, which leave batch and channels alone
        sides[:2] = [(0, 0), (0, 0)]
    return (*(a for a, _ in sides), *(b for _, b in sides))


OPERATORS = (Pad(),)
