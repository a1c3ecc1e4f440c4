"""In which order steps run and on which streams, and how long the whole then takes.

Steps that do not need each other run side by side. Which of them go first decides how much: a list scheduler takes the
one with the longest way to the end (Graham 1966, "Bounds for certain multiprocessing anomalies").
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from egraph_opt.runtime.cuda.steps import Convolution, Generated, Product, Step

_STREAMS = (1, 2, 3, 4, 6, 8)
_SETUP, _NEXT, _CROSS = 0.8e-6, 0.13e-6, 0.8e-6
"""Seconds of a step that need no multiprocessor, that a step takes more among others than alone (its code is not in the
instruction cache), and until a step on another stream sees that one has ended. Fitted to replays of 400 graphs of the
eight networks of bench/recipes.py on an H200."""
_PROCESSORS, _TILE = 132, 64
_LEAST = 0.7
"""The share of a small step: it holds back others more than its blocks say. Fitted, as above."""


@dataclass(frozen=True)
class Schedule:
    """An order of the steps of a plan; what follows is by place in that order.

    Attributes:
        order: numbers of the plan's steps, in the order in which they are launched.
        streams: where each runs.
        waits: steps of other streams that must have ended and are not waited for anyway.
        before: the set (bits) of the steps that have ended when it starts.
        seconds: of one run of all, by simulation.
    """

    order: tuple[int, ...]
    streams: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]
    seconds: float

    @property
    def count(self) -> int:
        """How many streams there are."""
        return max(self.streams, default=0) + 1


def schedule(steps: Sequence[Step], seconds: Sequence[float], most: int = 8) -> Schedule:
    """The best schedule on up to ``most`` streams, going by the seconds of each step alone."""
    needs = dependencies(steps)
    shares = [share(step) for step in steps]
    found = [_on_streams(needs, seconds, shares, count) for count in _STREAMS if count <= most]
    return min(found, key=lambda s: (round(s.seconds, 8), s.count))


def early_starts(found: Schedule, ours: Sequence[bool]) -> tuple[set[int], set[int]]:
    """Which steps may begin before the one ahead of them on their stream has ended, and which let the next one begin.

    Only a kernel of ours begins early, and only where that step is all that it waits for; see ``launch``. A step that
    others wait for from other streams lets nothing begin: these may be library kernels.

    Args:
        ours: by place, whether a step is a kernel of ours.
    """
    last, early, lead = dict[int, int](), set[int](), set[int]()
    for place, stream in enumerate(found.streams):
        if stream in last and ours[place] and not found.waits[place]:
            early.add(place)
            lead.add(last[stream])
        last[stream] = place
    return early, lead.difference(*found.waits)


def dependencies(steps: Sequence[Step]) -> list[list[int]]:
    """Per step, the earlier ones that write a buffer which it reads."""
    writers: dict[int, list[int]] = {}
    found: list[list[int]] = []
    for number, step in enumerate(steps):
        found.append(sorted({w for view in step.reads for w in writers.get(view.buffer, ())}))
        for view in step.writes:
            writers.setdefault(view.buffer, []).append(number)
    return found


def share(step: Step) -> float:
    """The part of the GPU's multiprocessors that a step keeps busy."""
    if isinstance(step, Generated):
        blocks = step.grid * step.block / 1024
    elif isinstance(step, Product):
        batch, rows, columns = step.d.shape
        blocks = batch * math.ceil(rows / _TILE) * math.ceil(columns / _TILE)
    else:
        assert isinstance(step, Convolution)
        channels = step.y.shape[1]
        blocks = math.ceil(step.y.elements / channels / _TILE) * math.ceil(channels / _TILE)
    return min(1.0, max(_LEAST, blocks / _PROCESSORS))


def _on_streams(
    needs: Sequence[Sequence[int]], seconds: Sequence[float], shares: Sequence[float], count: int
) -> Schedule:
    order, streams = _listed(needs, seconds, count)
    place = {step: i for i, step in enumerate(order)}
    ordered = [sorted(place[need] for need in needs[step]) for step in order]
    waits, before = _waits(ordered, streams)
    taken = _simulated(waits, streams, [seconds[step] + _NEXT for step in order], [shares[step] for step in order])
    return Schedule(tuple(order), tuple(streams), tuple(waits), tuple(before), taken)


def _listed(needs: Sequence[Sequence[int]], seconds: Sequence[float], count: int) -> tuple[list[int], list[int]]:
    """Steps in order, and their streams: whatever can start first, and of those the one with the longest way to go."""
    users: list[list[int]] = [[] for _ in needs]
    for step, own in enumerate(needs):
        for need in own:
            users[need].append(step)
    way = [0.0] * len(needs)
    for step in reversed(range(len(needs))):
        way[step] = seconds[step] + max((way[user] for user in users[step]), default=0.0)
    missing, ended, on = [len(own) for own in needs], [0.0] * len(needs), [0] * len(needs)
    free, last = [0.0] * count, [-1] * count
    ready = [step for step, own in enumerate(needs) if not own]
    order: list[int] = []
    while ready:
        best: tuple[tuple[int, float, bool, int, int], float] | None = None
        for step in ready:
            for stream in range(count):
                start = max([free[stream], *(ended[n] + (_CROSS if on[n] != stream else 0.0) for n in needs[step])])
                key = (round(start * 1e7), -way[step], last[stream] not in needs[step], stream, step)
                if best is None or key < best[0]:
                    best = key, start
        assert best is not None
        (_, _, _, stream, step), start = best
        ready.remove(step)
        order.append(step)
        on[step], last[stream] = stream, step
        ended[step] = free[stream] = start + seconds[step]
        for user in users[step]:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return order, [on[step] for step in order]


def _waits(needs: Sequence[Sequence[int]], streams: Sequence[int]) -> tuple[list[tuple[int, ...]], list[int]]:
    """What each step has to wait for besides its stream, and what has ended when it starts (bits)."""
    last: dict[int, int] = {}
    waits, before = list[tuple[int, ...]](), list[int]()
    for step, own in enumerate(needs):
        previous = last.get(streams[step], -1)
        covered = past = before[previous] | 1 << previous if previous >= 0 else 0
        missing: list[int] = []
        for need in reversed(own):
            past |= before[need] | 1 << need
            if not covered >> need & 1:
                missing.append(need)
                covered |= before[need] | 1 << need
        last[streams[step]] = step
        waits.append(tuple(missing))
        before.append(past)
    return waits, before


@dataclass
class _Running:
    setup: float
    work: float
    share: float


@dataclass
class _Clock:
    """Steps that share the GPU: together they get no more of it than there is."""

    now: float = 0.0
    running: dict[int, _Running] = field(default_factory=dict[int, _Running])

    def advance(self, until: float) -> list[int]:
        """Goes on to ``until`` or to the next end of a step or of a setup; returns the steps that have ended."""
        busy = sum(r.share for r in self.running.values() if r.setup <= 0)
        speed = 1 / max(1.0, busy)
        left = min((r.setup if r.setup > 0 else r.work / speed for r in self.running.values()), default=math.inf)
        passed = max(min(left, until - self.now), 0.0)
        self.now += passed
        ended: list[int] = []
        for step, r in self.running.items():
            if r.setup > 0:
                r.setup = r.setup - passed if r.setup - passed > 1e-13 else 0.0
            else:
                r.work -= passed * speed
            if r.setup <= 0 and r.work <= 1e-13:
                ended.append(step)
        for step in ended:
            del self.running[step]
        return ended


def _simulated(
    waits: Sequence[Sequence[int]], streams: Sequence[int], seconds: Sequence[float], shares: Sequence[float]
) -> float:
    """Seconds until all steps have ended."""
    after: list[list[tuple[int, float]]] = [[] for _ in waits]
    missing, ready = [0] * len(waits), [0.0] * len(waits)
    last: dict[int, int] = {}
    for step, own in enumerate(waits):
        previous = [(last[streams[step]], 0.0)] if streams[step] in last else []
        for need, delay in [*previous, *((w, _CROSS) for w in own)]:
            after[need].append((step, delay))
            missing[step] += 1
        last[streams[step]] = step
    starts = [(0.0, step) for step, count in enumerate(missing) if not count]
    clock = _Clock()
    while starts or clock.running:
        for ended in clock.advance(starts[0][0] if starts else math.inf):
            for step, delay in after[ended]:
                ready[step] = max(ready[step], clock.now + delay)
                missing[step] -= 1
                if not missing[step]:
                    heapq.heappush(starts, (ready[step], step))
        while starts and starts[0][0] <= clock.now + 1e-13:
            _, step = heapq.heappop(starts)
            setup = min(_SETUP, seconds[step])
            clock.running[step] = _Running(setup, seconds[step] - setup, shares[step])
    return clock.now
