"""``Attention`` without a mask operand: products of queries and keys, their softmax, and its product with values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import FLOATS, AttrValue, Size, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample, fitting, integer, require, wide
from egraph_opt.ops.draws import one_of, shuffled
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir

_LEFT_OUT = {3: "a mask", 4: "past keys", 5: "past values", 6: "lengths of keys"}


class Attention(Operator):
    """``softmax(scale * q @ k.T) @ v``, per batch and head; heads of queries may share those of keys and values.

    Operands of rank 4 are (batch, heads, length, size), and then both numbers of heads are 0; those of rank 3 are
    (batch, length, heads * size). ``is_causal``: query i looks at keys 0 to i; there are as many keys as queries.
    """

    name = "Attention"
    params = (*(Param(p, "int") for p in ("q_num_heads", "kv_num_heads", "is_causal")), Param("scale", single=True))
    arity = (3, 3)
    min_opset = 23
    onnx_names = ("Attention",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        causal, scale = attrs[2:]
        q, k, v = (_split(t, h) for t, h in zip(types, _heads(attrs), strict=True))
        dtype = types[0].dtype
        require(dtype in FLOATS and all(t.dtype == dtype for t in types), f"Attention of {types}")
        require(causal in (0, 1) and isinstance(scale, float) and scale > 0, f"Attention with {attrs}")
        require(q[0] == k[0] == v[0] and k[1:3] == v[1:3] and q[3] == k[3], f"Attention of {types}")
        require(not causal or q[2] == k[2], "causal Attention with more keys than queries, or fewer")
        grouped = isinstance(q[1], int) and isinstance(k[1], int) and k[1] > 0 and q[1] % k[1] == 0
        require(q[1] == k[1] or grouped, f"{q[1]} heads of queries for {k[1]} of keys")
        require(0 not in (q[3], k[2]), "Attention to nothing")
        shape = (*q[:3], v[3])
        if types[0].rank == 4:
            return TensorType(dtype, shape)
        return TensorType(dtype, (q[0], q[2], q[1] * v[3]))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        q, k, v = (_parted(wide(x), h) for x, h in zip(operands, _heads(attrs), strict=True))
        assert isinstance(attrs[3], float)
        root = q.dtype.type(math.sqrt(attrs[3]))
        repeats = q.shape[1] // k.shape[1]
        k, v = (np.repeat(x, repeats, axis=1) for x in (k, v))
        scores = np.matmul(q * root, np.swapaxes(k * root, 2, 3))
        if attrs[2]:
            scores = scores + np.triu(np.full(scores.shape[2:], -np.inf, scores.dtype), 1)
        weights = np.exp(scores - scores.max(axis=3, keepdims=True))
        y = np.matmul(weights / weights.sum(axis=3, keepdims=True), v)
        if operands[0].ndim == 3:
            y = np.swapaxes(y, 1, 2).reshape(*operands[0].shape[:2], -1)
        return np.asarray(y).astype(operands[0].dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        given = next((t for t in types if t), None)
        q_heads, kv_heads, causal, scale = attrs
        causal = int(rng.integers(2)) if causal is None else causal
        scale = float(np.float32(one_of(rng, (1.0, 0.5, 0.125)))) if scale is None else scale
        in_heads = bool(rng.integers(2)) if q_heads is None and kv_heads is None else bool(q_heads or kv_heads)
        if given is not None:
            in_heads = given.rank == 3
        batch, length, keys, size, values, shared = shuffled(rng, range(1, 7))
        if in_heads:
            kv_heads = int(rng.integers(1, 4)) if not kv_heads else integer(kv_heads)
            q_heads = kv_heads * (1 + shared % 2) if not q_heads else integer(q_heads)
            heads, groups = q_heads, kv_heads
        else:
            q_heads, kv_heads, groups = 0, 0, int(rng.integers(1, 4))
            heads = groups * (1 + shared % 2)
        keys = length if causal else keys
        q, k, v = (_seen(t, n) for t, n in zip(types, (q_heads, kv_heads, kv_heads), strict=True))
        batch = next((t[0] for t in (q, k, v) if t), batch)
        size = next((t[3] for t in (q, k) if t), size)
        keys = next((t[2] for t in (k, v) if t), q[2] if q and causal else keys)
        length = q[2] if q else keys if causal else length
        if not in_heads:
            groups = next((t[1] for t in (k, v) if t), q[1] if q and q[1] % groups else groups)
            heads = q[1] if q else groups * (1 + shared % 2)
        values = v[3] if v else values
        shapes = [(batch, heads, length, size), (batch, groups, keys, size), (batch, groups, keys, values)]
        if in_heads:
            shapes = [(b, n, h * s) for b, h, n, s in shapes]
        dtype = given.dtype if given else "float64"
        drawn = [t or TensorType(dtype, s) for t, s in zip(types, shapes, strict=True)]
        return fitting(self, (q_heads, kv_heads, causal, scale), drawn)

    def from_onnx(self, source: Source) -> int:
        for index, what in _LEFT_OUT.items():
            if source.has(index):
                raise Unsupported(f"Attention with {what}")
        source.only_output("its keys, values or scores are used")
        if source.attr("softcap", 0.0) or source.attr("softmax_precision"):
            raise Unsupported("Attention with a softcap or another precision of the softmax")
        q_heads, kv_heads = (source.int_attr(name, 0) for name in ("q_num_heads", "kv_num_heads"))
        if source.type(0).rank == 4:  # then the heads are an axis, and the numbers say nothing
            q_heads = kv_heads = 0
        scale = source.attr("scale")
        try:
            size = _split(source.type(0), q_heads)[3]
        except IllTyped as error:
            raise Unsupported(f"Attention: {error}") from None
        if scale is None:
            if not isinstance(size, int) or size < 1:
                raise Unsupported("Attention whose scale depends on a size that is not known")
            scale = float(np.float32(1 / math.sqrt(size)))
        return source.apply(
            self.name,
            *(source.operand(i) for i in range(3)),
            q_num_heads=q_heads,
            kv_num_heads=kv_heads,
            is_causal=source.int_attr("is_causal", 0),
            scale=scale,
        )

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        q_heads, kv_heads, causal, scale = low.attrs
        return low.op(
            self.name,
            low.inputs,
            q_num_heads=q_heads or None,
            kv_num_heads=kv_heads or None,
            is_causal=causal or None,
            scale=scale,
        )

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        q, k, v = ([integer(n) for n in _split(t, h)] for t, h in zip(types, _heads(attrs), strict=True))
        return math.prod(q[:3]) * k[2] * (2 * q[3] + 2 * v[3] + 4)


def _heads(attrs: Attrs) -> tuple[int, int, int]:
    """The number of heads of each operand; 0 where they are an axis."""
    return integer(attrs[0]), integer(attrs[1]), integer(attrs[1])


def _split(type_: TensorType, heads: int) -> tuple[Size, Size, Size, Size]:
    """(batch, heads, length, size) of an operand.

    Raises:
        IllTyped: its rank is neither 3 nor 4, or its last axis is no whole number of heads.
    """
    if heads == 0:
        require(type_.rank == 4, f"Attention without numbers of heads of {type_}")
        return type_.shape  # type: ignore[return-value]
    require(type_.rank == 3, f"Attention by {heads} heads of {type_}")
    batch, length, hidden = type_.shape
    if not isinstance(hidden, int) or heads < 0 or hidden % heads:
        raise IllTyped(f"{hidden} elements in {heads} heads")
    return batch, heads, length, hidden // heads


def _seen(type_: TensorType | None, heads: int) -> tuple[int, ...]:
    """The four numbers of a type, for the operands that are to fit it; none where they are not known."""
    try:
        sizes = _split(type_, heads) if type_ else ()
    except IllTyped:
        return ()
    numbers = tuple(n for n in sizes if isinstance(n, int))
    return numbers if len(numbers) == len(sizes) else ()


def _parted(x: Array, heads: int) -> Array:
    """``x`` as (batch, heads, length, size)."""
    return x if heads == 0 else np.swapaxes(x.reshape(*x.shape[:2], heads, -1), 1, 2)


OPERATORS = (Attention(),)
