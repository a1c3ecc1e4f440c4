"""Operators that only move or repeat elements: Transpose, Concat, Split, Expand, Tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import AttrValue, Size, TensorType, TupleType, Type
from egraph_opt.ops.base import (
    Operator,
    Param,
    Sample,
    broadcast,
    distinct_shape,
    fitting,
    integer,
    ints,
    require,
    sizes,
)
from egraph_opt.ops.draws import integers, shuffled
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir


class Mover(Operator):
    """Moves elements, computes nothing."""

    ring = "exact"
    rearranges = True

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 0


class Transpose(Mover):
    """Axis ``i`` of the result is axis ``perm[i]`` of the operand."""

    name = "Transpose"
    params = (Param("perm"),)
    onnx_names = ("Transpose",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        x, perm = types[0], ints(attrs[0])
        if sorted(perm) != list(range(x.rank)):
            raise IllTyped(f"perm {perm} does not order the {x.rank} axes")
        return TensorType(x.dtype, tuple(x.shape[axis] for axis in perm))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        return operands[0].transpose(ints(attrs[0]))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        rank = types[0].rank if types[0] else len(ints(attrs[0])) if attrs[0] is not None else int(rng.integers(1, 5))
        perm = tuple(shuffled(rng, range(rank))) if attrs[0] is None else attrs[0]
        return fitting(self, (perm,), (types[0] or TensorType("float64", distinct_shape(rng, rank)),))

    def from_onnx(self, source: Source) -> int:
        perm = source.ints_attr("perm")
        if not perm:
            perm = tuple(reversed(range(source.type(0).rank)))
        return source.apply("Transpose", source.operand(0), perm=perm)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        return low.op("Transpose", low.inputs, perm=low.attrs[0] or None)


class Concat(Mover):
    """The operands one after another along ``axis`` (counted from the front)."""

    name = "Concat"
    params = (Param("axis", "int"),)
    arity = (1, None)
    alike = True
    onnx_names = ("Concat",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        axis, first = integer(attrs[0]), types[0]
        before, after = first.shape[:axis], first.shape[axis + 1 :]
        if not 0 <= axis < first.rank:
            raise IllTyped(f"Concat along axis {axis} of {first}")
        total: Size = 0
        for t in types:
            fits = t.rank == first.rank and t.shape[:axis] == before and t.shape[axis + 1 :] == after
            if not fits or t.dtype != first.dtype:
                raise IllTyped(f"Concat of {first} and {t} along axis {axis}")
            total = total + t.shape[axis]
        return TensorType(first.dtype, (*before, total, *after))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        return np.concatenate(operands, axis=integer(attrs[0]))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        known = next((t for t in types if t), None)
        least = 1 if attrs[0] is None else integer(attrs[0]) + 1
        base = known or TensorType("float64", distinct_shape(rng, max(least, int(rng.integers(1, 5)))))
        if base.rank == 0:
            return None
        axis = int(rng.integers(base.rank)) if attrs[0] is None else integer(attrs[0])
        filled = [
            t or TensorType(base.dtype, (*base.shape[:axis], int(rng.integers(1, 6)), *base.shape[axis + 1 :]))
            for t in types
        ]
        return fitting(self, (axis,), filled)

    def from_onnx(self, source: Source) -> int:
        axis = source.axis(source.int_attr("axis", 1), source.type(0).rank)
        return source.apply("Concat", *(source.operand(i) for i in range(len(source.operands))), axis=axis)


class Split(Mover):
    """Consecutive pieces of ``sizes`` along ``axis``; the sizes are numbers and add up to the axis."""

    name = "Split"
    params = (Param("axis", "int"), Param("sizes"))
    outputs = None
    onnx_names = ("Split",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        axis, pieces, x = integer(attrs[0]), ints(attrs[1]), types[0]
        if not pieces or min(pieces) < 0:
            raise IllTyped(f"Split into {pieces}")
        if not 0 <= axis < x.rank or sum(pieces) != x.shape[axis]:
            raise IllTyped(f"Split of {x} along axis {axis} into {pieces}")
        shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in pieces]
        return TupleType(tuple(TensorType(x.dtype, shape) for shape in shapes))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> tuple[Array, ...]:
        cuts = [int(c) for c in np.cumsum(ints(attrs[1]))[:-1]]
        return tuple(np.split(operands[0], cuts, axis=integer(attrs[0])))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        least = 1 if attrs[0] is None else integer(attrs[0]) + 1
        shape = types[0].numbers() if types[0] else distinct_shape(rng, max(least, int(rng.integers(1, 5))))
        if not shape:
            return None
        axis = int(rng.integers(len(shape))) if attrs[0] is None else integer(attrs[0])
        if axis >= len(shape):
            return None
        pieces = ints(attrs[1]) if attrs[1] is not None else _pieces(rng, shape[axis], types[0] is None)
        x = types[0] or TensorType("float64", (*shape[:axis], sum(pieces), *shape[axis + 1 :]))
        return fitting(self, (axis, pieces), (x,))

    def from_onnx(self, source: Source) -> tuple[int, ...]:
        x, count = source.type(0), len(source.node.outputs)
        axis = source.axis(source.int_attr("axis", 0), x.rank)
        pieces = source.ints(1, "the split sizes") if source.has(1) else source.ints_attr("split")
        if pieces is None:
            pieces = _equal_pieces(x.shape[axis], source.int_attr("num_outputs", count), source.opset)
        if len(pieces) != count:
            raise Unsupported(f"Split into {len(pieces)} pieces with {count} outputs")
        return source.builder.parts(source.apply("Split", source.operand(0), axis=axis, sizes=pieces))

    def to_onnx(self, low: Lowering) -> tuple[onnx_ir.Value, ...]:
        axis, pieces = low.attrs[0], ints(low.attrs[1])
        if low.opset < 13:
            return low.op_multi("Split", low.inputs, len(pieces), axis=axis, split=pieces)
        return low.op_multi("Split", [*low.inputs, low.ints(pieces)], len(pieces), axis=axis)


def _equal_pieces(size: Size, count: int, opset: int) -> tuple[int, ...]:
    """Equal pieces, the last one smaller where ONNX allows it (from opset 18)."""
    if not isinstance(size, int):
        raise Unsupported("Split of an axis of unknown size")
    chunk = -(-size // count)
    last = size - chunk * (count - 1)
    if last < 0 or (last != chunk and opset < 18):
        raise Unsupported(f"Split of {size} into {count} equal pieces")
    return (*(chunk,) * (count - 1), last)


def _pieces(rng: Rng, size: int, free: bool) -> tuple[int, ...]:
    """Different positive pieces of an axis, which may change its size when ``free``."""
    if free:
        return tuple(shuffled(rng, range(1, 5))[: int(rng.integers(1, 4))])
    cuts = sorted(set(integers(rng, 1, size, 2))) if size > 1 else []
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True))


class Expand(Mover):
    """Broadcast to ``shape``, which is the shape of the result (ONNX's may leave axes at 1 or out)."""

    name = "Expand"
    params = (Param("shape"),)
    onnx_names = ("Expand",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        x, shape = types[0], sizes(attrs[0])
        if len(shape) < x.rank or broadcast([x.shape, shape]) != shape:
            raise IllTyped(f"Expand of {x} to {list(shape)}")
        added = len(shape) - x.rank
        for axis, size in enumerate(shape):
            if not isinstance(size, int) and (axis < added or x.shape[axis - added] != size):
                raise IllTyped(f"Expand of {x} to {list(shape)} is not expressible in ONNX")
        return TensorType(x.dtype, shape)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        return np.broadcast_to(operands[0], ints(attrs[0]))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        if attrs[0] is None:
            shape = types[0].numbers() if types[0] else distinct_shape(rng)
            x = types[0] or TensorType("float64", _narrower(rng, shape))
            grown = tuple(int(rng.integers(2, 6)) if n == 1 and rng.random() < 0.7 else n for n in x.numbers())
            target = (*((int(rng.integers(1, 4)),) if rng.random() < 0.4 else ()), *grown)
            return fitting(self, (target,), (x,))
        x = types[0] or TensorType("float64", _narrower(rng, ints(attrs[0])))
        return fitting(self, attrs, (x,))

    def from_onnx(self, source: Source) -> int:
        x = source.type(0)
        target = source.sizes(1, "the sizes of the new shape")
        padded = (1,) * max(len(target) - x.rank, 0) + x.shape
        full = (1,) * (len(padded) - len(target)) + target
        shape: list[Size] = []
        for size, wanted in zip(padded, full, strict=True):
            if size != 1 and wanted not in (1, size):
                raise Unsupported(f"Expand of {x} to {list(target)}")
            shape.append(wanted if size == 1 else size)
        result = TensorType(x.dtype, tuple(shape))
        return source.apply_or_type(result, "Expand", source.operand(0), shape=tuple(shape))

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        # a symbolic size stays what it is when the target says 1
        target = [size if isinstance(size, int) else 1 for size in sizes(low.attrs[0])]
        return low.op("Expand", [*low.inputs, low.ints(target)])


def _narrower(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to ``shape``."""
    kept = tuple(1 if rng.random() < 0.4 else n for n in shape)
    return kept[int(rng.integers(len(kept) + 1)) :] if rng.random() < 0.3 else kept


class Tile(Mover):
    """The operand repeated ``repeats[i]`` times along axis ``i``."""

    name = "Tile"
    params = (Param("repeats"),)
    onnx_names = ("Tile",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        repeats, x = ints(attrs[0]), types[0]
        require(len(repeats) == x.rank and min(repeats, default=0) >= 0, f"Tile of {x} by {repeats}")
        return TensorType(x.dtype, tuple(size * n for size, n in zip(x.shape, repeats, strict=True)))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        return np.tile(operands[0], ints(attrs[0]))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        rank = None if attrs[0] is None else len(ints(attrs[0]))
        x = types[0] or TensorType("float64", distinct_shape(rng, rank))
        repeats = integers(rng, 1, 4, x.rank) if attrs[0] is None else attrs[0]
        return fitting(self, (repeats,), (x,))

    def from_onnx(self, source: Source) -> int:
        x, repeats = source.type(0), source.sizes(1, "the repeats")
        if len(repeats) != x.rank:
            raise Unsupported(f"Tile of {x} by {len(repeats)} numbers")
        result = TensorType(x.dtype, tuple(size * n for size, n in zip(x.shape, repeats, strict=True)))
        return source.apply_or_type(result, "Tile", source.operand(0), repeats=repeats)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        return low.op("Tile", [*low.inputs, low.ints(ints(low.attrs[0]))])


OPERATORS = (Transpose(), Concat(), Split(), Expand(), Tile())
