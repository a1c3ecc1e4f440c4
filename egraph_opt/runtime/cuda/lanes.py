"""Several elements that lie side by side in one thread: loads and stores of up to 16 bytes, and indices computed once.

A kernel that has lanes names its index along one axis once per lane; ``Lanes`` knows which names belong together, so
that an element that is asked for as lane number i comes out of one load for all. What it does not recognise is loaded
alone: that is slower, not wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from egraph_opt.runtime.cuda.views import View

_BUSY = 132 * 2048
"""Threads that a large GPU runs at once: there are lanes only where these many are left."""
_MOST = 8


@dataclass
class Lanes:
    """Names of indices: ``of`` says which lane of which first lane's name one is. Names of first lanes are multiples of
    ``width``."""

    width: int = 1
    of: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def start(self, first: str, let: Callable[[str], str]) -> list[str]:
        """The names of the lanes that begin with the index ``first``."""
        names = [first, *(let(f"{first} + {lane}") for lane in range(1, self.width))]
        self.of |= {name: (first, lane) for lane, name in enumerate(names)}
        return names

    def total(self, terms: Sequence[tuple[str, int]], offset: int, let: Callable[[str], str]) -> str:
        """A name for ``offset`` and the sum of index times factor over ``terms``; a lane if one of these is."""

        def named(first: str | None) -> str:
            used = [first if first and i in self.of else i for i, _ in terms]
            parts = [i if f == 1 else f"{i} * {f}" for i, (_, f) in zip(used, terms, strict=True)]
            return let(" + ".join([*([str(offset)] if offset else []), *parts]) or "0")

        lanes = [(i, factor) for i, factor in terms if i in self.of]
        rest = [factor for i, factor in terms if i not in self.of]
        if len(lanes) != 1 or lanes[0][1] != 1 or any(f % self.width for f in (*rest, offset)):
            return named(None)
        base, lane = self.of[lanes[0][0]]
        first, name = named(base), named(None)
        self.of[name] = first, lane
        return name

    def axis(self, view: View, index: Sequence[str]) -> int | None:
        """The axis along which the element at ``index`` is one of several that one load brings."""
        if self.width == 1:
            return None
        axis = next((a for a, i in enumerate(index) if i in self.of and view.shape[a] != 1), None)
        return axis if axis is not None and packs(view, axis, self.width) else None


def packs(view: View, axis: int, width: int) -> bool:
    """Whether ``width`` neighbours along ``axis`` lie side by side, wherever the first of them is a multiple of it."""
    others = [s for a, (n, s) in enumerate(zip(view.shape, view.strides, strict=True)) if a != axis and n != 1]
    whole = all(s % width == 0 for s in (*others, view.offset, view.shape[axis]))
    return whole and view.strides[axis] == 1 and view.shape[axis] > 1


def width_of(target: View, axis: int) -> int:
    """How many lanes a kernel that writes ``target`` has along ``axis``."""
    width = _MOST
    while width > 1 and (not packs(target, axis, width) or math.prod(target.shape) // width < _BUSY):
        width //= 2
    return width
