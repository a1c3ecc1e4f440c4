"""Programs on the GPU, timed in turns."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Protocol


class Timed(Protocol):
    """What ``cuda.Program`` has."""

    def seconds(self, replays: int = 50, rounds: int = 7) -> float: ...


def in_turns(programs: Sequence[Timed], *, replays: int = 50, rounds: int = 7) -> list[float]:
    """Median seconds of each program, of ``rounds`` samples of ``replays`` replays.

    All take turns, every second time the other way round: what a process has launched before can change the time of a
    graph (bench/gpu_streams.py), so that one timed after another tells as much of their order as of the programs.
    """
    samples: list[list[float]] = [[] for _ in programs]
    for turn in range(rounds):
        order = range(len(programs))
        for number in reversed(order) if turn % 2 else order:
            samples[number].append(programs[number].seconds(replays=replays, rounds=1))
    return [median(found) for found in samples]
