"""Whole models raced against each other on the same feeds, with a control that says what a difference is worth."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime as ort

from egraph_opt.errors import EgraphOptError, UsageError
from egraph_opt.runtime.sampling import clock, fastest_mean, median
from egraph_opt.runtime.session import Array, open_session, run_session

CONTROL = "(control)"
"""Name under which the first model runs a second time, in sessions of its own."""

_SHORTEST_SAMPLE = 100e-6
_CACHED = 5e-3  # seconds within which a run reads no more than caches may hold: 50 MB at 10 GB/s
_FASTEST = 0.10
_FIRST_CUT = 4  # samples per session before the first candidates may be dropped
_LEAST = 3
_ENOUGH, _BY_FAR = 32, 3.0  # samples, and how many spreads of the control, after which no more samples are needed


class BaselineError(EgraphOptError):
    """The model that others are raced against cannot be loaded or run."""


@dataclass(frozen=True, slots=True)
class Lap:
    """Readings of one model: seconds per run.

    Attributes:
        b10, median: mean of the fastest tenth of the samples, and the middle one.
        ratio, median_ratio: the baseline's over this one's; above 1 is faster than the baseline.
        samples: how many there were; fewer where the model was dropped early.
    """

    name: str
    b10: float
    median: float
    ratio: float
    median_ratio: float
    samples: int


@dataclass(frozen=True, slots=True)
class RaceResult:
    """A race: the baseline, which is timed twice, and the others in their given order.

    Attributes:
        laps: one per model; the first is the baseline, whose readings include the control's.
        spread: how far two sets of sessions of the baseline differ, as a share (0.03: 3 %). What differs less is no
            difference.
        clock: ``thread`` (CPU time of the calling thread) or ``wall``.
        seconds: wall time of the race, sessions included.
    """

    laps: tuple[Lap, ...]
    spread: float
    clock: str
    threads: int
    seconds: float

    def lap(self, name: str) -> Lap:
        """The readings of one model; raises KeyError for a model that did not take part."""
        return {lap.name: lap for lap in self.laps}[name]

    def is_faster(self, name: str) -> bool:
        """Whether the model beats the baseline by more than the control's spread, and its median is not worse by as
        much (the median is the noisier one on a busy machine)."""
        lap = self.lap(name)
        return lap.ratio > 1 + self.spread and lap.median_ratio > 1 - self.spread

    def is_far_faster(self, name: str) -> bool:
        """Whether it beats the baseline, in enough samples, by so much more than the spread that another race would
        say the same."""
        lap = self.lap(name)
        return lap.samples >= _ENOUGH and lap.ratio > 1 + _BY_FAR * self.spread and lap.median_ratio > 1

    def is_slower(self, name: str) -> bool:
        """Whether the baseline beats the model by more than the control's spread, and its median is not worse by as
        much."""
        lap = self.lap(name)
        return lap.ratio < 1 / (1 + self.spread) and lap.median_ratio < 1 + self.spread

    @property
    def winner(self) -> str:
        """The fastest model that is clearly faster than the baseline, else the baseline."""
        faster = [lap for lap in self.laps[1:] if self.is_faster(lap.name)]
        return max(faster, key=lambda lap: lap.ratio).name if faster else self.laps[0].name


def race(
    models: Mapping[str, bytes | Path],
    feeds: Mapping[str, Array],
    *,
    threads: int = 1,
    budget_seconds: float = 10.0,
    samples: int = 100,
    sessions: int = 2,
    seed: int = 0,
    external_folder: Path | None = None,
) -> RaceResult:
    """Times every model until each has ``samples`` readings or the budget is spent.

    Each turn runs the sessions in a new random order, each untimed (its neighbour in time was another session) and then
    timed. Short runs have two untimed ones: what was read once is not all in the last cache yet, which is unfair to a
    model that reads a weight once where the baseline reads it twice. Sessions of a model are created in opposite
    orders, since memory laid out early is often better.

    Args:
        models: serialized models or files, the baseline first.
        feeds: inputs that every model takes.
        budget_seconds: wall time of the timed part; every model gets at least three samples.
        samples: readings per model.
        sessions: per model; 1 saves memory.
        external_folder: where external data of models given as bytes lies.

    Raises:
        UsageError: there is no model, or a number is not positive.
        Exception: ONNX Runtime's own error when a model cannot be loaded or run.
    """
    return _race(models, feeds, _Plan(threads, budget_seconds, samples, sessions, seed, external_folder, False))


def halving(
    models: Mapping[str, bytes | Path],
    feeds: Mapping[str, Array],
    *,
    threads: int = 1,
    budget_seconds: float = 20.0,
    samples: int = 100,
    sessions: int = 2,
    seed: int = 0,
    external_folder: Path | None = None,
) -> RaceResult:
    """Like ``race``, for many candidates: successive halving.

    After 4 turns, 8, 16 and so on, the slower half of the candidates leaves, as far as they are slower than the best
    by more than the control's spread. The baseline and its control always stay. It ends early once all candidates that
    are left are faster, or slower, than the baseline by several times the spread. Candidates that cannot be loaded or
    run are left out.

    Raises:
        UsageError: as ``race``.
        BaselineError: the baseline cannot be loaded or run.
    """
    return _race(models, feeds, _Plan(threads, budget_seconds, samples, sessions, seed, external_folder, True))


_LEAST_SPREAD = 0.02  # below two per cent, sessions of one model differ in the next race, however lucky the control was


@dataclass(frozen=True, slots=True)
class _Plan:
    threads: int
    budget_seconds: float
    samples: int
    sessions: int
    seed: int
    external_folder: Path | None
    drop: bool

    def __post_init__(self) -> None:
        if min(self.threads, self.samples, self.sessions) < 1 or not self.budget_seconds > 0:
            raise UsageError("threads, samples, sessions and budget_seconds must be positive")


@dataclass
class _Runner:
    name: str
    sessions: list[ort.InferenceSession] = field(default_factory=list[ort.InferenceSession])
    samples: list[list[float]] = field(default_factory=list[list[float]])
    repeats: int = 1
    untimed: int = 1

    @property
    def pooled(self) -> list[float]:
        return [s for found in self.samples for s in found]


def _race(models: Mapping[str, bytes | Path], feeds: Mapping[str, Array], plan: _Plan) -> RaceResult:
    if not models:
        raise UsageError("there is no model to time")
    started = time.perf_counter()
    runners = _open(models, feeds, plan)
    once = [_once(runner.sessions[0], feeds, clock(plan.threads)) for runner in runners]
    for runner, seconds in zip(runners, once, strict=True):
        runner.repeats = max(1, round(_SHORTEST_SAMPLE / seconds))
        runner.untimed = 2 if once[0] < _CACHED else 1  # as the baseline: the same for all
    collecting = gc.isenabled()
    gc.disable()  # a collection inside a sample would be charged to that model
    try:
        _take_turns(runners, feeds, plan)
    finally:
        if collecting:
            gc.enable()
    name = "thread" if plan.threads == 1 else "wall"
    return RaceResult(*_laps(runners), name, plan.threads, time.perf_counter() - started)


def _open(models: Mapping[str, bytes | Path], feeds: Mapping[str, Array], plan: _Plan) -> list[_Runner]:
    (first, baseline), *_ = models.items()
    entries = [(first, baseline), (CONTROL, baseline), *list(models.items())[1:]]
    runners = {name: _Runner(name) for name, _ in entries}
    for turn in range(plan.sessions):
        for name, model in entries if turn % 2 == 0 else reversed(entries):
            if name not in runners:
                continue
            try:
                session = open_session(model, threads=plan.threads, external_folder=plan.external_folder)
                run_session(session, feeds)
            except Exception as error:  # ONNX Runtime's errors have no common base class
                if not plan.drop:
                    raise
                if name in (first, CONTROL):
                    raise BaselineError(f"the baseline does not run: {' '.join(str(error).split())[:300]}") from None
                del runners[name]
                continue
            runners[name].sessions.append(session)
            runners[name].samples.append([])
    return list(runners.values())


def _once(session: ort.InferenceSession, feeds: Mapping[str, Array], now: Callable[[], int]) -> float:
    """Seconds of a second run, at least what reading the clock takes."""
    run_session(session, feeds)
    start = now()
    run_session(session, feeds)
    return max(now() - start, 1000) * 1e-9


def _take_turns(runners: list[_Runner], feeds: Mapping[str, Array], plan: _Plan) -> None:
    rng, now = np.random.default_rng(plan.seed), clock(plan.threads)
    active, cut = list(runners), _FIRST_CUT
    end = time.perf_counter() + plan.budget_seconds
    turns = -(-plan.samples // plan.sessions)
    for turn in range(1, turns + 1):
        lanes = [(runner, i) for runner in active for i in range(plan.sessions)]
        for position in rng.permutation(len(lanes)):
            runner, i = lanes[position]
            runner.samples[i].append(_sample(runner, i, feeds, now))
        if time.perf_counter() > end and turn * plan.sessions >= _LEAST:
            return
        if plan.drop and turn == cut:
            active, cut = _keep(active), cut * 2
            if turn * plan.sessions >= _ENOUGH and _is_decided(active):
                return


def _sample(runner: _Runner, i: int, feeds: Mapping[str, Array], now: Callable[[], int]) -> float:
    session = runner.sessions[i]
    for _ in range(runner.untimed):
        run_session(session, feeds)
    start = now()
    for _ in range(runner.repeats):
        run_session(session, feeds)
    return (now() - start) * 1e-9 / runner.repeats


def _keep(active: Sequence[_Runner]) -> list[_Runner]:
    """The baseline, its control, and the faster half of the rest with what cannot be told from the best."""
    baseline, control, *rest = active
    ordered = sorted(rest, key=lambda r: fastest_mean(r.pooled, _FASTEST))
    half = -(-len(ordered) // 2)
    limit = fastest_mean(ordered[0].pooled, _FASTEST) * (1 + _spread(baseline, control)) if ordered else 0.0
    kept = {r.name for n, r in enumerate(ordered) if n < half or fastest_mean(r.pooled, _FASTEST) <= limit}
    for runner in rest:
        if runner.name not in kept:
            runner.sessions.clear()  # gives its memory back
    return [baseline, control, *(r for r in rest if r.name in kept)]


def _is_decided(active: Sequence[_Runner]) -> bool:
    """Whether every candidate that is left is faster, or every one slower, than the baseline by far."""
    found, spread = _laps(active)
    far = 1 + _BY_FAR * spread
    ratios = [(lap.ratio, lap.median_ratio) for lap in found[1:]]
    return all(b10 > far and middle > 1 for b10, middle in ratios) or all(
        b10 < 1 / far and middle < 1 for b10, middle in ratios
    )


def laps(baseline: str, pooled: list[float], others: Sequence[tuple[str, list[float]]]) -> tuple[Lap, ...]:
    """What the samples say: ``pooled`` are those of the baseline and of its control, ``others`` those of the rest."""
    b10, middle = fastest_mean(pooled, _FASTEST), median(pooled)
    found = [Lap(baseline, b10, middle, 1.0, 1.0, len(pooled))]
    for name, samples in others:
        mine, my_middle = fastest_mean(samples, _FASTEST), median(samples)
        found.append(Lap(name, mine, my_middle, b10 / mine, middle / my_middle, len(samples)))
    return tuple(found)


def _laps(runners: Sequence[_Runner]) -> tuple[tuple[Lap, ...], float]:
    baseline, control, *rest = runners
    found = laps(baseline.name, baseline.pooled + control.pooled, [(r.name, r.pooled) for r in rest])
    return found, _spread(baseline, control)


def _spread(baseline: _Runner, control: _Runner) -> float:
    """The larger of the differences in both statistics, and between the single sessions' fastest samples."""
    sides = [[fastest_mean(r.pooled, _FASTEST), median(r.pooled)] for r in (baseline, control)]
    differences = [max(a, b) / max(min(a, b), 1e-12) - 1 for a, b in zip(*sides, strict=True)]
    singles = [min(found) for r in (baseline, control) for found in r.samples]
    return max(*differences, max(singles) / max(min(singles), 1e-12) - 1, _LEAST_SPREAD)
