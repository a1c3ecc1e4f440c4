"""The choice: candidates are raced against the original, and the fastest one that verifies wins."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import onnx_ir

from egraph_opt.errors import BudgetError
from egraph_opt.onnx_io import Imported, OpsetError, export_model
from egraph_opt.pipeline.candidates import Proposal, Proposer
from egraph_opt.pipeline.options import Options
from egraph_opt.pipeline.report import Candidate, ModelFacts
from egraph_opt.rewrites.subsets import smallest_set
from egraph_opt.runtime import RaceResult, halving
from egraph_opt.runtime.cuda.race import race_on_gpu
from egraph_opt.verification import Runnable, Verdict, alternative_sizes, random_feeds, runnable, symbols, verify

ORIGINAL = "original"
Check = Callable[[onnx_ir.Model, onnx_ir.Model], str]
"""What is wrong with the second model, of which the first is the original; empty where nothing is."""


@dataclass(frozen=True)
class Entry:
    """A candidate as a model."""

    proposal: Proposal
    model: onnx_ir.Model
    row: Candidate


@dataclass(frozen=True)
class Choice:
    """What was chosen.

    Attributes:
        entry: the winner, or None where the original stays.
        verdict: of the last candidate that was verified.
        race: the timing, where there was any.
        refused: candidates that were faster but did not verify.
        guilty: rules that lead to wrong results, found for the first candidate that was refused.
    """

    entry: Entry | None
    verdict: Verdict | None
    race: RaceResult | None
    rows: tuple[Candidate, ...]
    refused: tuple[str, ...] = ()
    guilty: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """A choice, and what was chosen from: for those who ask why."""

    imported: Imported
    proposer: Proposer
    proposals: tuple[Proposal, ...]
    choice: Choice

    @property
    def taken(self) -> Proposal | None:
        """The proposal that became the result."""
        return self.choice.entry.proposal if self.choice.entry else None

    @property
    def best(self) -> Proposal | None:
        """The proposal that is the result, or came nearest to it: the fastest one, else the first."""
        speeds = {row.name: row.ratio or 0.0 for row in self.choice.rows}
        return self.taken or max(self.proposals, key=lambda p: speeds.get(p.name, 0.0), default=None)


@dataclass(frozen=True)
class Fault:
    """A graph in which a check finds fault, what it said, which one it was of those that were proposed, and by whom."""

    entry: Entry
    said: str
    number: int
    proposer: Proposer


@dataclass(frozen=True)
class Chooser:
    """Knows the original, and the sizes at which it is measured and verified.

    ``only`` saturates again, briefly, with some of the rules.
    """

    imported: Imported
    proposer: Proposer
    options: Options
    sizes: Mapping[str, int]
    deadline: float | None
    tell: Callable[[str, int, int, str], None]
    only: Callable[[Collection[str]], Proposer]

    def entries(self, proposals: Sequence[Proposal]) -> list[Entry]:
        """Proposals as models; one that cannot be written at the opset it needs is left out."""
        made: list[Entry] = []
        for proposal in proposals:
            try:
                model = export_model(self.imported, proposal.graph, provenance=self.options.provenance)
            except OpsetError:
                continue
            facts = ModelFacts.of(model)
            row = Candidate(
                proposal.name,
                proposal.estimated,
                proposal.extraction.lower_bound,
                str(proposal.extraction.status),
                facts.nodes,
                facts.opset,
                proposal.rules,
            )
            made.append(Entry(proposal, model, row))
        return made

    def choose(self, entries: Sequence[Entry]) -> Choice:
        """The fastest candidate that is faster than the original and equivalent to it."""
        race = self._race(entries) if self.options.measures and entries else None
        rows = {e.row.name: self._timed(e.row, race) for e in entries}
        ranked = self._ranking(entries, race)
        refused: list[str] = []
        guilty: tuple[str, ...] = ()
        verdict: Verdict | None = None
        for number, entry in enumerate(ranked):
            self.tell("verify", number, len(ranked), entry.row.name)
            verdict = self.verdict(entry.model)
            rows[entry.row.name] = dataclasses.replace(rows[entry.row.name], verdict=verdict.kind)
            if verdict.equivalent:
                return Choice(entry, verdict, race, tuple(rows.values()), tuple(refused), guilty)
            refused.append(entry.row.name)
            if verdict.kind == "unverified":
                break
            guilty = guilty or self._bisect(entry)
        return Choice(None, verdict, race, tuple(rows.values()), tuple(refused), guilty)

    def verdict(self, model: onnx_ir.Model) -> Verdict:
        """Verification of one candidate, within the time that is left (at least one input is compared)."""
        left = None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)
        return verify(
            self.imported.model,
            model,
            numerics=self.options.numerics,
            sizes=self._verified_sizes(),
            feeds=self.options.verify_inputs,
            seed=self.options.seed,
            time_limit=left if left is not None else VERIFY_SECONDS,
        )

    def _verified_sizes(self) -> list[Mapping[str, int]]:
        names = symbols(self.imported.model)
        chosen = {n: self.sizes[n] for n in names if n in self.sizes}
        if not names:
            return []
        return [chosen, *alternative_sizes(self.imported.model, chosen)]

    def _ranking(self, entries: Sequence[Entry], race: RaceResult | None) -> list[Entry]:
        if race is not None:
            faster = [
                e for e in entries if e.row.name in {lap.name for lap in race.laps} and race.is_faster(e.row.name)
            ]
            # a newer opset is only worth it for a gain that the control's spread cannot explain
            raised = {e.row.name: e.row.opset > self.imported.opset for e in faster}
            handicap = {name: 1 + race.spread if raised[name] else 1.0 for name in raised}
            return sorted(faster, key=lambda e: -race.lap(e.row.name).ratio / handicap[e.row.name])
        if self.options.measures:
            return []  # timing was wanted and there was nothing to time
        before = self.proposer.original()
        if self.proposer.whole is not None:
            before *= 1 - LEAST_GAIN
        better = [e for e in entries if e.row.estimated < before or self._is_smaller(e, before)]
        return sorted(better, key=lambda e: (e.row.estimated, e.row.nodes))

    def _is_smaller(self, entry: Entry, before: float) -> bool:
        """Whether reading the model already left nodes out, and the candidate is no dearer than the rest of it."""
        nodes = ModelFacts.of(self.imported.model).nodes
        return self.proposer.lighter and entry.row.estimated <= before * (1 + _NOISE) and entry.row.nodes <= nodes

    def _race(self, entries: Sequence[Entry]) -> RaceResult | None:
        """Times what ONNX Runtime, or the GPU executor, can run; None when not even the original runs."""
        self.tell("time", 0, 1, f"{len(entries)} candidates against the original")
        budget = RACE_SECONDS
        if self.deadline is not None:
            budget = max(min(budget, (self.deadline - time.monotonic()) * 0.6), 0.5)
        if self.options.target == "cuda":
            models = {ORIGINAL: self.imported.model, **{e.row.name: e.model for e in entries}}
            return race_on_gpu(models, sizes=self.sizes, fast=self.options.numerics == "fast", budget_seconds=budget)
        feeds = random_feeds(self.imported.model, self.sizes, self.options.seed)
        with _all_runnable([self.imported.model, *(e.model for e in entries)]) as sources:
            named = dict(zip([ORIGINAL, *(e.row.name for e in entries)], sources, strict=True))
            runs = {name: source for name, source in named.items() if name == ORIGINAL or source.runs(feeds)}
            if not named[ORIGINAL].runs(feeds) or len(runs) < 2:
                return None
            return halving(
                {name: source.source for name, source in runs.items()},
                feeds,
                threads=self.options.threads,
                budget_seconds=budget,
                seed=self.options.seed,
                external_folder=sources[0].folder,
            )

    @staticmethod
    def _timed(row: Candidate, race: RaceResult | None) -> Candidate:
        laps = {lap.name: lap for lap in race.laps} if race else {}
        lap = laps.get(row.name)
        if lap is None:
            return row
        return dataclasses.replace(row, ratio=lap.ratio, median_ratio=lap.median_ratio, latency=lap.b10)

    def fault(self, names: Collection[str] | None, check: Check, limit: int = 1) -> Fault | None:
        """The first graph, of those that these rules alone lead to, in which ``check`` finds fault.

        ``names``: None for the graphs of all rules; ``limit``: how many graphs are looked at.
        """
        try:
            proposer = self.proposer if names is None else self.only(names)
        except BudgetError:
            return None
        for number, proposal in enumerate(proposer.proposals(limit), 1):
            for entry in self.entries([proposal]):
                said = check(self.imported.model, entry.model)
                if said:
                    return Fault(entry, said, number, proposer)
        return None

    def _bisect(self, entry: Entry) -> tuple[str, ...]:
        """The smallest set of rules found in time that leads to wrong results, of those behind a refused candidate."""
        end = time.monotonic() + BISECT_SECONDS
        end = end if self.deadline is None else min(end, self.deadline)

        def differs(_: onnx_ir.Model, made: onnx_ir.Model) -> str:
            verdict = self.verdict(made)
            return verdict.reason if verdict.kind in ("different", "invalid") else ""

        def shows(names: Collection[str]) -> bool:
            return self.fault(names, differs) is not None

        suspects = list(entry.proposal.rules)
        if not shows(suspects):
            return ()
        return tuple(smallest_set(suspects, shows, lambda: time.monotonic() > end)[0])


LEAST_GAIN = 0.01
"""By what share the estimate of a whole graph must be below the original's where nothing is timed."""
_NOISE = 1e-9
"""By how much two sums of the same prices may differ."""
RACE_SECONDS = 12.0
"""Longest that candidates are timed against the original, unless the user's own limit is shorter."""
VERIFY_SECONDS = 60.0
"""Time after which verification starts no further input."""
BISECT_SECONDS = 30.0
"""Time for finding out which rules are behind a wrong candidate."""


@contextmanager
def _all_runnable(models: Sequence[onnx_ir.Model]) -> Generator[list[Runnable]]:
    """The models, each ready to be opened while the context lasts."""
    with ExitStack() as stack:
        yield [stack.enter_context(runnable(model)) for model in models]
