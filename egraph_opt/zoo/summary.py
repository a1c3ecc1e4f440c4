"""A run in numbers, and what got worse since another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egraph_opt.zoo.journal import latest
from egraph_opt.zoo.records import Outcome, Record

LEAST_LOSS = 0.01
"""Loss of speed that is no regression where no spread of the timing is known."""


@dataclass(frozen=True)
class Speed:
    """How many times faster than the original, measured end to end or as the sum of operator costs has it, and how far
    the original differs from itself where it was measured."""

    ratio: float
    measured: bool
    spread: float = 0.0


def speed_of(record: Record) -> Speed | None:
    """The speed of an optimized model; None for the others, and where nothing is known."""
    report = record.report
    if record.outcome is not Outcome.OPTIMIZED:
        return None
    if report.get("speedup"):
        return Speed(report["speedup"], True, report.get("control_spread") or 0.0)
    before, after = report.get("estimated_before"), report.get("estimated_after")
    return Speed(before / after, False) if before and after else None


def summarize(records: Sequence[Record]) -> dict[str, Any]:
    """Counts by outcome, speed over the models that changed and over all that did not fail (unchanged ones count as 1),
    and time, as plain data."""
    speeds = [speed for speed in map(speed_of, records) if speed]
    sound = [record for record in records if not record.outcome.failed]
    return {
        "models": len(records),
        "outcomes": {str(o): sum(r.outcome is o for r in records) for o in Outcome},
        "failed": sum(record.outcome.failed for record in records),
        "speed": "measured" if any(s.measured for s in speeds) else "estimated",
        "speedup_changed": _mean([s.ratio for s in speeds], len(speeds)),
        "speedup_all": _mean([s.ratio for s in speeds], len(sound)),
        "seconds": sum(record.seconds for record in records),
        "cpu_seconds": sum(record.cpu_seconds for record in records),
        "peak_memory": max((record.peak_memory for record in records), default=0),
    }


def _mean(ratios: Sequence[float], count: int) -> float | None:
    """Geometric mean of ``count`` ratios, those that are not given being 1."""
    return math.exp(sum(map(math.log, ratios)) / count) if count else None


def earlier(records: Sequence[Record]) -> dict[str, Record]:
    """For each model, the record before the last."""
    last = latest(records)
    return latest([record for record in records if record is not last[record.model]])


def regressions(now: Mapping[str, Record], before: Mapping[str, Record]) -> dict[str, str]:
    """What got worse, by model: it fails and did not, nothing is found any more, or it is slower than both spreads
    explain."""
    found = {name: _regression(record, before[name]) for name, record in now.items() if name in before}
    return {name: why for name, why in found.items() if why}


def _regression(now: Record, before: Record) -> str:
    if now.outcome is not before.outcome and not before.outcome.failed:
        if now.outcome.failed or before.outcome is Outcome.OPTIMIZED or now.outcome is Outcome.UNSUPPORTED:
            return f"was {before.outcome}, is {now.outcome}: {now.reason}"
        return ""
    old, new = speed_of(before), speed_of(now)
    if old is None or new is None or old.measured != new.measured:
        return ""
    if new.ratio < old.ratio * (1 - max(old.spread + new.spread, LEAST_LOSS)):
        return f"was {old.ratio:.3f} x as fast as the original, is {new.ratio:.3f} x"
    return ""
