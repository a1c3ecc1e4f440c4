"""Where a tensor lies: a buffer, an offset and a stride per axis, in elements. Moving operators become new views."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from egraph_opt.ir import Node, TensorType
from egraph_opt.ops.base import integer, ints


@dataclass(frozen=True, slots=True)
class View:
    """A tensor of ``shape`` in buffer number ``buffer``; element i lies at ``offset + sum(i * strides)``."""

    buffer: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    def is_dense(self, order: Sequence[int] | None = None) -> bool:
        """Whether the elements lie without gaps, the axes from the slowest to the fastest as in ``order``."""
        wanted = dense_strides(self.shape, order)
        return all(n == 1 or s == w for n, s, w in zip(self.shape, self.strides, wanted, strict=True))

    def __str__(self) -> str:
        inside = "" if self.is_dense() and not self.offset else f"@{self.offset}{list(self.strides)}"
        return f"b{self.buffer}{inside}:{self.dtype}{list(self.shape)}"


def dense_strides(shape: Sequence[int], order: Sequence[int] | None = None) -> tuple[int, ...]:
    """Strides without gaps; ``order`` lists the axes from the slowest to the fastest (row-major by default)."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape)) if order is None else order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def alignment(view: View) -> int:
    """Bytes that every row of ``view`` starts at a multiple of, up to 256."""
    size = TensorType(view.dtype, ()).itemsize
    steps = [s for s, n in zip(view.strides, view.shape, strict=True) if n > 1 and s != 1]
    return math.gcd(256, view.offset * size, *(s * size for s in steps)) or 256


def channels_last(rank: int) -> tuple[int, ...]:
    """The order in which (N, C, *spatial) lies with the channels fastest."""
    return (0, *range(2, rank), 1)


def moved(node: Node, source: View, shape: tuple[int, ...]) -> View | None:
    """What ``node`` makes of ``source`` without touching an element; ``None`` where it has to copy."""
    if node.op == "Transpose":
        perm = ints(node.attrs[0])
        return replace(source, shape=shape, strides=tuple(source.strides[p] for p in perm))
    if node.op == "Reshape":
        return reshaped(source, shape)
    if node.op == "Slice":
        return _sliced(node, source, shape)
    if node.op == "Expand":
        added = len(shape) - len(source.shape)
        own = (0,) * added + tuple(
            0 if n == 1 and m != 1 else s for n, m, s in zip(source.shape, shape[added:], source.strides, strict=True)
        )
        return replace(source, shape=shape, strides=own)
    return None


def part(source: View, axis: int, start: int, size: int) -> View:
    """``size`` entries of ``axis`` from ``start`` on."""
    shape = (*source.shape[:axis], size, *source.shape[axis + 1 :])
    return replace(source, shape=shape, offset=source.offset + start * source.strides[axis])


def reshaped(source: View, shape: tuple[int, ...]) -> View | None:
    """``source`` in row-major order under another shape, where strides can say that."""
    if source.elements != math.prod(shape):
        return None
    if source.elements == 0:
        return replace(source, shape=shape, strides=dense_strides(shape))
    strides: list[int] = []
    for old, new in groups(source.shape, shape):
        axes = [i for i in old if source.shape[i] != 1]
        for a, b in pairwise(axes):
            if source.strides[a] != source.strides[b] * source.shape[b]:
                return None
        step = source.strides[axes[-1]] if axes else 1
        run: list[int] = []
        for axis in reversed(new):
            run.insert(0, step)
            step *= shape[axis]
        strides += run
    return replace(source, shape=shape, strides=tuple(strides))


def groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The axes of two shapes of equally many elements, cut into the smallest runs of equal products, in order."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [], []
        a = b = 1
        if i < len(old):
            left, a, i = [i], old[i], i + 1
        if j < len(new):
            right, b, j = [j], new[j], j + 1
        while a != b:
            if (a < b or b == 0) and i < len(old):
                left.append(i)
                a, i = a * old[i], i + 1
            elif j < len(new):
                right.append(j)
                b, j = b * new[j], j + 1
            else:
                left.append(i)
                a, i = a * old[i], i + 1
        found.append((left, right))
    return found


def _sliced(node: Node, source: View, shape: tuple[int, ...]) -> View:
    strides, offset = list(source.strides), source.offset
    starts, steps = ints(node.attrs[1]), ints(node.attrs[3])
    for axis, start, step in zip(ints(node.attrs[0]), starts, steps, strict=True):
        offset += start * source.strides[axis]
        strides[axis] *= step
    return replace(source, shape=shape, strides=tuple(strides), offset=offset)


def split_start(split: Node, index: int) -> tuple[int, int]:
    """Axis and first entry of output ``index`` of a ``Split``."""
    return integer(split.attrs[0]), sum(ints(split.attrs[1])[:index])
