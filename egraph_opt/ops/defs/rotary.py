"""``RotaryEmbedding`` with a cosine and a sine for each place: pairs of elements turned by an angle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import FLOATS, AttrValue, Size, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample, fitting, integer, require, wide
from egraph_opt.ops.draws import shuffled
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir


class RotaryEmbedding(Operator):
    """Each pair (a, b) becomes (a cos - b sin, a sin + b cos), with cosines and sines of (batch, length, size / 2).

    The first operand is (batch, heads, length, size), and then ``num_heads`` is 0, or (batch, length, heads * size).
    Pairs are an element of the first half and one of the second, or neighbours if ``interleaved``.
    """

    name = "RotaryEmbedding"
    params = (Param("num_heads", "int"), Param("interleaved", "int"))
    arity = (3, 3)
    ring = "exact"
    min_opset = 23
    onnx_names = ("RotaryEmbedding",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        x, cosines, sines = types
        batch, length, size = _sizes(x, integer(attrs[0]))
        require(attrs[1] in (0, 1), f"RotaryEmbedding with {attrs}")
        require(x.dtype in FLOATS and all(t.dtype == x.dtype for t in types), f"RotaryEmbedding of {types}")
        require(isinstance(size, int) and size > 0 and size % 2 == 0, f"RotaryEmbedding of {size} elements")
        half = size // 2 if isinstance(size, int) else size
        require(cosines.shape == sines.shape == (batch, length, half), f"RotaryEmbedding of {types}")
        return x

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        heads, interleaved = (integer(a) for a in attrs)
        given = operands[0]
        x, cosines, sines = (wide(o) for o in operands)
        if heads:
            x = np.swapaxes(x.reshape(*x.shape[:2], heads, -1), 1, 2)
        half = x.shape[3] // 2
        first, second = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
        cosines, sines = cosines[:, None], sines[:, None]
        pairs = (first * cosines - second * sines, first * sines + second * cosines)
        y = np.stack(pairs, axis=-1).reshape(x.shape) if interleaved else np.concatenate(pairs, axis=-1)
        y = np.swapaxes(y, 1, 2).reshape(given.shape) if heads else y
        return np.asarray(y).astype(given.dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        x, cosines = types[0], types[1] or types[2]
        batch, length, half, heads = shuffled(rng, range(1, 6))[:4]
        if cosines is not None and cosines.rank == 3:
            batch, length, half = cosines.numbers()
        given = (heads if rng.random() < 0.5 else 0) if attrs[0] is None else integer(attrs[0])
        if x is not None:
            given = 0 if x.rank == 4 else (given or 1)
            try:
                batch, length, size = (integer(n) for n in _sizes(x, given))
            except IllTyped:
                return None
            half = size // 2
        shape = (batch, length, given * 2 * half) if given else (batch, heads, length, 2 * half)
        dtype = next((t.dtype for t in types if t), "float64")
        angles = TensorType(dtype, (batch, length, half))
        interleaved = int(rng.integers(2)) if attrs[1] is None else attrs[1]
        x = x or TensorType(dtype, shape)
        return fitting(self, (given, interleaved), (x, *(t or angles for t in types[1:])))

    def from_onnx(self, source: Source) -> int:
        if source.has(3):
            raise Unsupported("RotaryEmbedding with places of their own")
        heads = 0 if source.type(0).rank == 4 else source.int_attr("num_heads", 0)
        try:
            size = _sizes(source.type(0), heads)[2]
        except IllTyped as error:
            raise Unsupported(f"RotaryEmbedding: {error}") from None
        if source.int_attr("rotary_embedding_dim", 0) not in (0, size):
            raise Unsupported("RotaryEmbedding of some of the elements")
        interleaved = source.int_attr("interleaved", 0)
        operands = (source.operand(i) for i in range(3))
        return source.apply(self.name, *operands, num_heads=heads, interleaved=interleaved)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        heads, interleaved = low.attrs
        return low.op(self.name, low.inputs, num_heads=heads or None, interleaved=interleaved or None)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 3 * math.prod(types[0].numbers())

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        return 2 * largest[0] * max(largest[1:])


def _sizes(type_: TensorType, heads: int) -> tuple[Size, Size, Size]:
    """Batch, length, and size of a head.

    Raises:
        IllTyped: the rank is neither 3 nor 4, or the last axis is no whole number of heads.
    """
    if heads == 0:
        require(type_.rank == 4, f"RotaryEmbedding without a number of heads of {type_}")
        return type_.shape[0], type_.shape[2], type_.shape[3]
    require(type_.rank == 3, f"RotaryEmbedding by {heads} heads of {type_}")
    batch, length, hidden = type_.shape
    if not isinstance(hidden, int) or heads < 0 or hidden % heads:
        raise IllTyped(f"{hidden} elements in {heads} heads")
    return batch, length, hidden // heads


OPERATORS = (RotaryEmbedding(),)
