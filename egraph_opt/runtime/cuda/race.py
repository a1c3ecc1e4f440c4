"""Whole models raced on this machine's GPU, with a control: the GPU's part of ``runtime.timing``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from egraph_opt.errors import BudgetError, UsageError
from egraph_opt.onnx_io.load import Model
from egraph_opt.runtime.cuda.executor import Program, compile
from egraph_opt.runtime.cuda.tune import Choices, Tuner
from egraph_opt.runtime.sampling import fastest_mean, median
from egraph_opt.runtime.timing import CONTROL, RaceResult, laps

_SAMPLE, _TURNS = 2e-3, 25
"""Seconds of one sample (replays back to back), and samples per model at most."""
_FASTEST, _LEAST_SPREAD = 0.10, 0.01


@dataclass
class _Lane:
    name: str
    program: Program
    replays: int
    samples: list[float] = field(default_factory=list[float])


def race_on_gpu(
    models: Mapping[str, Model], *, sizes: Mapping[str, int], fast: bool, budget_seconds: float
) -> RaceResult | None:
    """Times every model in turns; ``None`` where the executor does not run the first one, the baseline.

    Args:
        models: the baseline first. Others that the executor does not run are left out.
        sizes: numbers for symbolic sizes.
        fast: float32 products and convolutions may use TF32.
        budget_seconds: of the timed part; every model gets three samples at least.

    Raises:
        UsageError: there is no usable GPU.
        BudgetError: the baseline does not fit into the GPU's memory.
    """
    started, tuner = time.perf_counter(), Tuner(Choices())
    lanes: list[_Lane] = []
    (first, baseline), *others = models.items()
    for name, model in [(first, baseline), (CONTROL, baseline), *others]:
        try:
            program = compile(model, fast=fast, sizes=sizes, tuner=tuner)
        except UsageError:
            if name == first:
                return None
            continue
        except BudgetError:
            if name == first:
                raise
            continue
        lanes.append(_Lane(name, program, max(1, round(_SAMPLE / program.seconds(replays=5, rounds=1)))))
    end = time.perf_counter() + budget_seconds
    for turn in range(_TURNS):
        for lane in lanes if turn % 2 == 0 else reversed(lanes):
            lane.samples.append(lane.program.seconds(replays=lane.replays, rounds=1))
        if time.perf_counter() > end and turn >= 2:
            break
    return _result(lanes, time.perf_counter() - started)


def _result(lanes: list[_Lane], seconds: float) -> RaceResult:
    baseline, control, *rest = lanes
    found = laps(baseline.name, baseline.samples + control.samples, [(lane.name, lane.samples) for lane in rest])
    sides = [(fastest_mean(x.samples, _FASTEST), median(x.samples)) for x in (baseline, control)]
    spread = max(max(a, b) / min(a, b) - 1 for a, b in zip(*sides, strict=True))
    return RaceResult(found, max(spread, _LEAST_SPREAD), "gpu", 1, seconds)
