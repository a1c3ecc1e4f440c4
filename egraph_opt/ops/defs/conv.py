"""Convolution, plain and with the activation that runtimes fuse into it.

Pads are explicit, ``(begin of every axis..., end of every axis...)`` as ONNX writes them; ``auto_pad`` is resolved on
the way in. Operands: x (N, C, *spatial), w (M, C/group, *kernel), optionally b (M).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import FLOATS, AttrValue, Size, TensorType, Type, floordiv
from egraph_opt.ops.base import Operator, Param, Sample, fitting, integer, ints, require
from egraph_opt.ops.draws import integers, one_of
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.registry import operator
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir


class Conv(Operator):
    """ONNX ``Conv`` in 1 to 3 spatial dimensions, grouped, strided and dilated."""

    name = "Conv"
    params = (Param("strides"), Param("pads"), Param("dilations"), Param("group", "int"))
    arity = (2, 3)
    ring = "exact"
    onnx_names = ("Conv",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        strides, pads, dilations, group = ints(attrs[0]), ints(attrs[1]), ints(attrs[2]), integer(attrs[3])
        x, w = types[0], types[1]
        spatial = x.rank - 2
        require(x.dtype in FLOATS and w.dtype == x.dtype, f"Conv of {x.dtype} by {w.dtype}")
        require(spatial >= 1 and w.rank == x.rank, f"Conv of rank {x.rank} by rank {w.rank}")
        require(
            len(strides) == len(dilations) == spatial and len(pads) == 2 * spatial, "Conv attributes of another rank"
        )
        require(
            group >= 1 and w.shape[1] * group == x.shape[1], f"{group} groups of {w.shape[1]} in {x.shape[1]} channels"
        )
        require(min(strides) >= 1 and min(dilations) >= 1 and min(pads) >= 0, "Conv attributes out of range")
        require(0 not in w.shape[2:], "Conv with an empty kernel")
        outputs = w.shape[0]
        require(isinstance(outputs, int) and outputs % group == 0, f"{outputs} filters in {group} groups")
        if len(types) == 3:
            bias = types[2]
            if bias.dtype != x.dtype or bias.shape != (outputs,):
                raise IllTyped(f"the bias of Conv is {bias}")
        sizes = [
            window_count(x.shape[2 + i], w.shape[2 + i], strides[i], pads[i] + pads[i + spatial], dilations[i])
            for i in range(spatial)
        ]
        return TensorType(x.dtype, (x.shape[0], outputs, *sizes))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        strides, pads, dilations, group = ints(attrs[0]), ints(attrs[1]), ints(attrs[2]), integer(attrs[3])
        x, w = operands[0], operands[1]
        wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
        windows = sliding_windows(x.astype(wide, copy=False), w.shape[2:], strides, pads, dilations)
        n, c, spatial = x.shape[0], x.shape[1] // group, windows.shape[2 : x.ndim]
        taps = math.prod(w.shape[2:])  # written out, because -1 has no answer for an empty batch
        places = math.prod(spatial)
        taps_first = (0, 1, *range(x.ndim, windows.ndim), *range(2, x.ndim))
        patches = windows.transpose(taps_first).reshape(n, group, c * taps, places)
        kernels = w.astype(wide, copy=False).reshape(group, w.shape[0] // group, c * taps)
        y = np.matmul(kernels, patches).reshape(n, w.shape[0], *spatial)
        if len(operands) == 3:
            y = y + operands[2].astype(wide).reshape(1, -1, *[1] * len(spatial))
        return y.astype(x.dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        x, w, b = (*types, None)[:3]
        spatial = next((t.rank - 2 for t in (x, w) if t), None)
        if spatial is None:
            spatial = next((len(a) for a in (attrs[0], attrs[2]) if isinstance(a, tuple)), int(rng.integers(1, 3)))
        if spatial < 1:
            return None
        if any(t.rank != rank for t, rank in ((x, spatial + 2), (w, spatial + 2), (b, 1)) if t):
            return None
        filters = [t.numbers()[0] for t in (w, b) if t]
        group = integer(attrs[3]) if attrs[3] is not None else _random_group(rng, x, w, filters)
        channels = x.numbers()[1] if x else group * (w.numbers()[1] if w else int(rng.integers(1, 3)))
        outputs = filters[0] if filters else group * int(rng.integers(1, 4))
        if group == 0 or channels % group or outputs % group:
            return None
        w = w or TensorType(x.dtype if x else "float64", (outputs, channels // group, *integers(rng, 1, 4, spatial)))
        x = x or TensorType(w.dtype, (int(rng.integers(1, 3)), channels, *integers(rng, 2, 7, spatial)))
        chosen = (
            attrs[0] if attrs[0] is not None else integers(rng, 1, 3, spatial),
            attrs[1] if attrs[1] is not None else random_pads(rng, spatial),
            attrs[2] if attrs[2] is not None else integers(rng, 1, 3, spatial),
            group,
        )
        bias = (b or TensorType(x.dtype, (outputs,)),) if len(types) == 3 else ()
        return fitting(self, chosen, (x, w, *bias))

    def from_onnx(self, source: Source) -> int:
        x, w = source.type(0), source.type(1)
        kernel = w.shape[2:]
        spatial = len(kernel)
        strides = source.attr("strides", (1,) * spatial)
        dilations = source.attr("dilations", (1,) * spatial)
        assert isinstance(strides, tuple)
        assert isinstance(dilations, tuple)
        pads = resolve_pads(source, x.shape[2:], kernel, strides, dilations)
        operands = [source.operand(i) for i in range(3) if source.has(i)]
        group = source.attr("group", 1)
        return source.apply("Conv", *operands, strides=strides, pads=pads, dilations=dilations, group=group)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        strides, pads, dilations, group = low.attrs
        return low.op(
            "Conv",
            low.inputs,
            kernel_shape=written_kernel(low),
            strides=strides,
            pads=pads,
            dilations=dilations,
            group=group,
        )

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        assert isinstance(result, TensorType)
        return 2 * math.prod(result.numbers()) * math.prod(types[1].numbers()[1:])

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        return math.prod(types[1].numbers()[1:]) * largest[0] * largest[1] + sum(largest[2:])


class FusedConv(Conv):
    """A convolution and the activation that ONNX Runtime runs inside its kernel; written to ONNX as the two nodes.

    ``activation`` is the operator's name and ``parameters`` its attributes. ``HardSwish`` is written as x times its
    ``HardSigmoid``: ONNX Runtime takes these for one as well, and they need no newer opset.
    """

    name = "FusedConv"
    params = (*Conv.params, Param("activation"), Param("parameters"))
    ring = "no"
    onnx_names = ()

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        return math.inf

    def infer(self, attrs: Attrs, types: Types) -> Type:
        inner = super().infer(attrs[:4], types)
        activation, parameters = attrs[4:]
        if activation not in FUSED_ACTIVATIONS or not isinstance(parameters, tuple):
            raise IllTyped(f"{activation} does not run inside a convolution")
        assert isinstance(inner, TensorType)
        return operator(str(activation)).infer(parameters, [inner])

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        activation, parameters = attrs[4:]
        assert isinstance(parameters, tuple)
        result = operator(str(activation)).compute(parameters, [super().compute(attrs[:4], operands)])
        assert not isinstance(result, tuple)
        return result

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        inner = Conv().complete(rng, attrs[:4], types)
        if inner is None:
            return None
        name = str(attrs[4] if attrs[4] is not None else one_of(rng, FUSED_ACTIVATIONS))
        given = attrs[5] if isinstance(attrs[5], tuple) else (None,) * len(operator(name).params)
        activation = operator(name).complete(rng, given, [inner.types[0]])
        return activation and Sample((*inner.attrs, name, activation.attrs), inner.types)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        activation, parameters = _written(low.attrs)
        inner = Lowering(low.sink, low.attrs[:4], low.inputs, low.operand_types, low.type)
        convolved = super().to_onnx(inner)
        outer = Lowering(low.sink, parameters, (convolved,), (low.type,), low.type)
        result = operator(activation).to_onnx(outer)
        assert not isinstance(result, tuple)
        return low.op("Mul", (convolved, result)) if low.attrs[4] == "HardSwish" else result

    def opset(self, attrs: Attrs, types: Types) -> int:
        activation, parameters = _written(attrs)
        inner = operator("Conv").opset(attrs[:4], types)
        return max(inner, operator(activation).opset(parameters, types[:1]))


def _written(attrs: Attrs) -> tuple[str, Attrs]:
    """The operator, and its attributes, that follows the convolution in ONNX."""
    activation, parameters = attrs[4:]
    assert isinstance(parameters, tuple)
    return (
        ("HardSigmoid", (float(np.float32(1 / 6)), 0.5)) if activation == "HardSwish" else (str(activation), parameters)
    )


FUSED_ACTIVATIONS = ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Clip", "HardSwish")


def written_kernel(low: Lowering) -> tuple[int, ...] | None:
    """ONNX's ``kernel_shape`` of a weight (operand 1); left out where the weight has symbolic sizes."""
    weight = low.tensor_type(1)
    return weight.numbers()[2:] if weight.is_static else None


def window_count(size: Size, kernel: Size, stride: int, pad: int, dilation: int) -> Size:
    """How many windows fit on an axis of ``size`` with ``pad`` added in all.

    Raises:
        IllTyped: the window is larger than the padded axis.
    """
    room = size + pad - ((kernel - 1) * dilation + 1)
    if isinstance(room, int):
        require(room >= 0, f"a window of {kernel} (dilation {dilation}) does not fit {size} padded by {pad}")
    return floordiv(room, stride) + 1


def sliding_windows(
    x: Array,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    fill: float = 0,
) -> Array:
    """Windows of the spatial axes of x (N, C, *spatial) -> (N, C, *positions, *kernel), padded with ``fill``."""
    spatial = len(kernel)
    inner = _padded(x, [(pads[i], pads[i + spatial]) for i in range(spatial)], fill) if any(pads) else x
    counts = [
        (n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(inner.shape[2:], kernel, strides, dilations, strict=True)
    ]
    if min(counts) < 1:
        raise ValueError(f"windows {list(kernel)} with dilations {list(dilations)} do not fit {inner.shape}")
    # what ``as_strided`` gives, in a tenth of the time
    inner = np.ascontiguousarray(inner)
    jumps = inner.strides[2:]
    shape = (*inner.shape[:2], *counts, *kernel)
    steps = (*inner.strides[:2], *map(mul, jumps, strides), *map(mul, jumps, dilations))
    return np.ndarray(shape, inner.dtype, inner, 0, steps)


def _padded(x: Array, sides: Sequence[tuple[int, int]], fill: float) -> Array:
    """x with ``fill`` before and after its spatial axes; negative numbers crop. (``np.pad`` takes longer than most
    convolutions on which rules are tried.)"""
    sizes = [n + max(a, 0) + max(b, 0) for n, (a, b) in zip(x.shape[2:], sides, strict=True)]
    shape = (*x.shape[:2], *sizes)
    padded = np.full(shape, fill, x.dtype) if fill else np.zeros(shape, x.dtype)
    padded[(..., *[slice(max(a, 0), max(a, 0) + n) for n, (a, _) in zip(x.shape[2:], sides, strict=True)])] = x
    if min(map(min, sides)) >= 0:
        return padded
    return padded[(..., *[slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(sizes, sides, strict=True)])]


def resolve_pads(
    source: Source,
    sizes: Sequence[Size],
    kernel: Sequence[Size],
    strides: Sequence[AttrValue],
    dilations: Sequence[AttrValue],
) -> tuple[int, ...]:
    """Explicit pads of an ONNX convolution or pool.

    Raises:
        Unsupported: ``auto_pad`` depends on a size that is not known.
    """
    auto = source.attr("auto_pad", "NOTSET")
    if not len(sizes) == len(kernel) == len(strides) == len(dilations):
        raise Unsupported(f"{source.op_type} with attributes of another rank than its operands")
    if auto == "NOTSET":
        pads = source.attr("pads", (0,) * (2 * len(kernel)))
        return tuple(int(p) for p in pads)  # type: ignore[union-attr]
    begins, ends = [], []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        if auto == "VALID":
            total = 0
        elif isinstance(size, int) and isinstance(k, int) and isinstance(stride, int) and isinstance(dilation, int):
            total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        elif stride == 1 and isinstance(k, int) and isinstance(dilation, int):
            total = (k - 1) * dilation
        else:
            raise Unsupported(f"{source.op_type} with auto_pad={auto} on an axis of unknown size")
        small = total // 2
        begins.append(small if auto == "SAME_UPPER" else total - small)
        ends.append(total - begins[-1])
    return (*begins, *ends)


def random_pads(rng: Rng, spatial: int) -> tuple[int, ...]:
    """None, symmetric, or different on every side."""
    kind = rng.integers(3)
    if kind == 0:
        return (0,) * (2 * spatial)
    if kind == 1:
        return integers(rng, 0, 3, spatial) * 2
    return integers(rng, 0, 3, 2 * spatial)


def _random_group(rng: Rng, x: TensorType | None, w: TensorType | None, filters: Sequence[int]) -> int:
    if x and w:
        return x.numbers()[1] // w.numbers()[1] if w.numbers()[1] else 0
    if x:
        channels = x.numbers()[1]
        fits = [g for g in range(1, channels + 1) if channels % g == 0 and all(m % g == 0 for m in filters)]
        return fits[int(rng.integers(len(fits)))] if fits else 0
    fits = [g for g in (1, 2, 3) if all(m % g == 0 for m in filters)]
    return fits[int(rng.integers(len(fits)))]


OPERATORS = (Conv(), FusedConv())
