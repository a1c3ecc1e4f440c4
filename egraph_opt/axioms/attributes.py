"""Values that attributes take, by the sizes that they depend on: tables, each worked out once."""

from __future__ import annotations

import itertools
import math
from functools import cache


@cache
def pieces(size: int) -> tuple[tuple[int, ...], ...]:
    """One to three pieces of an axis."""
    every = (p for count in (1, 2, 3) for p in itertools.product(range(1, size + 1), repeat=count))
    return tuple(p for p in every if sum(p) == size)


@cache
def column(sizes: tuple[int, ...], before: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """What follows the starts, or the starts and ends, that are chosen already."""
    at = len(before)
    return tuple(dict.fromkeys(cut[at] for cut in _cuts(sizes) if cut[:at] == before))


@cache
def _cuts(sizes: tuple[int, ...]) -> list[tuple[tuple[int, ...], ...]]:
    """Starts, ends and steps on axes of these sizes."""
    rows = itertools.product(*(_rows(size, len(sizes) > 1) for size in sizes))
    return [tuple(zip(*row, strict=True)) for row in rows]


def _rows(size: int, few: bool) -> list[tuple[int, int, int]]:
    """Starts, ends and steps on an axis."""
    if few:
        return [(0, size, 1), (size - 1, size, 1), (0, max(size - 1, 1), 1)][: size + 1]
    plain = [(start, end, 1) for start in range(size) for end in range(start + 1, size + 1)]
    return plain + [(0, size, 2), (size - 1, -1, -1)] * (size > 2)


@cache
def pads(sides: tuple[tuple[int, int], ...], rank: int) -> tuple[tuple[int, ...], ...]:
    """One axis, the spatial axes or all axes padded alike."""
    places = [tuple(i == axis for i in range(rank)) for axis in range(rank)]
    places += [tuple(i >= 2 for i in range(rank)), (True,) * rank]
    return tuple(
        dict.fromkeys(tuple(side[end] * here for end in (0, 1) for here in place) for place in places for side in sides)
    )


@cache
def regroupings(shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Shapes of as many elements: flat, the same, neighbours merged, a size halved, an axis of size 1 more or less."""
    found = [(math.prod(shape),), shape]
    for i, size in enumerate(shape):
        found += [(*shape[:i], size * shape[i + 1], *shape[i + 2 :])] if i + 1 < len(shape) else []
        found += [(*shape[:i], 2, size // 2, *shape[i + 1 :])] if size % 2 == 0 else []
        found += [(*shape[:i], *shape[i + 1 :])] if size == 1 else []
    found += [(*shape[:i], 1, *shape[i:]) for i in range(len(shape) + 1)]
    return tuple(dict.fromkeys(found))
