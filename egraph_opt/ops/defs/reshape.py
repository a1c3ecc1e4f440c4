"""``Reshape``, which ONNX's Squeeze, Unsqueeze and Flatten are too.

The target is a shape of sizes, symbolic ones included. ONNX can only write targets with at most one new symbolic size,
so a target that no ONNX node expresses is ill-typed here, and no rule can make one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import AttrValue, Size, TensorType, Type, floordiv, product
from egraph_opt.ops.base import Operator, Param, Sample, distinct_shape, fitting, ints, lower_bound, sizes
from egraph_opt.ops.draws import one_of
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir

Shape = tuple[Size, ...]


class Reshape(Operator):
    """The same elements in row-major order under another shape; the counts must be provably equal."""

    name = "Reshape"
    params = (Param("shape"),)
    ring = "exact"
    rearranges = True
    onnx_names = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")

    def infer(self, attrs: Attrs, types: Types) -> Type:
        x, shape = types[0], sizes(attrs[0])
        if product(shape) != x.elements:
            raise IllTyped(f"{x} has not the elements of shape {list(shape)}")
        if _plan(x.shape, shape) is None:
            raise IllTyped(f"Reshape of {x} to {list(shape)} is not expressible in ONNX")
        return TensorType(x.dtype, shape)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        return operands[0].reshape(ints(attrs[0]))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        shape = None if attrs[0] is None else ints(attrs[0])
        x = types[0] or TensorType("float64", distinct_shape(rng) if shape is None else _regroup(rng, shape))
        return fitting(self, (_regroup(rng, x.numbers()) if shape is None else shape,), (x,))

    def from_onnx(self, source: Source) -> int:
        shape = {"Reshape": _reshape, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Flatten": _flatten}
        x, target = source.type(0), shape[source.op_type](source)
        if product(target) != x.elements:
            raise Unsupported(f"{source.op_type}: {x} has not the elements of shape {list(target)}")
        return source.apply_or_type(TensorType(x.dtype, target), "Reshape", source.operand(0), shape=target)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        plan = _plan(low.tensor_type(0).shape, sizes(low.attrs[0]))
        assert plan is not None
        value = low.inputs[0]
        for kind, numbers in plan.steps:
            if kind == "Reshape":
                allow = {"allowzero": 1} if plan.allowzero else {}
                value = low.op("Reshape", [value, low.ints(numbers)], **allow)
            elif kind == "Flatten":
                value = low.op("Flatten", [value], axis=numbers[0])
            elif low.opset < 13:
                value = low.op(kind, [value], axes=numbers)
            else:
                value = low.op(kind, [value, low.ints(numbers)])
        return value

    def opset(self, attrs: Attrs, types: Types) -> int:
        plan = _plan(types[0].shape, sizes(attrs[0]))
        return max(super().opset(attrs, types), 14 if plan and plan.allowzero else 9)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 0

    def moves_data(self, attrs: Attrs) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class _Plan:
    """ONNX nodes (type and axes, or target numbers) that reshape in sequence."""

    steps: tuple[tuple[str, tuple[int, ...]], ...]
    allowzero: bool = False


def _plan(old: Shape, new: Shape) -> _Plan | None:
    """How ONNX writes the reshape of ``old`` to ``new``; ``None`` when it cannot."""
    if len(new) > len(old) and (axes := _inserted(old, new)) is not None:
        return _Plan((("Unsqueeze", axes),))
    if len(new) < len(old) and (axes := _inserted(new, old)) is not None:
        return _Plan((("Squeeze", axes),))
    return _reshape_plan(old, new) or _flatten_plan(old, new) or _two_steps(old, new)


def _inserted(short: Shape, long: Shape) -> tuple[int, ...] | None:
    """Axes of ``long`` that are 1 and without which it is ``short``."""
    axes, position = [], 0
    for axis, size in enumerate(long):
        if position < len(short) and short[position] == size:
            position += 1
        elif size == 1:
            axes.append(axis)
        else:
            return None
    return tuple(axes) if position == len(short) else None


def _reshape_plan(old: Shape, new: Shape) -> _Plan | None:
    numbers: list[int] = []
    copies = allowzero = False
    for axis, size in enumerate(new):
        stays = axis < len(old) and old[axis] == size
        if isinstance(size, int) and (size or stays):
            numbers.append(size)
            copies |= size == 0
        elif isinstance(size, int):
            numbers.append(0)
            allowzero = True
        else:
            numbers.append(0 if stays else -1)
            copies |= stays
    # with allowzero every 0 is a literal, and a -1 beside a size 0 has no answer
    if numbers.count(-1) > 1 or (-1 in numbers and 0 in new):
        return None
    if allowzero and not all(isinstance(size, int) for size in new):
        return None
    return _Plan((("Reshape", tuple(numbers)),), allowzero)


def _flatten_plan(old: Shape, new: Shape) -> _Plan | None:
    if len(new) == 2:
        for axis in range(len(old) + 1):
            if new == (product(old[:axis]), product(old[axis:])):
                return _Plan((("Flatten", (axis,)),))
    return None


def _two_steps(old: Shape, new: Shape) -> _Plan | None:
    core = tuple(size for size in old if size != 1)
    removed, added = _inserted(core, old), _inserted(core, new)
    return _Plan((("Squeeze", removed), ("Unsqueeze", added))) if removed and added else None


def _reshape(source: Source) -> Shape:
    x = source.type(0)
    target = source.sizes(1, "the sizes of the new shape")
    copied = not source.int_attr("allowzero", 0)
    shape: list[Size | None] = []
    for axis, number in enumerate(target):
        if number == 0 and copied:
            if axis >= x.rank:
                raise Unsupported(f"Reshape copies axis {axis} of {x}, which has none")
            shape.append(x.shape[axis])
        else:
            shape.append(None if number == -1 else number)
    if shape.count(None) > 1:
        raise Unsupported("Reshape with two sizes to be found")
    known = [size for size in shape if size is not None]
    result = tuple(_missing(x, known) if size is None else size for size in shape)
    if copied:
        _check_vanishing(x.shape, target, result)
    _check_inferred(x, target, result)
    return result


def _check_vanishing(old: Shape, target: Shape, new: Shape) -> None:
    """A computed size that turns out to be 0 copies an axis; Unsupported where that could give another shape.

    It cannot where the copied axis is 0 as well, or where nothing but an error can come of it: all other sizes are
    above 0, and none is to be found.
    """
    symbolic = [i for i, size in enumerate(target) if lower_bound(size) < 1 and not isinstance(size, int)]
    moved = [i for i in symbolic if i >= len(old) or not _vanish_together(target[i], old[i])]
    if not moved:
        return
    others = [size for i, size in enumerate(new) if i != moved[0]]
    if len(moved) > 1 or -1 in target or any(lower_bound(size) < 1 for size in others):
        raise Unsupported(f"Reshape of {list(old)} to {list(target)} means something else where a size is 0")


def _check_inferred(x: TensorType, target: Shape, new: Shape) -> None:
    """Unsupported where the reshape can only be written with a ``-1`` that has no answer at sizes that now work."""
    plan = _plan(x.shape, new)
    for kind, numbers in plan.steps if plan else ():
        if kind == "Reshape" and -1 in numbers and target[numbers.index(-1)] != -1:
            others = [size for i, size in enumerate(new) if i != numbers.index(-1)]
            if any(lower_bound(size) < 1 for size in others):
                reason = f"Reshape of {x} to {list(target)}: a size of 0 leaves none to be found for another"
                raise Unsupported(reason, TensorType(x.dtype, new))


def _vanish_together(size: Size, old: Size) -> bool:
    """Whether ``old`` is 0 wherever ``size`` is."""
    if size == old:
        return True
    if isinstance(old, int) or isinstance(size, int):
        return False
    times = floordiv(size, old)
    return isinstance(times, int) and times >= 1 and times * old == size


def _missing(x: TensorType, known: Sequence[Size]) -> Size:
    """The size that ``-1`` stands for."""
    left, rest = list(x.shape), []
    for size in known:
        if size in left:
            left.remove(size)
        else:
            rest.append(size)
    if 0 in known:
        raise Unsupported("Reshape with -1 beside a size 0")
    divisor, total = product(rest), product(left)
    size = floordiv(total, divisor)
    if size * divisor != total:
        raise Unsupported(f"Reshape of {x}: the size for -1 has no closed form")
    return size


def _squeeze(source: Source) -> Shape:
    x = source.type(0)
    axes = source.ints(1, "the axes") if source.has(1) else source.ints_attr("axes")
    if axes is None:
        if not all(isinstance(size, int) for size in x.shape):
            raise Unsupported("Squeeze of every axis of size 1, while a size is symbolic")
        return tuple(size for size in x.shape if size != 1)
    dropped = {source.axis(axis, x.rank) for axis in axes}
    rest = tuple(size for axis, size in enumerate(x.shape) if axis not in dropped)
    if any(not isinstance(x.shape[axis], int) for axis in dropped):
        raise Unsupported(f"Squeeze of {x} drops an axis of unknown size", TensorType(x.dtype, rest))
    return rest


def _unsqueeze(source: Source) -> Shape:
    x = source.type(0)
    axes = source.ints(1, "the axes") if source.has(1) else source.ints_attr("axes") or ()
    rank = x.rank + len(axes)
    added = {source.axis(axis, rank) for axis in axes}
    if len(added) != len(axes):
        raise Unsupported("Unsqueeze names an axis twice")
    old = iter(x.shape)
    return tuple(1 if axis in added else next(old) for axis in range(rank))


def _flatten(source: Source) -> Shape:
    x, axis = source.type(0), source.int_attr("axis", 1)
    if not -x.rank <= axis <= x.rank:
        raise Unsupported(f"Flatten: no axis {axis} in a tensor of rank {x.rank}")
    axis += x.rank if axis < 0 else 0
    return product(x.shape[:axis]), product(x.shape[axis:])


def _regroup(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A random shape with as many elements: neighbours merged, sizes split, axes of size 1 added or dropped."""
    result = list(shape)
    for _ in range(int(rng.integers(1, 4))):
        kind, axis = int(rng.integers(4)), int(rng.integers(len(result) + 1))
        if kind == 0 and axis + 1 < len(result):
            result[axis : axis + 2] = [result[axis] * result[axis + 1]]
        elif kind == 1 and axis < len(result) and result[axis] > 1:
            factors = [f for f in range(2, result[axis] + 1) if result[axis] % f == 0]
            factor = one_of(rng, factors)
            result[axis : axis + 1] = [result[axis] // factor, factor]
        elif kind == 2 and 1 in result:
            result.remove(1)
        elif kind == 3 and len(result) < 6:
            result.insert(axis, 1)
    return tuple(result)


OPERATORS = (Reshape(),)
