"""Where what steps write lies until it has been read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from egraph_opt.runtime.cuda.schedule import Schedule
from egraph_opt.runtime.cuda.steps import Plan

_ALIGN = 256


def offsets(plan: Plan, planned: Schedule, spaces: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int], int]:
    """Where in one block of memory each buffer of role ``work`` lies, and each step's work space.

    Args:
        plan: its steps in the order of the schedule.
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
