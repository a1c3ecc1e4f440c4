"""``Trilu``: one triangle of each matrix, zeros elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import NUMERIC, AttrValue, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample, distinct_shape, fitting, integer, require
from egraph_opt.ops.kinds import Array, Attrs, Rng, Types
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir


class Trilu(Operator):
    """What lies on and above (``upper`` 1) or on and below (0) the diagonal that is ``k`` to the right of the main one.

    ``numpy.triu`` and ``numpy.tril`` over the last two axes.
    """

    name = "Trilu"
    params = (Param("upper", "int"), Param("k", "int"))
    ring = "exact"
    min_opset = 14
    onnx_names = ("Trilu",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        require(types[0].dtype in NUMERIC | {"bool"} and types[0].rank >= 2, f"Trilu of {types[0]}")
        require(attrs[0] in (0, 1) and isinstance(attrs[1], int), f"Trilu with {attrs}")
        return types[0]

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        upper, k = (integer(a) for a in attrs)
        x = operands[0]
        lower = np.tri(x.shape[-2], x.shape[-1], k - 1 if upper else k, dtype=bool)
        return np.where(lower != bool(upper), x, np.zeros((), x.dtype))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        x = types[0] or TensorType("float64", distinct_shape(rng, int(rng.integers(2, 5))))
        drawn = int(rng.integers(2)), int(rng.integers(-2, 3))
        return fitting(self, [d if a is None else a for a, d in zip(attrs, drawn, strict=True)], (x,))

    def from_onnx(self, source: Source) -> int:
        (k,) = source.ints(1, "the diagonals") if source.has(1) else (0,)
        return source.apply(self.name, source.operand(0), upper=source.int_attr("upper", 1), k=k)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        upper, k = (integer(a) for a in low.attrs)
        return low.op(self.name, [*low.inputs, *([low.scalar(k, "int64")] if k else [])], upper=upper)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 0

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        return largest[0]


OPERATORS = (Trilu(),)
