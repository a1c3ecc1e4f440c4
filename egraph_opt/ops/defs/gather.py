"""Selection by index tensors: Gather and GatherElements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample, distinct_shape, fitting, integer, require
from egraph_opt.ops.draws import one_of
from egraph_opt.ops.kinds import Array, Attrs, Rng, Types
from egraph_opt.ops.source import Source

_INDICES = ("int32", "int64")


class GatherBase(Operator):
    """What both share: data, indices that may count from the end, and ``axis`` counted from the front."""

    params = (Param("axis", "int"),)
    arity = (2, 2)
    ring = "exact"
    rearranges = True
    indices = (1,)

    def limits(self, attrs: Attrs, types: Types) -> tuple[tuple[int, int] | None, ...]:
        """Indices reach from ``-n`` to ``n - 1``."""
        size = types[0].numbers()[integer(attrs[0])]
        return None, (-size, size - 1)

    def from_onnx(self, source: Source) -> int:
        axis = source.axis(source.int_attr("axis", 0), source.type(0).rank)
        return source.apply(self.name, source.operand(0), source.operand(1), axis=axis)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 0


class Gather(GatherBase):
    """``numpy.take``: the axis is replaced by the axes of the indices (none for a scalar index)."""

    name = "Gather"
    onnx_names = ("Gather",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        axis, (data, indices) = integer(attrs[0]), types
        require(indices.dtype in _INDICES, f"Gather by {indices.dtype}")
        require(0 <= axis < data.rank, f"Gather from axis {axis} of {data}")
        return TensorType(data.dtype, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        data, indices = operands
        return np.asarray(np.take(data, indices.astype(np.int64), axis=integer(attrs[0])))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        least = 1 if attrs[0] is None else integer(attrs[0]) + 1
        data = types[0] or TensorType("float64", distinct_shape(rng, max(least, int(rng.integers(1, 4)))))
        if data.rank == 0:
            return None
        axis = int(rng.integers(data.rank)) if attrs[0] is None else attrs[0]
        indices = types[1] or TensorType(one_of(rng, _INDICES), distinct_shape(rng, int(rng.integers(0, 4))))
        return fitting(self, (axis,), (data, indices))


class GatherElements(GatherBase):
    """``numpy.take_along_axis``: one index per element of the result, which has the shape of the indices."""

    name = "GatherElements"
    min_opset = 11
    onnx_names = ("GatherElements",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        axis, (data, indices) = integer(attrs[0]), types
        require(indices.dtype in _INDICES, f"GatherElements by {indices.dtype}")
        require(data.rank == indices.rank and 0 <= axis < data.rank, f"GatherElements from {data} by {indices}")
        for i, (size, count) in enumerate(zip(data.shape, indices.shape, strict=True)):
            inside = size == count or (isinstance(size, int) and isinstance(count, int) and count <= size)
            require(i == axis or inside, f"GatherElements from {data} by {indices}")
        return TensorType(data.dtype, indices.shape)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        (data, indices), axis = operands, integer(attrs[0])
        cut = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))
        return np.take_along_axis(data[cut], indices.astype(np.int64), axis=axis)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        rank = next((t.rank for t in types if t), None)
        least = 1 if attrs[0] is None else integer(attrs[0]) + 1
        rank = max(least, int(rng.integers(1, 4))) if rank is None else rank
        if rank == 0:
            return None
        axis = int(rng.integers(rank)) if attrs[0] is None else integer(attrs[0])
        shape = types[1].numbers() if types[1] else distinct_shape(rng, rank)
        data = types[0] or TensorType("float64", tuple(n + int(rng.integers(0, 2)) for n in shape))
        free = [
            int(rng.integers(1, 5)) if i == axis else int(rng.integers(1, n + 1)) for i, n in enumerate(data.numbers())
        ]
        indices = types[1] or TensorType(one_of(rng, _INDICES), tuple(free))
        return fitting(self, (axis,), (data, indices))


OPERATORS = (Gather(), GatherElements())
