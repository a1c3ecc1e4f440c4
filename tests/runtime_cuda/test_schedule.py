"""Schedules: whatever the steps need has ended when they start, and independent steps save time."""

from __future__ import annotations

import numpy as np
import pytest

from egraph_opt.runtime.cuda.schedule import Schedule, dependencies, early_starts, schedule
from egraph_opt.runtime.cuda.steps import Generated
from egraph_opt.runtime.cuda.views import View


def step(number: int, reads: list[int], blocks: int = 1) -> Generated:
    """A kernel that writes the buffer of its own number."""
    views = [View(b, "float32", (8,), (1,)) for b in (*reads, number)]
    return Generated(f"step {number}", tuple(views[:-1]), (views[-1],), "", blocks, 32, ())


def random_steps(rng: np.random.Generator, count: int) -> list[Generated]:
    needs = [sorted(rng.choice(n, min(n, int(rng.integers(3))), replace=False).tolist()) for n in range(count)]
    return [step(n, own, int(rng.integers(1, 2000))) for n, own in enumerate(needs)]


def ended_before(found: Schedule) -> list[set[int]]:
    """Per place, the places that have ended when it starts: by stream order and by waits, followed to the end."""
    known: list[set[int]] = []
    for place, waits in enumerate(found.waits):
        direct = [p for p in range(place) if found.streams[p] == found.streams[place]][-1:] + list(waits)
        known.append(set(direct).union(*(known[p] for p in direct)))
    return known


@pytest.mark.parametrize("seed", range(20))
def test_nothing_starts_too_early(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = random_steps(rng, int(rng.integers(1, 40)))
    seconds = rng.uniform(1e-6, 2e-5, len(steps)).tolist()
    found = schedule(steps, seconds, most=int(rng.integers(1, 9)))
    assert sorted(found.order) == list(range(len(steps)))
    place = {number: i for i, number in enumerate(found.order)}
    known = ended_before(found)
    for number, needs in enumerate(dependencies(steps)):
        assert {place[need] for need in needs} <= known[place[number]]
    assert [{p for p in range(len(steps)) if bits >> p & 1} for bits in found.before] == known


@pytest.mark.parametrize("seed", range(20))
def test_only_kernels_of_ours_begin_early(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = random_steps(rng, 30)
    found = schedule(steps, rng.uniform(1e-6, 2e-5, 30).tolist(), most=int(rng.integers(1, 9)))
    ours = (rng.random(30) < 0.7).tolist()
    early, lead = early_starts(found, ours)
    for place in range(30):
        later = [p for p in range(place + 1, 30) if found.streams[p] == found.streams[place]][:1]
        others = [p for p in range(30) if place in found.waits[p]]
        assert place not in early or (ours[place] and not found.waits[place])
        assert (place in lead) == (not others and any(p in early for p in later))


@pytest.mark.parametrize("seed", range(5))
def test_seconds_lie_between_the_longest_path_and_the_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = random_steps(rng, 30)
    seconds = rng.uniform(1e-6, 2e-5, len(steps)).tolist()
    longest = [0.0] * len(steps)
    for number, needs in enumerate(dependencies(steps)):
        longest[number] = seconds[number] + max((longest[n] for n in needs), default=0.0)
    one, many = schedule(steps, seconds, most=1), schedule(steps, seconds)
    assert one.count == 1
    assert max(longest) <= many.seconds <= one.seconds + 1e-12
    assert sum(seconds) <= one.seconds <= sum(seconds) + 1e-6 * len(steps)


def test_small_independent_steps_run_side_by_side() -> None:
    apart = [step(n, []) for n in range(8)]
    chained = [step(n, [n - 1] if n else []) for n in range(8)]
    seconds = [1e-5] * 8
    assert schedule(apart, seconds).seconds < 0.7 * schedule(chained, seconds).seconds
    assert schedule(chained, seconds).count == 1


def test_what_fills_the_gpu_gains_nothing_from_company() -> None:
    large = [step(n, [], blocks=100_000) for n in range(4)]
    seconds = [1e-4] * 4
    assert schedule(large, seconds).seconds > 0.9 * sum(seconds)
