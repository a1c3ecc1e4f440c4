"""Every strategy on every subject, one after the other, in this process: nothing else may take its time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from egraph_opt.compare.subjects import Subject
from egraph_opt.egraph import Selection
from egraph_opt.errors import EgraphOptError
from egraph_opt.extraction import Guarantee, Moment, extract, extractors
from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io import export_model
from egraph_opt.runtime import race
from egraph_opt.saturation import fold_constants, rebuild
from egraph_opt.search import Pricer, backtrack
from egraph_opt.verification import random_feeds, runnable

BACKTRACKING = "backtracking"
"""Name of the search over whole graphs, which needs a model and its rules."""
ORIGINAL = "original"


@dataclass(frozen=True)
class Row:
    """One strategy on one subject with one seed.

    Attributes:
        cost, lower_bound: in the subject's unit; inf and -inf where there is no answer.
        seconds: wall time of the strategy, reading included, the e-graph's making not.
        nodes: e-nodes (for the search over whole graphs: nodes) of the answer.
        trace: the best cost and bound over time.
        error: why there is no answer; empty otherwise.
        measured: seconds that a run of the extracted model takes, of a model that could be timed.
        ratio: how many times faster than the original it ran.
    """

    subject: str
    strategy: str
    seed: int
    cost: float = math.inf
    lower_bound: float = -math.inf
    status: str = ""
    seconds: float = 0.0
    nodes: int = 0
    trace: tuple[Moment, ...] = ()
    error: str = ""
    measured: float | None = None
    ratio: float | None = None

    @property
    def gap(self) -> float:
        """Relative distance of cost and bound; inf where nothing is known."""
        if not math.isfinite(self.cost) or not math.isfinite(self.lower_bound):
            return math.inf
        return 0.0 if self.cost <= self.lower_bound else (self.cost - self.lower_bound) / abs(self.cost or 1.0)


@dataclass(frozen=True)
class Comparison:
    """All rows, and the subjects in order."""

    subjects: tuple[Subject, ...]
    rows: tuple[Row, ...]
    time_limit: float
    seeds: int

    def of(self, subject: str) -> list[Row]:
        """The rows of one subject, in the order of the strategies."""
        return [row for row in self.rows if row.subject == subject]

    def best(self, subject: str) -> float:
        """The lowest cost that any strategy found; inf if none did."""
        return min((row.cost for row in self.of(subject)), default=math.inf)

    def bound(self, subject: str) -> float:
        """The highest lower bound that any strategy proved."""
        return max((row.lower_bound for row in self.of(subject)), default=-math.inf)

    def is_proven(self, subject: str) -> bool:
        """Whether the lowest cost is known to be the optimum."""
        best, bound = self.best(subject), self.bound(subject)
        return math.isfinite(best) and best - bound <= 1e-9 * max(abs(best), 1e-300)


def compare(
    subjects: Sequence[Subject],
    strategies: Sequence[str],
    *,
    time_limit: float = 30.0,
    seeds: int = 1,
    measure: bool = True,
    on_row: Callable[[Row], None] | None = None,
) -> Comparison:
    """Runs ``strategies`` (every one by default) on ``subjects``; those without random choices run once, whatever
    ``seeds`` is.

    Args:
        time_limit: seconds per strategy and subject.
        measure: also time the extracted models against the original (models only, on this machine's CPU).
        on_row: called with each row as it comes.
    """
    rows: list[Row] = []
    for subject in subjects:
        made: list[tuple[Row, TensorGraph | None]] = []
        for strategy in strategies or _every(subject):
            for seed in range(seeds if _is_random(strategy) else 1):
                made.append(_one(subject, strategy, seed, time_limit))
                if on_row is not None:
                    on_row(made[-1][0])
        rows += _timed(subject, made) if measure and subject.is_model else [row for row, _ in made]
    return Comparison(tuple(subjects), tuple(rows), time_limit, seeds)


def _every(subject: Subject) -> list[str]:
    return [*(e.name for e in extractors()), *([BACKTRACKING] if subject.is_model else [])]


def _is_random(strategy: str) -> bool:
    return any(e.name == strategy and e.guarantee == Guarantee.HEURISTIC for e in extractors())


def _one(subject: Subject, strategy: str, seed: int, time_limit: float) -> tuple[Row, TensorGraph | None]:
    begin = time.monotonic()
    try:
        if strategy == BACKTRACKING:
            return _search(subject, time_limit)
        found = extract(subject.egraph, subject.costs, extractor=strategy, time_limit=time_limit, seed=seed)
    except Exception as error:  # noqa: BLE001 - one strategy that fails must not cost the answers of the others
        said = str(error) if isinstance(error, EgraphOptError) else f"failed: {type(error).__name__}: {error}"
        return Row(subject.name, strategy, seed, seconds=time.monotonic() - begin, error=said), None
    seconds = time.monotonic() - begin
    count = len(found.selection.order(subject.egraph))
    row = Row(
        subject.name, strategy, seed, found.cost, found.lower_bound, str(found.status), seconds, count, found.trace
    )
    return row, _rebuilt(subject, found.selection)


def _rebuilt(subject: Subject, selection: Selection) -> TensorGraph | None:
    return None if subject.explored is None else rebuild(subject.explored.frozen, selection)


def _search(subject: Subject, time_limit: float) -> tuple[Row, TensorGraph | None]:
    if subject.run is None or subject.explored is None:
        return Row(
            subject.name, BACKTRACKING, 0, error="needs a model: an e-graph file has no rules to search with"
        ), None
    options = subject.run.options
    pricer = Pricer(options.prices_by())
    found = backtrack(subject.explored.imported.graph, subject.run.rules, pricer, budget=10**9, time_limit=time_limit)
    graph = fold_constants(found.graph, everything=True)
    trace = tuple(Moment(seconds, cost, -math.inf) for seconds, cost in found.trace)
    status = "feasible" if found.finished else "time-limit"
    row = Row(subject.name, BACKTRACKING, 0, found.cost, -math.inf, status, found.seconds, len(graph.live()), trace)
    return row, graph


def _timed(subject: Subject, made: Sequence[tuple[Row, TensorGraph | None]]) -> list[Row]:
    """The rows with the latency of their models; each distinct graph is timed once, all in one race."""
    assert subject.model is not None and subject.explored is not None
    graphs = {graph.fingerprint(): graph for _, graph in made if graph is not None}
    feeds = random_feeds(subject.model, subject.explored.sizes, 0)
    with ExitStack() as stack:
        sources = {ORIGINAL: stack.enter_context(runnable(subject.model))}
        for mark, graph in graphs.items():
            sources[mark] = stack.enter_context(runnable(export_model(subject.explored.imported, graph)))
        usable = {name: source for name, source in sources.items() if source.runs(feeds)}
        if ORIGINAL not in usable:
            return [row for row, _ in made]
        found = race(
            {name: source.source for name, source in usable.items()},
            feeds,
            threads=subject.run.options.threads if subject.run else 1,
            budget_seconds=4.0 + 2.0 * len(usable),
            external_folder=sources[ORIGINAL].folder,
        )
    laps = {lap.name: lap for lap in found.laps}
    rows: list[Row] = []
    for row, graph in made:
        lap = laps.get(graph.fingerprint()) if graph is not None else None
        rows.append(replace(row, measured=lap.b10, ratio=lap.ratio) if lap else row)
    original = Row(
        subject.name,
        ORIGINAL,
        0,
        subject.original or math.inf,
        status="as it was",
        measured=laps[ORIGINAL].b10,
        ratio=1.0,
    )
    return [original, *rows]
