"""``ConvTranspose``: the convolution that scatters instead of gathering.

Operands: x (N, C, *spatial), w (C, M/group, *kernel), optionally b (M). Pads are explicit and crop the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import FLOATS, AttrValue, Size, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample, fitting, integer, ints, require, wide
from egraph_opt.ops.defs.conv import written_kernel
from egraph_opt.ops.draws import integers, one_of
from egraph_opt.ops.kinds import Array, Attrs, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir


class ConvTranspose(Operator):
    """ONNX ``ConvTranspose`` in 1 to 3 spatial dimensions, grouped, strided and dilated."""

    name = "ConvTranspose"
    params = (
        Param("strides"),
        Param("pads"),
        Param("dilations"),
        Param("output_padding"),
        Param("group", "int"),
    )
    arity = (2, 3)
    ring = "exact"
    onnx_names = ("ConvTranspose",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        strides, pads, dilations, extra = (ints(a) for a in attrs[:4])
        group, x, w = integer(attrs[4]), types[0], types[1]
        spatial = x.rank - 2
        require(x.dtype in FLOATS and w.dtype == x.dtype, f"ConvTranspose of {x.dtype} by {w.dtype}")
        require(spatial >= 1 and w.rank == x.rank, f"ConvTranspose of rank {x.rank} by rank {w.rank}")
        require(
            len(strides) == len(dilations) == len(extra) == spatial and len(pads) == 2 * spatial,
            "ConvTranspose attributes of another rank",
        )
        require(min(strides) >= 1 and min(dilations) >= 1 and min(pads) >= 0, "ConvTranspose attributes out of range")
        fits = all(0 <= e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True))
        require(fits, f"output_padding {extra} is not below the stride or the dilation")
        channels = w.shape[0]
        require(
            isinstance(channels, int) and group >= 1 and channels % group == 0, f"{channels} channels, {group} groups"
        )
        require(x.shape[1] == channels, f"ConvTranspose of {x} by {w}")
        outputs = w.shape[1] * group
        if len(types) == 3:
            require(types[2] == TensorType(x.dtype, (outputs,)), f"the bias of ConvTranspose is {types[2]}")
        sizes: list[Size] = []
        for i in range(spatial):
            whole = (x.shape[2 + i] - 1) * strides[i] + extra[i] + (w.shape[2 + i] - 1) * dilations[i] + 1
            size = whole - pads[i] - pads[i + spatial]
            require(not isinstance(size, int) or size > 0, f"ConvTranspose crops everything of {x}")
            require(x.shape[2 + i] != 0, "ConvTranspose of nothing")
            sizes.append(size)
        return TensorType(x.dtype, (x.shape[0], outputs, *sizes))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        strides, pads, dilations, extra = (ints(a) for a in attrs[:4])
        group, x, w = integer(attrs[4]), wide(operands[0]), wide(operands[1])
        n, kernel = x.shape[0], w.shape[2:]
        spatial = len(kernel)
        outputs = w.shape[1] * group
        spans = [
            (x.shape[2 + i] - 1) * strides[i] + extra[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(spatial)
        ]
        y = np.zeros((n, outputs, *spans), x.dtype)
        grouped = x.reshape(n, group, x.shape[1] // group, *x.shape[2:])
        weights = w.reshape(group, w.shape[0] // group, *w.shape[1:])
        for place in np.ndindex(*kernel):
            part = np.einsum("ngc...,gcm->ngm...", grouped, weights[(slice(None), slice(None), slice(None), *place)])
            starts = [place[i] * dilations[i] for i in range(spatial)]
            target = tuple(
                slice(s, s + (x.shape[2 + i] - 1) * strides[i] + 1, strides[i]) for i, s in enumerate(starts)
            )
            y[(slice(None), slice(None), *target)] += part.reshape(n, outputs, *x.shape[2:])
        y = y[(slice(None), slice(None), *(slice(pads[i], s - pads[i + spatial]) for i, s in enumerate(spans)))]
        if len(operands) == 3:
            y = y + wide(operands[2]).reshape(1, -1, *[1] * spatial)
        return y.astype(operands[0].dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        x, w, b = (*types, None)[:3]
        given = next((len(ints(attrs[i])) for i in (0, 2, 3) if attrs[i] is not None), None)
        spatial = next((t.rank - 2 for t in (x, w) if t), given or int(rng.integers(1, 3)))
        if spatial < 1:
            return None
        channels = x.numbers()[1] if x else w.numbers()[0] if w else None
        fits = [g for g in (1, 2, 3) if (channels or g) % g == 0 and (b is None or b.numbers()[0] % g == 0)]
        group = one_of(rng, fits) if attrs[4] is None else integer(attrs[4])
        channels = channels or group * int(rng.integers(1, 4))
        filters = b.numbers()[0] // group if b and group else int(rng.integers(1, 4))
        dtype = next((t.dtype for t in (x, w, b) if t), "float64")
        w = w or TensorType(dtype, (channels, filters, *integers(rng, 1, 4, spatial)))
        x = x or TensorType(dtype, (int(rng.integers(1, 3)), channels, *integers(rng, 2, 6, spatial)))
        strides = integers(rng, 1, 4, spatial) if attrs[0] is None else ints(attrs[0])
        dilations = integers(rng, 1, 3, spatial) if attrs[2] is None else ints(attrs[2])
        pads = integers(rng, 0, 2, 2 * spatial) if attrs[1] is None else attrs[1]
        extra = tuple(int(rng.integers(0, s)) for s in strides) if attrs[3] is None else attrs[3]
        bias = (b or TensorType(dtype, (w.numbers()[1] * group,)),) if len(types) == 3 else ()
        return fitting(self, (strides, pads, dilations, extra, group), (x, w, *bias))

    def from_onnx(self, source: Source) -> int:
        kernel = source.type(1).shape[2:]
        ones = (1,) * len(kernel)
        strides = source.ints_attr("strides") or ones
        dilations = source.ints_attr("dilations") or ones
        extra = source.ints_attr("output_padding") or (0,) * len(kernel)
        operands = [source.operand(i) for i in range(3) if i < 2 or source.has(i)]
        return source.apply(
            "ConvTranspose",
            *operands,
            strides=strides,
            pads=_pads(source, kernel, strides, dilations, extra),
            dilations=dilations,
            output_padding=extra,
            group=source.int_attr("group", 1),
        )

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        attributes = {p.name: value for p, value in zip(self.params, low.attrs, strict=True)}
        return low.op("ConvTranspose", low.inputs, kernel_shape=written_kernel(low), **attributes)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 2 * math.prod(types[0].numbers()) * math.prod(types[1].numbers()[1:])


def _pads(
    source: Source, kernel: Sequence[Size], strides: Sequence[int], dilations: Sequence[int], extra: Sequence[int]
) -> tuple[int, ...]:
    """Explicit pads: as given, or so that the result has ``output_shape`` or, for SAME, strides times the operand."""
    auto, wanted = source.attr("auto_pad", "NOTSET"), source.ints_attr("output_shape")
    if not wanted and auto in ("NOTSET", "VALID"):
        return source.ints_attr("pads") or (0,) * (2 * len(kernel)) if auto == "NOTSET" else (0,) * (2 * len(kernel))
    spatial = source.type(0).shape[2:]
    begins, ends = [], []
    for i, size in enumerate(spatial):
        whole = (size - 1) * strides[i] + extra[i] + (kernel[i] - 1) * dilations[i] + 1
        total = whole - (wanted[i - len(spatial)] if wanted else size * strides[i])
        if not isinstance(total, int):
            raise Unsupported("ConvTranspose with output_shape on an axis of unknown size")
        if total < 0:
            raise Unsupported("ConvTranspose whose output_shape needs negative pads")
        half = total // 2
        begins.append(half if auto == "SAME_UPPER" else total - half)
        ends.append(total - begins[-1])
    return (*begins, *ends)


OPERATORS = (ConvTranspose(),)
