"""``Slice`` with every bound made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from egraph_opt.ir import AttrValue, Size, TensorType, Type, floordiv
from egraph_opt.ops.base import Operator, Param, Sample, distinct_shape, fitting, ints, lower_bound, require
from egraph_opt.ops.draws import integers, one_of, shuffled
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir

_FAR = (1 << 63) - 1
_TOP = 1_000_000_000
"""Exporters write this, or the largest int32 or int64, for 'to the end'."""


class Slice(Operator):
    """``x[start:end:step]`` on each of ``axes`` (increasing); axes that are kept whole are left out.

    Bounds are in range and say what they mean: ``0 <= start <= end <= n`` for a positive step, and for a negative one
    ``-1 <= end <= start < n``, where the end -1 is the place before element 0. The importer writes the canonical form:
    a multiple of the step between the first and the last element, one element has step 1, no element is ``0:0:1``.
    On a symbolic axis a bound may be a size such as ``n - 1`` where it is in range whatever the symbols are.
    """

    name = "Slice"
    params = (Param("axes"), Param("starts"), Param("ends"), Param("steps"))
    ring = "exact"
    rearranges = True
    onnx_names = ("Slice",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        shape = list(types[0].shape)
        axes = ints(attrs[0])
        require(bool(axes), "Slice of no axis is the operand itself")
        require(list(axes) == sorted(set(axes)) and all(0 <= a < len(shape) for a in axes), f"Slice axes {axes}")
        for axis, start, end, step in _rows(attrs):
            shape[axis] = _count(shape[axis], start, end, step)
        return TensorType(types[0].dtype, tuple(shape))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        cut = [slice(None)] * operands[0].ndim
        for axis, start, end, step in _rows(attrs):
            cut[axis] = slice(start, None if step < 0 and end == -1 else end, step)
        return operands[0][tuple(cut)]

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        given = next((len(a) for a in attrs[1:] if isinstance(a, tuple)), None)
        low = max(ints(attrs[0]), default=0) + 1 if attrs[0] is not None else given or 1
        x = types[0] or TensorType("float64", distinct_shape(rng, max(low, int(rng.integers(1, 5)))))
        shape = x.numbers()
        count = given if given is not None else int(rng.integers(1, len(shape) + 1)) if shape else 0
        if count > len(shape) or not shape:
            return None
        axes = ints(attrs[0]) if attrs[0] is not None else tuple(sorted(shuffled(rng, range(len(shape)))[:count]))
        if any(axis >= len(shape) for axis in axes):
            return None
        if attrs[1] is None and attrs[2] is None and attrs[3] is None:
            rows = [_random_row(rng, shape[axis]) for axis in axes]
            kept = [(axis, *row) for axis, row in zip(axes, rows, strict=True) if row != (0, shape[axis], 1)]
            if attrs[0] is None:
                axes, rows = tuple(r[0] for r in kept), [r[1:] for r in kept]
            return fitting(self, (axes, *(tuple(r[i] for r in rows) for i in range(3))), (x,))
        steps = ints(attrs[3]) if attrs[3] is not None else (1,) * len(axes)
        default = ((0,) * len(axes), tuple(shape[a] for a in axes))
        if attrs[1] is None and attrs[2] is None and set(steps) == {1} and rng.random() < 0.7:
            cuts = [sorted(int(c) for c in rng.choice(shape[a] + 1, 2, replace=False)) for a in axes]
            default = (tuple(c[0] for c in cuts), tuple(c[1] for c in cuts))
        starts, ends = (d if a is None else a for d, a in zip(default, attrs[1:3], strict=True))
        return fitting(self, (axes, starts, ends, steps), (x,))

    def from_onnx(self, source: Source) -> int:
        x = source.type(0)
        axes, starts, ends, steps = _read(source, x.rank)
        rows: list[tuple[int, Size, Size, int]] = []
        for axis, start, end, step in sorted(zip(axes, starts, ends, steps, strict=True)):
            size = x.shape[axis]
            if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
                bounds: tuple[Size, Size, int] = _static(size, start, end, step)
            else:
                bounds = _symbolic(size, start, end, step)
            if bounds != (0, size, 1):
                rows.append((axis, bounds[0], bounds[1], bounds[2]))
        if not rows:
            return source.operand(0)
        axes, starts, ends, steps = zip(*rows, strict=True)
        shape = list(x.shape)
        for axis, start, end, step in rows:
            gap = end - start if step > 0 else start - end
            shape[axis] = floordiv(gap + abs(step) - 1, abs(step))
        result, attrs = TensorType(x.dtype, tuple(shape)), {"axes": axes, "starts": starts, "ends": ends}
        return source.apply_or_type(result, "Slice", source.operand(0), **attrs, steps=steps)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        shape = low.tensor_type(0).shape
        rows = [(axis, *_written(shape[axis], start, end, step), step) for axis, start, end, step in _rows(low.attrs)]
        axes, starts, ends, steps = ([row[i] for row in rows] for i in range(4))
        if low.opset < 10:
            return low.op("Slice", low.inputs, axes=tuple(axes), starts=tuple(starts), ends=tuple(ends))
        operands = [*low.inputs, low.ints(starts), low.ints(ends), low.ints(axes)]
        return low.op("Slice", operands if set(steps) == {1} else [*operands, low.ints(steps)])

    def opset(self, attrs: Attrs, types: Types) -> int:
        return max(super().opset(attrs, types), 9 if set(ints(attrs[3])) <= {1} else 10)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 0


def _rows(attrs: Attrs) -> list[tuple[int, Size, Size, int]]:
    axes, starts, ends, steps = attrs
    if not isinstance(starts, tuple) or not isinstance(ends, tuple):
        raise IllTyped("Slice bounds are lists")
    axes, steps = ints(axes), ints(steps)
    require(len(axes) == len(starts) == len(ends) == len(steps), "Slice with lists of different lengths")
    return list(zip(axes, starts, ends, steps, strict=True))


def _count(size: Size, start: Size, end: Size, step: int) -> Size:
    """The size that is left of an axis; IllTyped for bounds that may leave the range or that ONNX cannot write."""
    what = f"Slice {start}:{end}:{step} of {size}"
    require(step != 0, what)
    low, high, top = (start, end, size) if step > 0 else (end + 1, start + 1, size)
    bound = all(lower_bound(gap) >= 0 for gap in (low, high - low, top - high))
    require(bound and _written(size, start, end, step) is not None, what)
    return floordiv(high - low + abs(step) - 1, abs(step))


def _written(size: Size, start: Size, end: Size, step: int) -> tuple[int, int]:
    """The bounds as ONNX writes them: numbers from the front or from the back."""
    if step < 0 and end == -1:
        return _from_end(size, start), -_FAR
    return _from_end(size, start), _FAR if end == size and not isinstance(size, int) else _from_end(size, end)


def _from_end(size: Size, bound: Size) -> int:
    if isinstance(bound, int):
        return bound
    back = bound - size
    if not isinstance(back, int) or back >= 0:
        raise IllTyped(f"the bound {bound} of Slice on an axis of size {size} is not expressible in ONNX")
    return back


def _read(source: Source, rank: int) -> tuple[tuple[int, ...], tuple[Size, ...], tuple[Size, ...], tuple[int, ...]]:
    """Axes (from the front), starts, ends and steps as the model gives them."""
    starts: tuple[Size, ...] | None
    ends: tuple[Size, ...] | None
    if source.opset < 10:
        starts, ends, axes = (source.ints_attr(name) for name in ("starts", "ends", "axes"))
        steps = None
    else:
        starts, ends = source.sizes(1, "the starts"), source.sizes(2, "the ends")
        axes = source.ints(3, "the axes") if source.has(3) else None
        steps = source.ints(4, "the steps") if source.has(4) else None
    if starts is None or ends is None:
        raise Unsupported("Slice without bounds")
    axes = tuple(range(len(starts))) if axes is None else tuple(source.axis(a, rank) for a in axes)
    steps = (1,) * len(axes) if steps is None else steps
    if not len(axes) == len(starts) == len(ends) == len(steps) or len(set(axes)) != len(axes) or 0 in steps:
        raise Unsupported("Slice with lists that do not belong together")
    return axes, starts, ends, steps


def _static(size: int, start: int, end: int, step: int) -> tuple[int, int, int]:
    """The canonical bounds on an axis of known size."""
    first, last, step = slice(start, end, step).indices(size)
    count = len(range(first, last, step))
    if count == 0:
        return 0, 0, 1
    if count == 1:
        return first, first + 1, 1
    end = first + (count - 1) * step
    return first, end + (1 if step > 0 else -1), step


def _symbolic(size: Size, start: Size, end: Size, step: int) -> tuple[Size, Size, int]:
    """The bounds where a size is not known, and clamping them does not depend on it."""
    if step < 0:
        if (start in (-1, size - 1) or _is_far(start)) and isinstance(end, int) and end <= -_TOP:
            return size - 1, -1, step
        raise Unsupported(f"Slice {start}:{end}:{step} of an axis of unknown size")
    first, last = _clamped(size, start), _clamped(size, end)
    if (first, last) != (0, size) and lower_bound(last - first) < 0:
        raise Unsupported(f"Slice {start}:{end}:{step} of an axis of unknown size")
    return first, last, step


def _clamped(size: Size, bound: Size) -> Size:
    """A bound of a slice that goes forwards, between 0 and ``size``."""
    if _is_far(bound):
        return size
    if isinstance(bound, int) and bound <= -_TOP:
        return 0
    if bound == 0:
        return 0
    from_front = bound if lower_bound(bound) >= 0 else size + bound if lower_bound(-bound) >= 1 else None
    if from_front is not None:
        if lower_bound(from_front) >= 0 and lower_bound(size - from_front) >= 0:
            return from_front
        if lower_bound(from_front - size) >= 0:
            return size
        if lower_bound(-from_front) >= 0:
            return 0
    raise Unsupported(f"Slice with a bound {bound} on an axis of size {size}: which comes first is not known")


def _is_far(bound: Size) -> bool:
    return isinstance(bound, int) and bound >= _TOP


def _random_row(rng: Rng, size: int) -> tuple[int, int, int]:
    """Canonical bounds that keep at least one element."""
    a, b = sorted(integers(rng, 0, size, 2))
    step = one_of(rng, (1, 1, 1, 2, -1, -2))
    return _static(size, a, b + 1, step) if step > 0 else _static(size, b, a - 1 - size if a == 0 else a - 1, step)


OPERATORS = (Slice(),)
