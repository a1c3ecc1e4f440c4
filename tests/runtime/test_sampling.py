"""How many samples a reading takes, with a clock that only the calls move."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from egraph_opt.runtime import sampling


class Stage:
    """Calls that take as long as they are told, and the clock that says so."""

    def __init__(self) -> None:
        self.now = 0

    def call(self, nanoseconds: Callable[[], float]) -> Callable[[], None]:
        def run() -> None:
            self.now += round(nanoseconds())

        return run


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    found = Stage()
    monkeypatch.setattr(sampling, "clock", lambda threads: lambda: found.now)
    return found


def counts(stage: Stage, *durations: Callable[[], float], early: bool) -> list[int]:
    calls = [stage.call(duration) for duration in durations]
    return [t.samples for t in sampling.sample(calls, threads=1, budget_seconds=30.0, early=early)]


def test_samples_that_agree_end_it_and_only_where_that_is_wanted(stage: Stage) -> None:
    steady = [lambda: 100_000.0, lambda: 70_000.0]
    few, many = counts(stage, *steady, early=True), counts(stage, *steady, early=False)
    assert few[0] == few[1] < many[0] == many[1]


def test_one_call_that_varies_keeps_all_of_them_going(stage: Stage) -> None:
    rng = random.Random(0)
    steady, wild = (lambda: 100_000.0), (lambda: 100_000.0 * rng.uniform(1.0, 30.0))
    alone = counts(stage, steady, early=True)
    assert counts(stage, steady, wild, early=True)[0] > alone[0]


def test_what_slows_some_samples_down_does_not_keep_it_going(stage: Stage) -> None:
    rng = random.Random(0)
    disturbed = counts(stage, lambda: 100_000.0 * rng.choice([1.0, 1.0, 5.0]), early=True)
    assert disturbed == counts(stage, lambda: 100_000.0, early=True)
