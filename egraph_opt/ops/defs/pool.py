"""Pooling: windows of MaxPool and AveragePool, and pooling of whole planes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import FLOATS, AttrValue, Size, TensorType, Type, floordiv
from egraph_opt.ops.base import (
    Operator,
    Param,
    Sample,
    distinct_shape,
    fitting,
    integer,
    ints,
    lower_bound,
    numpy_limits,
    require,
    wide,
)
from egraph_opt.ops.defs.conv import resolve_pads, sliding_windows
from egraph_opt.ops.draws import integers
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir


class Pool(Operator):
    """Windows over the spatial axes of x (N, C, *spatial); pads and sizes explicit.

    With ``ceil_mode`` a last window may hang over the right edge, but none may start in the right padding. Every window
    holds an element of x: on windows of padding alone (dilated ones may step over a short axis) the specification and
    runtimes differ.
    """

    params = (Param("kernel"), Param("strides"), Param("pads"), Param("dilations"), Param("ceil_mode", "int"))
    dtypes = FLOATS

    def infer(self, attrs: Attrs, types: Types) -> Type:
        kernel, strides, pads, dilations = (ints(a) for a in attrs[:4])
        ceil, x = integer(attrs[4]), types[0]
        spatial = x.rank - 2
        require(x.dtype in self.dtypes, f"{self.name} is not defined on {x.dtype}")
        if spatial < 1 or ceil not in (0, 1):
            raise IllTyped(f"{self.name} of {x}")
        if not (len(kernel) == len(strides) == len(dilations) == spatial and len(pads) == 2 * spatial):
            raise IllTyped(f"{self.name} attributes of another rank than {x}")
        require(min(kernel) >= 1 and min(strides) >= 1 and min(dilations) >= 1, f"{self.name} of nothing")
        inside = min(pads) >= 0 and all(p < k for p, k in zip(pads, kernel * 2, strict=True))
        require(inside, "a window of padding only")
        positions = [
            window_positions(x.shape[2 + i], kernel[i], strides[i], (pads[i], pads[i + spatial]), dilations[i], ceil)
            for i in range(spatial)
        ]
        for i, count in enumerate(positions):
            touching = _touches(x.shape[2 + i], count, strides[i], pads[i], dilations[i])
            require(touching, "a window of padding only")
        return TensorType(x.dtype, (*x.shape[:2], *positions))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        given = next((len(ints(attrs[i])) for i in (0, 1, 3) if attrs[i] is not None), None)
        spatial = types[0].rank - 2 if types[0] else given or int(rng.integers(1, 4))
        if spatial < 1:
            return None
        x = types[0] or TensorType("float64", (*distinct_shape(rng, 2), *integers(rng, 1, 8, spatial)))
        kernel = integers(rng, 1, 4, spatial) if attrs[0] is None else ints(attrs[0])
        strides = integers(rng, 1, 4, spatial) if attrs[1] is None else attrs[1]
        pads = tuple(int(rng.integers(0, k)) for k in kernel * 2) if attrs[2] is None else attrs[2]
        wide_steps = rng.random() < 0.3
        dilations = integers(rng, 1, 3 if wide_steps else 2, spatial)
        flags = (int(rng.integers(2)) if flag is None else flag for flag in attrs[4:])
        chosen = (kernel, strides, pads, dilations if attrs[3] is None else attrs[3], *flags)
        return fitting(self, chosen, (x,))

    def read(self, source: Source) -> dict[str, AttrValue]:
        """The attributes of an ONNX pooling node, defaults and ``auto_pad`` resolved."""
        kernel = source.ints_attr("kernel_shape")
        if kernel is None:
            raise Unsupported(f"{source.op_type} without kernel_shape")
        strides = source.ints_attr("strides") or (1,) * len(kernel)
        dilations = source.ints_attr("dilations") or (1,) * len(kernel)
        ceil = int(bool(source.int_attr("ceil_mode", 0)))
        if source.attr("auto_pad", "NOTSET") != "NOTSET" and ceil:
            raise Unsupported(
                f"{source.op_type} with auto_pad and ceil_mode, on which specification and runtimes differ"
            )
        pads = resolve_pads(source, source.type(0).shape[2:], kernel, strides, dilations)
        return {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations, "ceil_mode": ceil}

    def written(self, low: Lowering) -> dict[str, AttrValue]:
        """The attributes for ONNX; those that old opsets do not know are left out at their defaults."""
        kernel, strides, pads, dilations, ceil = low.attrs[:5]
        spread = dilations if set(ints(dilations)) != {1} else None
        return {
            "kernel_shape": kernel,
            "strides": strides,
            "pads": pads,
            "dilations": spread,
            "ceil_mode": ceil or None,
        }

    def opset(self, attrs: Attrs, types: Types) -> int:
        kernel, strides, pads, dilations = (ints(a) for a in attrs[:4])
        if not attrs[4]:
            return super().opset(attrs, types)
        # until opset 22 ONNX counted windows that start in the right padding, which no runtime computes
        spatial = len(kernel)
        plain = True
        for i, size in enumerate(types[0].shape[2:]):
            if isinstance(size, int):
                sides = (pads[i], pads[i + spatial])
                whole = size + sum(sides) - (kernel[i] - 1) * dilations[i] - 1
                counted = -(-whole // strides[i]) + 1
                plain &= counted == window_positions(size, kernel[i], strides[i], sides, dilations[i], 1)
        return max(super().opset(attrs, types), 10 if plain else 22)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        assert isinstance(result, TensorType)
        return math.prod(result.numbers()) * math.prod(ints(attrs[0]))


class MaxPool(Pool):
    """The largest element of every window; padding never wins."""

    name = "MaxPool"
    dtypes = FLOATS | {"int8", "uint8"}
    onnx_names = ("MaxPool",)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x = operands[0]
        windows = _windows(wide(x), attrs, numpy_limits(x.dtype)[0])
        return windows.max(axis=tuple(range(x.ndim, windows.ndim))).astype(x.dtype, copy=False)

    def from_onnx(self, source: Source) -> int:
        source.only_output("the positions of the maxima are used")
        return source.apply("MaxPool", source.operand(0), **self.read(source))

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        return low.op("MaxPool", low.inputs, **self.written(low))

    def opset(self, attrs: Attrs, types: Types) -> int:
        return max(super().opset(attrs, types), 10 if set(ints(attrs[3])) != {1} else 9)


class AveragePool(Pool):
    """The mean of every window, over the padding too if ``count_include_pad`` (never over what hangs over the edge)."""

    name = "AveragePool"
    params = (*Pool.params, Param("count_include_pad", "int"))
    onnx_names = ("AveragePool",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        require(attrs[5] in (0, 1), "count_include_pad is 0 or 1")
        return super().infer(attrs, types)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x = wide(operands[0])
        windows = _windows(x, attrs, 0)
        inner = tuple(range(x.ndim, windows.ndim))
        ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
        if attrs[5]:
            pads, spatial = ints(attrs[2]), x.ndim - 2
            ones = np.ones((1, 1, *(n + pads[i] + pads[i + spatial] for i, n in enumerate(x.shape[2:]))), x.dtype)
            attrs = (attrs[0], attrs[1], (0,) * (2 * spatial), *attrs[3:])
            counts = _windows(ones, attrs, 0, windows.shape[2 : x.ndim]).sum(axis=inner)
        else:
            counts = _windows(ones, attrs, 0).sum(axis=inner)
        return (windows.sum(axis=inner) / counts).astype(operands[0].dtype, copy=False)

    def from_onnx(self, source: Source) -> int:
        count = int(bool(source.int_attr("count_include_pad", 0)))
        return source.apply("AveragePool", source.operand(0), **self.read(source), count_include_pad=count)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        return low.op("AveragePool", low.inputs, **self.written(low), count_include_pad=low.attrs[5])

    def opset(self, attrs: Attrs, types: Types) -> int:
        return max(super().opset(attrs, types), 19 if set(ints(attrs[3])) != {1} else 9)


class GlobalPool(Operator):
    """One number per channel: (N, C, *spatial) -> (N, C, 1...)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.onnx_names = (name,)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        x = types[0]
        if x.dtype not in FLOATS or x.rank < 3:
            raise IllTyped(f"{self.name} of {x}")
        require(0 not in x.shape[2:], f"{self.name} of nothing")
        return TensorType(x.dtype, (*x.shape[:2], *(1,) * (x.rank - 2)))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x = wide(operands[0])
        axes = tuple(range(2, x.ndim))
        y = x.max(axis=axes, keepdims=True) if self.name == "GlobalMaxPool" else x.mean(axis=axes, keepdims=True)
        return y.astype(operands[0].dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        return fitting(self, (), (types[0] or TensorType("float64", distinct_shape(rng, int(rng.integers(3, 6)))),))

    def from_onnx(self, source: Source) -> int:
        return source.apply(self.name, source.operand(0))

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return math.prod(types[0].numbers())


def window_positions(size: Size, kernel: int, stride: int, pads: tuple[int, int], dilation: int, ceil: int) -> Size:
    """How many windows a pool has on an axis.

    Raises:
        IllTyped: none fits, or with ``ceil`` their number has no closed form in a symbolic size.
    """
    span = (kernel - 1) * dilation + 1
    room = size + sum(pads) - span
    if isinstance(size, int) and isinstance(room, int):
        require(room >= 0, f"a window of {span} does not fit {size} padded by {pads}")
        count = (room + (stride - 1 if ceil else 0)) // stride + 1
        return count - 1 if ceil and (count - 1) * stride >= size + pads[0] else count
    # whether the last window starts in the padding depends on the size unless it never can
    require(not ceil or stride + pads[1] <= span or stride == 1, f"a pool with ceil_mode on an axis of size {size}")
    return floordiv(room + (stride - 1 if ceil else 0), stride) + 1


def _touches(size: Size, count: Size, stride: int, pad: int, dilation: int) -> bool:
    """Whether each of the ``count`` windows of an axis holds an element, the pads being smaller than the kernel.

    Only windows that start in the padding can miss: they do where they step over the whole axis.
    """
    if isinstance(size, int) and isinstance(count, int):
        return size >= 1 and all(start % dilation < size for start in range(-pad, 0, stride)[:count])
    return pad == 0 or dilation == 1 or lower_bound(size) >= dilation


def _windows(x: Array, attrs: Attrs, fill: float, positions: Sequence[int] | None = None) -> Array:
    """(N, C, *positions, *kernel): padded with ``fill``, also beyond the pads where ``ceil_mode`` needs it."""
    kernel, strides, pads, dilations = (ints(a) for a in attrs[:4])
    spatial, ends = len(kernel), []
    counts: list[int] = []
    for i in range(spatial):
        size, sides = x.shape[2 + i], (pads[i], pads[i + spatial])
        if positions is None:
            found = window_positions(size, kernel[i], strides[i], sides, dilations[i], integer(attrs[4]))
            assert isinstance(found, int)
            counts.append(found)
        else:
            counts.append(positions[i])
        reach = (counts[i] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1
        ends.append(max(sides[1], reach - size - sides[0]))
    windows = sliding_windows(x, kernel, strides, (*pads[:spatial], *ends), dilations, fill)
    return windows[(slice(None), slice(None), *(slice(0, n) for n in counts))]


OPERATORS = (MaxPool(), AveragePool(), GlobalPool("GlobalAveragePool"), GlobalPool("GlobalMaxPool"))
