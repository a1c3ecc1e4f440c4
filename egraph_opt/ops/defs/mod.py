"""``Mod``: the remainder with the sign of the divisor, or of the dividend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from egraph_opt.ir import FLOATS, AttrValue, TensorType, Type
from egraph_opt.ops.base import Param, Sample, fitting, integer, require
from egraph_opt.ops.defs.elementwise import Binary
from egraph_opt.ops.kinds import Array, Attrs, Rng, Types
from egraph_opt.ops.source import Source


class Mod(Binary):
    """``x - floor(x / y) * y``, or with ``fmod`` C's function; floats take only that. By 0 it is undefined."""

    params = (Param("fmod", "int"),)
    min_opset = 10

    def __init__(self) -> None:
        super().__init__("Mod", np.fmod, weight=2)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        fmod = integer(attrs[0])
        require(fmod in (0, 1), "fmod is 0 or 1")
        require(fmod == 1 or types[0].dtype not in FLOATS, "Mod of floats without fmod")
        return super().infer(attrs, types)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x, y = operands
        if x.dtype.kind in "iu":
            y = np.where(y == 0, np.ones_like(y), y)
        return np.asarray(np.fmod(x, y) if attrs[0] else np.mod(x, y)).astype(x.dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        found = _SHAPES.complete(rng, (), types)
        if found is None:
            return None
        fmod = int(found.types[0].dtype in FLOATS or rng.random() < 0.5) if attrs[0] is None else attrs[0]
        return fitting(self, (fmod,), found.types)

    def from_onnx(self, source: Source) -> int:
        return source.apply("Mod", source.operand(0), source.operand(1), fmod=source.int_attr("fmod", 0))


_SHAPES = Binary("Mod", np.fmod)  # chooses the operands
OPERATORS = (Mod(),)
