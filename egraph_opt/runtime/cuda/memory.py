"""When steps may run at the same time, and where what they write lies until it has been read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from egraph_opt.runtime.cuda.plan import Plan
from egraph_opt.runtime.cuda.steps import Step

_ALIGN = 256


@dataclass(frozen=True)
class Schedule:
    """Streams of the steps, and what each has to wait for.

    Attributes:
        streams: per step.
        waits: per step, the steps of other streams that must have ended and are not waited for anyway.
        before: per step, the set (bits) of the steps that have ended when it starts.
    """

    streams: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]
    before: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many streams there are."""
        return max(self.streams, default=0) + 1


def schedule(steps: Sequence[Step], most: int = 4) -> Schedule:
    """Streams for ``steps``: a step goes on where one that it needs ended, independent ones run side by side."""
    writers: dict[int, list[int]] = {}
    last: list[int] = []
    streams: list[int] = []
    waits: list[tuple[int, ...]] = []
    before: list[int] = []
    for number, step in enumerate(steps):
        needs = sorted({w for view in step.reads for w in writers.get(view.buffer, ())}, reverse=True)
        past = 0
        for need in needs:
            past |= before[need] | 1 << need
        stream = _stream(needs, past, last, streams, most)
        if stream == len(last):
            last.append(-1)
        previous = last[stream]
        own = before[previous] | 1 << previous if previous >= 0 else 0
        missing: list[int] = []
        covered = own
        for need in needs:
            if not covered >> need & 1:
                missing.append(need)
                covered |= before[need] | 1 << need
        last[stream] = number
        streams.append(stream)
        waits.append(tuple(missing))
        before.append(own | past)
        for view in step.writes:
            writers.setdefault(view.buffer, []).append(number)
    return Schedule(tuple(streams), tuple(waits), tuple(before))


def _stream(needs: Sequence[int], past: int, last: Sequence[int], streams: Sequence[int], most: int) -> int:
    for need in needs:
        if last[streams[need]] == need:
            return streams[need]
    for stream, step in enumerate(last):  # one whose last step has ended anyway
        if past >> step & 1:
            return stream
    if len(last) < most:
        return len(last)
    return streams[needs[0]] if needs else 0


def offsets(plan: Plan, planned: Schedule, spaces: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int], int]:
    """Where in one block of memory each buffer of role ``work`` lies, and each step's work space.

    Args:
        spaces: bytes of work space by step.

    Returns:
        offsets by buffer, offsets by step, and the size of the block, in bytes.
    """
    touched: dict[int, int] = {}
    written: dict[int, list[int]] = {}
    for number, step in enumerate(plan.steps):
        for view in (*step.reads, *step.writes):
            if plan.buffers[view.buffer].role == "work":
                touched[view.buffer] = touched.get(view.buffer, 0) | 1 << number
        for view in step.writes:
            written.setdefault(view.buffer, []).append(number)
    wanted = [(b, plan.buffers[b].bytes, touched[b], written.get(b, [])) for b in touched]
    wanted += [(-1 - s, size, 1 << s, [s]) for s, size in spaces.items() if size]
    wanted.sort(key=lambda row: (-row[1], row[0]))  # large ones first
    placed: list[tuple[int, int, int, list[int]]] = []
    found: dict[int, int] = {}
    total = 0
    for key, size, mask, writers in wanted:
        size = -(-size // _ALIGN) * _ALIGN
        busy = sorted((start, end) for start, end, other, theirs in placed
                      if not (_after(other, writers, planned) or _after(mask, theirs, planned)))  # fmt: skip
        offset = 0
        for start, end in busy:
            if offset + size <= start:
                break
            offset = max(offset, end)
        placed.append((offset, offset + size, mask, writers))
        found[key] = offset
        total = max(total, offset + size)
    return {k: v for k, v in found.items() if k >= 0}, {-1 - k: v for k, v in found.items() if k < 0}, total


def _after(mask: int, writers: Sequence[int], planned: Schedule) -> bool:
    """Whether all steps of ``mask`` have ended before any of ``writers`` starts."""
    return all(not mask & ~planned.before[w] for w in writers)
