"""Candidates raced against the original at every size that the user named, and what each size says of them."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod
from typing import Literal

import onnx_ir

from egraph_opt.errors import UsageError
from egraph_opt.onnx_io import weight_bytes
from egraph_opt.pipeline.options import Feeds, Options
from egraph_opt.runtime import BaselineError, RaceResult, halving
from egraph_opt.verification import ApartError, Runnable, apart, random_feeds, runnable, symbols

Sizes = Mapping[str, int]
ORIGINAL = "original"
RACE_SECONDS = 12.0
"""Longest that candidates are timed against the original at one size, unless the user's own limit is shorter."""
RACE_BYTES = 8_000_000_000
"""Bytes of weights that may be in memory at once while candidates are timed; of large models, few are."""
LARGEST_LOSS = 0.02
"""What a candidate may seem to lose at one size while it gains at another; more is too much, noise or not."""


@dataclass(frozen=True, slots=True)
class AtSize:
    """A candidate against the original at one size.

    Attributes:
        ratio: the original's seconds over the candidate's: above 1 is faster.
        low, high: what the ratio may as well be, since the original differs from itself by as much; equal to ``ratio``
            for estimates.
        verdict: ``faster`` or ``slower`` where that is more than noise.
        before, after: seconds.
    """

    sizes: Sizes
    ratio: float
    low: float
    high: float
    verdict: Literal["faster", "equal", "slower"]
    before: float
    after: float
    measured: bool = True

    @property
    def holds(self) -> bool:
        """Whether the candidate may be taken as far as this size is concerned."""
        return self.verdict != "slower" and self.ratio >= 1 - LARGEST_LOSS

    @staticmethod
    def estimated(sizes: Sizes, before: float, after: float) -> AtSize:
        """From sums of prices."""
        ratio = before / after if after > 0 else 1.0
        same = abs(ratio - 1) < 1e-9
        return AtSize(
            sizes, ratio, ratio, ratio, "equal" if same else "faster" if ratio > 1 else "slower", before, after, False
        )


@dataclass(frozen=True)
class Races:
    """One race for each size, with the same baseline.

    Attributes:
        skipped: sizes at which the original does not run.
    """

    sizes: tuple[Sizes, ...]
    results: tuple[RaceResult, ...]
    skipped: tuple[Sizes, ...] = ()

    @property
    def first(self) -> RaceResult:
        """The race at the size at which operators were measured."""
        return self.results[0]

    @property
    def spread(self) -> float:
        """How far the original differs from itself, where it does most."""
        return max(result.spread for result in self.results)

    @property
    def names(self) -> list[str]:
        """Candidates that ran at every size."""
        return [lap.name for lap in self.first.laps[1:] if all(lap.name in _names(r) for r in self.results)]

    def ratio(self, name: str) -> float:
        """Geometric mean of the ratios."""
        return prod(r.lap(name).ratio for r in self.results) ** (1 / len(self.results))

    def at_sizes(self, name: str) -> tuple[AtSize, ...]:
        """What each size says of a candidate."""
        return tuple(_at(sizes, result, name) for sizes, result in zip(self.sizes, self.results, strict=True))

    def is_faster(self, name: str) -> bool:
        """Whether a candidate is clearly faster at one size, and does not lose at any."""
        every = self.at_sizes(name)
        return any(at.verdict == "faster" for at in every) and all(at.holds for at in every)

    def is_far_faster(self, name: str) -> bool:
        """Whether it wins at every size by so much that it need not be raced again."""
        return all(result.is_far_faster(name) for result in self.results)


def _names(result: RaceResult) -> set[str]:
    return {lap.name for lap in result.laps}


def _at(sizes: Sizes, result: RaceResult, name: str) -> AtSize:
    lap, baseline = result.lap(name), result.laps[0]
    verdict = "faster" if result.is_faster(name) else "slower" if result.is_slower(name) else "equal"
    noise = 1 + result.spread
    return AtSize(sizes, lap.ratio, lap.ratio / noise, lap.ratio * noise, verdict, baseline.b10, lap.b10)


def race_at_sizes(
    original: onnx_ir.Model,
    candidates: Mapping[str, onnx_ir.Model],
    sizes: Sequence[Sizes],
    options: Options,
    deadline: float | None,
) -> Races | None:
    """Times what ONNX Runtime, or the GPU executor, can run; None when not even the original runs at the first size."""
    budget = RACE_SECONDS
    if deadline is not None:
        budget = max(min(budget, (deadline - time.monotonic()) * 0.6 / len(sizes)), 0.5)
    found: list[tuple[Sizes, RaceResult | None]] = []
    if options.target == "cuda":
        from egraph_opt.runtime.cuda.race import race_on_gpu  # with the executor, which no other target needs

        fast, models = options.numerics == "fast", {ORIGINAL: original, **candidates}
        found = [(s, race_on_gpu(models, sizes=s, fast=fast, budget_seconds=budget)) for s in sizes]
    else:
        weights = max(weight_bytes(original), 1)
        running = dict(list(candidates.items())[: max(RACE_BYTES // weights - 2, 1)])  # the original runs twice
        twice = 2 * weights * (len(running) + 2) <= RACE_BYTES
        plan = Plan(options.threads, options.seed, budget, 2 if twice else 1, options.verify_inputs)
        try:
            results = apart(races_on_cpu, original, *running.values(), names=list(running), sizes=sizes, plan=plan)
        except ApartError:  # as good as an original that does not run
            return None
        found = list(zip(sizes, results, strict=True))
    if found[0][1] is None:
        return None
    names = symbols(original)
    told = [({n: s[n] for n in names if n in s}, result) for s, result in found]
    return Races(
        tuple(s for s, result in told if result is not None),
        tuple(result for _, result in told if result is not None),
        tuple(s for s, result in told if result is None),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """How candidates are raced in ONNX Runtime: see ``halving``.

    ``given`` are the user's own inputs, which are fed where no others can be made up.
    """

    threads: int
    seed: int
    budget_seconds: float
    sessions: int
    given: Feeds | None = None


def races_on_cpu(
    original: onnx_ir.Model, *candidates: onnx_ir.Model, names: Sequence[str], sizes: Sequence[Sizes], plan: Plan
) -> list[RaceResult | None]:
    """A race at each size, None where the original does not run."""
    with _all_runnable([original, *candidates]) as sources:
        named = dict(zip([ORIGINAL, *names], sources, strict=True))
        return [_race(original, named, numbers, plan) for numbers in sizes]


def _race(original: onnx_ir.Model, sources: Mapping[str, Runnable], sizes: Sizes, plan: Plan) -> RaceResult | None:
    try:
        feeds = random_feeds(original, sizes, plan.seed)
    except UsageError:  # an input of no known rank, or no tensor
        feeds = plan.given
    if feeds is None:
        return None
    try:
        found = halving(
            {name: source.source for name, source in sources.items()},
            feeds,
            threads=plan.threads,
            budget_seconds=plan.budget_seconds,
            sessions=plan.sessions,
            seed=plan.seed,
            external_folder=sources[ORIGINAL].folder,
        )
    except BaselineError:
        return None
    return found if len(found.laps) > 1 else None


@contextmanager
def _all_runnable(models: Sequence[onnx_ir.Model]) -> Generator[list[Runnable]]:
    """The models, each ready to be opened while the context lasts, with the folder of the first one's weights."""
    with ExitStack() as stack:
        first, *others = models
        opened = stack.enter_context(runnable(first))
        yield [opened, *(stack.enter_context(runnable(model, within=opened.folder)) for model in others)]
