"""Matrix products: ``MatMul`` of any rank and ``Gemm``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from egraph_opt.ir import FLOATS, AttrValue, Size, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample, broadcast, distinct_shape, fitting, integer, require, wide
from egraph_opt.ops.draws import one_of, shuffled
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types
from egraph_opt.ops.source import Source

_DTYPES = FLOATS | {"int32", "int64", "uint32", "uint64"}


class MatMul(Operator):
    """``a @ b`` as in NumPy: batch axes broadcast, operands of rank 1 are a row and a column that vanish."""

    name = "MatMul"
    arity = (2, 2)
    ring = "exact"
    onnx_names = ("MatMul",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        a, b = types
        require(a.dtype == b.dtype and a.dtype in _DTYPES, f"MatMul of {a.dtype} by {b.dtype}")
        require(a.rank >= 1 and b.rank >= 1, "MatMul of a scalar")
        inner = b.shape[-2] if b.rank > 1 else b.shape[0]
        if a.shape[-1] != inner:
            raise IllTyped(f"MatMul of {a} by {b}")
        batch = broadcast([a.shape[:-2], b.shape[:-2]])
        rows: tuple[Size, ...] = a.shape[-2:-1] if a.rank > 1 else ()
        columns: tuple[Size, ...] = b.shape[-1:] if b.rank > 1 else ()
        return TensorType(a.dtype, (*batch, *rows, *columns))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        a, b = operands
        return np.asarray(np.matmul(wide(a), wide(b))).astype(a.dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        a, b = types
        dtype = next((t.dtype for t in (a, b) if t), "float64")
        if a is None and b is None:
            a = TensorType(dtype, distinct_shape(rng))
        if a is not None and a.rank and b is None:
            b = TensorType(dtype, _partner(rng, a.numbers(), left=False))
        elif b is not None and b.rank and a is None:
            a = TensorType(dtype, _partner(rng, b.numbers(), left=True))
        return fitting(self, (), (a, b)) if a and b else None

    def from_onnx(self, source: Source) -> int:
        return source.apply("MatMul", source.operand(0), source.operand(1))

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        assert isinstance(result, TensorType)
        return 2 * math.prod(result.numbers()) * types[0].numbers()[-1]

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        return types[0].numbers()[-1] * largest[0] * largest[1]


def _partner(rng: Rng, shape: tuple[int, ...], left: bool) -> tuple[int, ...]:
    """The shape of a matrix that multiplies ``shape`` from the left or the right; batch axes equal, dropped or 1."""
    free = int(rng.integers(1, 7))
    if left:
        inner = shape[-2:][0]
        own = (inner,) if rng.random() < 0.15 else (free, inner)
    else:
        own = (shape[-1],) if rng.random() < 0.15 else (shape[-1], free)
    if len(own) == 1 or rng.random() < 0.4:
        return own
    batch = tuple(n if rng.random() < 0.7 else 1 for n in shape[:-2])
    extra = (int(rng.integers(2, 4)),) if rng.random() < 0.15 else ()
    return (*extra, *batch, *own)


class Gemm(Operator):
    """``alpha * op(a) @ op(b) + beta * c`` on matrices; c (optional) broadcasts to the product, never the other way.

    Integer operands need integral ``alpha`` and ``beta``: what a fraction of an integer is, ONNX does not say.
    """

    name = "Gemm"
    params = (*(Param(p, "int") for p in ("transA", "transB")), *(Param(p, single=True) for p in ("alpha", "beta")))
    arity = (2, 3)
    ring = "exact"
    onnx_names = ("Gemm",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        trans_a, trans_b, alpha, beta = attrs
        a, b = types[0], types[1]
        require(all(t.dtype == a.dtype for t in types) and a.dtype in _DTYPES, f"Gemm of {[t.dtype for t in types]}")
        require(trans_a in (0, 1) and trans_b in (0, 1), "transA and transB of Gemm are 0 or 1")
        require(a.dtype in FLOATS or all(_integral(v) for v in (alpha, beta)), "Gemm of integers times a fraction")
        require(a.rank == b.rank == 2, f"Gemm of {a} by {b}")
        rows, inner = a.shape if not trans_a else a.shape[::-1]
        other, columns = b.shape if not trans_b else b.shape[::-1]
        require(inner == other, f"Gemm of {a} by {b}")
        if len(types) == 3:
            require(broadcast([(rows, columns), types[2].shape]) == (rows, columns), f"{types[2]} added by Gemm")
        return TensorType(a.dtype, (rows, columns))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        trans_a, trans_b, alpha, beta = attrs
        a, b = wide(operands[0]), wide(operands[1])
        y = _times(alpha, np.matmul(a.T if trans_a else a, b.T if trans_b else b))
        if len(operands) == 3:
            y = y + _times(beta, wide(operands[2]))
        return np.asarray(y).astype(operands[0].dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        a, b, c = (*types, None)[:3]
        trans_a, trans_b = (int(rng.integers(2)) if v is None else integer(v) for v in attrs[:2])
        scales = [float(one_of(rng, (1, 2, -1, 3))) if v is None else float(str(v)) for v in attrs[2:]]
        rows, inner, columns = shuffled(rng, range(1, 7))[:3]
        if any(t is not None and t.rank != 2 for t in (a, b)) or (c is not None and c.rank > 2):
            return None
        if c is not None and c.rank:  # a dimension of c that is 1 broadcasts to anything
            sizes = (1, 1, *c.numbers())[-2:]
            rows, columns = (own if given == 1 else given for own, given in zip((rows, columns), sizes, strict=True))
        if b is not None:
            inner, columns = b.numbers()[::-1] if trans_b else b.numbers()
        if a is not None:
            rows, inner = a.numbers()[::-1] if trans_a else a.numbers()
        dtype = next((t.dtype for t in (a, b, c) if t), "float64")
        a = a or TensorType(dtype, (inner, rows) if trans_a else (rows, inner))
        b = b or TensorType(dtype, (columns, inner) if trans_b else (inner, columns))
        bias = ((rows, columns), (columns,), (rows, 1), (1, columns), (1,), ())[int(rng.integers(6))]
        rest = (c or TensorType(dtype, bias),) if len(types) == 3 else ()
        return fitting(self, (trans_a, trans_b, *scales), (a, b, *rest))

    def from_onnx(self, source: Source) -> int:
        operands = [source.operand(i) for i in range(3) if i < 2 or source.has(i)]
        flags = {name: int(bool(source.int_attr(name, 0))) for name in ("transA", "transB")}
        return source.apply("Gemm", *operands, **flags, alpha=source.attr("alpha", 1.0), beta=source.attr("beta", 1.0))

    def opset(self, attrs: Attrs, types: Types) -> int:
        return max(super().opset(attrs, types), 11 if len(types) == 2 else 9)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        assert isinstance(result, TensorType)
        return 2 * math.prod(types[0].numbers()) * result.numbers()[1]

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        trans_a, _, alpha, beta = attrs
        inner = types[0].numbers()[0 if trans_a else 1]
        bias = abs(float(str(beta))) * largest[2] if len(largest) == 3 else 0.0
        return abs(float(str(alpha))) * inner * largest[0] * largest[1] + bias


def _integral(value: AttrValue) -> bool:
    return isinstance(value, int | float) and float(value).is_integer()


def _times(scale: AttrValue, x: Array) -> Array:
    assert isinstance(scale, int | float)
    if scale == 1:
        return x
    whole = x.dtype.kind in "iu"
    return x * np.asarray(int(scale) if whole else scale).astype(x.dtype)  # a negative factor wraps like the products


OPERATORS = (MatMul(), Gemm())
