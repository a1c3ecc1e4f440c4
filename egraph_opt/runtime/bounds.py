"""Bounds on the seconds of operators that nobody has measured, from the fastest that somebody has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from egraph_opt.runtime.costs import Work

MARGIN = 1.5
"""How much faster than the fastest operator that was seen another one may be: measurements are no better than that."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Speeds that no operator of a target goes beyond: float32 operations, and bytes read and written, per second.

    ``widening`` says how many times faster than float32 another dtype may be.
    """

    flops: float
    bandwidth: float
    widening: Callable[[str], float]

    @staticmethod
    def of(seen: Iterable[tuple[Work, float]], widening: Callable[[str], float]) -> Peaks:
        """From work and the seconds that it took; without any, nothing is said about speeds."""
        rates = [(w.flops / widening(w.dtype) / seconds, w.bytes / seconds) for w, seconds in seen if seconds > 0]
        flops, bandwidth = (max((rate[i] for rate in rates), default=0.0) for i in (0, 1))
        return Peaks(flops * MARGIN, bandwidth * MARGIN, widening)

    def seconds(self, todo: Work) -> float:
        """No operator with so much to do takes less."""
        arithmetic = todo.flops / (self.flops * self.widening(todo.dtype)) if self.flops else 0.0
        return max(arithmetic, todo.bytes / self.bandwidth if self.bandwidth else 0.0)
