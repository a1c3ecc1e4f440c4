"""Random numbers a few at a time. NumPy's functions build an array even for two numbers, which takes several times as
long as drawing them.

Each function gives what NumPy's own one would, and leaves the generator where that would leave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from egraph_opt.ops.kinds import Rng


def integers(rng: Rng, low: int, high: int, count: int) -> tuple[int, ...]:
    """``count`` numbers from ``low`` to ``high - 1``: ``rng.integers(low, high, count)``."""
    return tuple([int(rng.integers(low, high)) for _ in range(count)])


def shuffled(rng: Rng, values: Iterable[int]) -> list[int]:
    """The numbers in random order: ``rng.permutation``."""
    order = list(values)
    rng.shuffle(order)
    return order


def one_of[T](rng: Rng, values: Sequence[T]) -> T:
    """One of the values, each as likely: ``rng.choice``."""
    return values[int(rng.integers(len(values)))]
