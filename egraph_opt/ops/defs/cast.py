"""``Cast`` between number types, and ``Where``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import NUMERIC, AttrValue, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample, broadcast, distinct_shape, fitting, require
from egraph_opt.ops.draws import one_of
from egraph_opt.ops.kinds import Array, Attrs, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering, dtype_name, numpy_dtype, onnx_dtype
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir

_DTYPES = NUMERIC | {"bool"}


class Cast(Operator):
    """To another number type: floats are cut towards zero, everything but 0 is true, true is 1.

    What a number outside the range of an integer type becomes, ONNX leaves open.
    """

    name = "Cast"
    params = (Param("to"),)
    onnx_names = ("Cast", "CastLike")

    def infer(self, attrs: Attrs, types: Types) -> Type:
        to = attrs[0]
        require(to in _DTYPES and types[0].dtype in _DTYPES, f"Cast of {types[0].dtype} to {to}")
        return TensorType(str(to), types[0].shape)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        return operands[0].astype(numpy_dtype(str(attrs[0])))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        kinds = ("float32", "float64", "int32", "int64", "bool", "float16")
        to = one_of(rng, kinds) if attrs[0] is None else attrs[0]
        return fitting(self, (to,), (types[0] or TensorType(one_of(rng, kinds), distinct_shape(rng)),))

    def from_onnx(self, source: Source) -> int:
        if source.op_type == "CastLike":
            return source.apply("Cast", source.operand(0), to=source.type(1).dtype)
        import onnx_ir

        to = dtype_name(onnx_ir.DataType(source.int_attr("to", 0)))
        if to not in _DTYPES:
            raise Unsupported(f"Cast to {to}")
        return source.apply("Cast", source.operand(0), to=to)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        return low.op("Cast", low.inputs, to=int(onnx_dtype(str(low.attrs[0]))))

    def opset(self, attrs: Attrs, types: Types) -> int:
        return max(super().opset(attrs, types), 13 if attrs[0] == "bfloat16" else 9)


class Where(Operator):
    """``x`` where the condition is true, else ``y``; all three broadcast."""

    name = "Where"
    arity = (3, 3)
    ring = "exact"
    onnx_names = ("Where",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        condition, x, y = types
        require(condition.dtype == "bool", f"Where with a condition of {condition.dtype}")
        require(x.dtype == y.dtype, f"Where of {x.dtype} and {y.dtype}")
        return TensorType(x.dtype, broadcast([t.shape for t in types]))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        condition, x, y = operands
        return np.where(condition.astype(bool), x, y)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        known = [t.numbers() for t in types if t]
        try:
            shape = broadcast(known) if known else distinct_shape(rng)
        except ValueError:
            return None
        dtype = next((t.dtype for t in types[1:] if t), "float64")
        filled: list[TensorType] = []
        for i, t in enumerate(types):
            own = tuple(n if rng.random() < 0.7 else 1 for n in shape)
            if rng.random() < 0.2:
                own = own[int(rng.integers(len(own) + 1)) :]
            filled.append(t or TensorType("bool" if i == 0 else dtype, own))  # type: ignore[arg-type]
        return fitting(self, (), filled)

    def from_onnx(self, source: Source) -> int:
        return source.apply("Where", *(source.operand(i) for i in range(3)))


OPERATORS = (Cast(), Where())
