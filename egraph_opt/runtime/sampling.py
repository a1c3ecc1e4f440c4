"""Times one call so that two readings of the same thing agree, on a busy machine too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_SAMPLE_SECONDS = 60e-6  # much longer than reading the clock (0.8 us) and than one clock tick
_MAX_SAMPLES = 300
_FASTEST = 0.15  # share of the samples that count: what disturbs a run only ever adds to it
_AGREEING, _AGREEMENT = 4, 0.01  # so many fastest samples this close to the fastest: more of them say the same
_LEAST = 12  # samples before the first look at that


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call: the mean of the fastest samples, the median, and how many samples there were."""

    seconds: float
    median: float
    samples: int


def clock(threads: int) -> Callable[[], int]:
    """The clock to use, in nanoseconds: CPU time of this thread if it does all the work, else wall time."""
    return time.thread_time_ns if threads == 1 else time.perf_counter_ns


def fastest_mean(samples: list[float], share: float) -> float:
    """Mean of the fastest ``share`` of the samples, of at least one."""
    count = max(1, round(len(samples) * share))
    return sum(sorted(samples)[:count]) / count


def median(samples: list[float]) -> float:
    """The middle sample."""
    ordered = sorted(samples)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def sample(
    calls: Sequence[Callable[[], object]], *, threads: int, budget_seconds: float, early: bool = False
) -> list[Timing]:
    """Seconds per call of each of ``calls``, measured turn by turn for about ``budget_seconds`` of wall time in all.

    What slows the machine down for a while slows all of them, so that differences are good to much less than the
    readings. Short calls are repeated inside one sample; a call that alone exceeds the budget is timed twice after
    two untimed runs. With ``early``, that ends as soon as the fastest samples of each call agree.
    """
    now = clock(threads)
    once = [_once(call, now) for call in calls]
    repeats = [max(1, round(_SAMPLE_SECONDS / seconds)) for seconds in once]
    least = 2 if sum(once) > budget_seconds else 4
    end = time.perf_counter() + budget_seconds
    samples: list[list[float]] = [[] for _ in calls]
    while len(samples[0]) < least or (len(samples[0]) < _MAX_SAMPLES and time.perf_counter() < end):
        for call, count, found in zip(calls, repeats, samples, strict=True):
            call()  # untimed: brings its data back into the caches
            start = now()
            for _ in range(count):
                call()
            found.append((now() - start) * 1e-9 / count)
        if early and len(samples[0]) % _AGREEING == 0 and len(samples[0]) >= _LEAST and all(map(_agrees, samples)):
            break
    return [Timing(fastest_mean(found, _FASTEST), median(found), len(found)) for found in samples]


def _agrees(samples: list[float]) -> bool:
    """Whether the fastest samples are as good as equal."""
    ordered = sorted(samples)
    return ordered[_AGREEING - 1] <= ordered[0] * (1 + _AGREEMENT)


def _once(call: Callable[[], object], now: Callable[[], int]) -> float:
    call()
    start = now()
    call()
    return max(now() - start, 300) * 1e-9
