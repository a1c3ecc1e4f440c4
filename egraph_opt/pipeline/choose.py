"""The choice: candidates are raced against the original, and the fastest one that verifies wins."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir

from egraph_opt.egraph import Selection
from egraph_opt.errors import BudgetError
from egraph_opt.onnx_io import Imported, OpsetError, export_model
from egraph_opt.onnx_io.exporter import needed_opset
from egraph_opt.onnx_io.spreading import spread_factors
from egraph_opt.pipeline.candidates import Proposal, Proposer
from egraph_opt.pipeline.options import Options
from egraph_opt.pipeline.races import AtSize, Races, race_at_sizes
from egraph_opt.pipeline.report import Candidate, ModelFacts
from egraph_opt.rewrites.subsets import smallest_set
from egraph_opt.runtime.side_file import attach, name_values
from egraph_opt.saturation import Worker
from egraph_opt.verification import ApartError, Verdict, apart, symbols, verify

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
        races: the timing, where there was any.
        refused: candidates that were faster but did not verify.
        guilty: the smallest set of rules that was found to lead to wrong results, for the first candidate that was
            refused and for which one was found; for an invalid model only rules without which there is none.
        grown: candidates that are estimated to be cheaper, but have many times the nodes of the original.
    """

    entry: Entry | None
    verdict: Verdict | None
    races: Races | None
    rows: tuple[Candidate, ...]
    refused: tuple[str, ...] = ()
    guilty: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()


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

    ``only`` saturates again, briefly, with some of the rules, in a worker if one is given; ``estimate_at`` prices a
    selection at other sizes than ``sizes``, at which the proposer's e-nodes have their prices.
    """

    imported: Imported
    proposer: Proposer
    options: Options
    sizes: Mapping[str, int]
    deadline: float | None
    tell: Callable[[str, int, int, str], None]
    only: Callable[[Collection[str], Worker | None], Proposer]
    estimate_at: Callable[[Mapping[str, int], Selection], AtSize]
    more_sizes: Sequence[Mapping[str, int]] = ()

    def entries(self, proposals: Sequence[Proposal]) -> list[Entry]:
        """Proposals as models; one that cannot be written at the opset it needs is left out.

        Where ONNX Runtime times them, the first two may be there a second time, with their factors spread.
        """
        made: list[Entry] = []
        for proposal in self._as_written(proposals):
            name_values(proposal.graph, proposal.orders)
            try:
                model = export_model(
                    self.imported, proposal.graph, provenance=self.options.provenance, spread=proposal.spread
                )
            except OpsetError:
                continue
            attach(model, proposal.graph, proposal.orders)
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

    def _as_written(self, proposals: Sequence[Proposal]) -> Iterator[Proposal]:
        for number, proposal in enumerate(proposals):
            yield proposal
            if number < MOST_SPREAD and self.options.measures and self.options.target == "ort-cpu":
                graph = proposal.graph
                if spread_factors(graph, needed_opset(graph, self.imported.opset)):
                    yield dataclasses.replace(proposal, name=f"{proposal.name}, factors spread", spread=True)

    def choose(self, entries: Sequence[Entry]) -> Choice:
        """The fastest candidate that is faster than the original and equivalent to it."""
        races = self._race(entries) if self.options.measures and entries else None
        rows = {e.row.name: self._timed(e.row, races) for e in entries}
        ranked = self._ranking(entries, races)
        if races is not None and ranked and not races.is_far_faster(ranked[0].row.name):
            # of several that are as fast as the original, one is the luckiest: what is faster wins in new sessions too
            races = self._race(ranked) or races
            rows |= {e.row.name: self._timed(e.row, races) for e in ranked}
            ranked = self._ranking(ranked, races)
        refused: list[str] = []
        guilty: tuple[str, ...] = ()
        verdict: Verdict | None = None
        if entries and races is None and self.options.measures:
            verdict = self.verdict(entries[0].model)  # for what it says of the original
        for number, entry in enumerate(ranked):
            self.tell("verify", number, len(ranked), entry.row.name)
            verdict = self.verdict(entry.model)
            row = rows[entry.row.name]
            at = row.at_sizes if races else self._estimated(entry)
            rows[entry.row.name] = dataclasses.replace(row, verdict=verdict.kind, at_sizes=at)
            if verdict.equivalent:
                return Choice(entry, verdict, races, tuple(rows.values()), tuple(refused), guilty)
            refused.append(entry.row.name)
            if verdict.kind == "unverified":
                break
            if not verdict.is_rounding:
                guilty = guilty or self._bisect(verdict.kind, entry, entries.index(entry) + 1)
        grown = tuple(e.row.name for e in entries if races is None and self._is_cheaper(e) and self._grows(e))
        return Choice(None, verdict, races, tuple(rows.values()), tuple(refused), guilty, grown)

    def verdict(self, model: onnx_ir.Model) -> Verdict:
        """Verification of one candidate, within the time that is left (at least one input is compared)."""
        left = None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)
        try:
            return apart(
                verified,
                self.imported.model,
                model,
                measured=[self.sizes, *self.more_sizes],
                numerics=self.options.numerics,
                feeds=self.options.verify_inputs,
                seed=self.options.seed,
                time_limit=left if left is not None else VERIFY_SECONDS,
            )
        except ApartError as error:
            return Verdict("unverified", f"could not be verified: {error}")

    def _ranking(self, entries: Sequence[Entry], races: Races | None) -> list[Entry]:
        if races is not None:
            faster = [e for e in entries if e.row.name in races.names and races.is_faster(e.row.name)]
            # a newer opset is only worth it for a gain that the control's spread cannot explain
            raised = {e.row.name: e.row.opset > self.imported.opset for e in faster}
            handicap = {name: 1 + races.spread if raised[name] else 1.0 for name in raised}
            return sorted(faster, key=lambda e: -races.ratio(e.row.name) / handicap[e.row.name])
        if self.options.measures:
            return []  # timing was wanted and there was nothing to time
        better = [e for e in entries if self._is_cheaper(e) and not self._grows(e)]
        better = [e for e in better if all(at.holds for at in self._estimated(e))]
        return sorted(better, key=lambda e: (e.row.estimated, e.row.nodes))

    def _is_cheaper(self, entry: Entry) -> bool:
        """Whether the estimate is below the original's, or the candidate is what reading it left over."""
        before = self.proposer.original()
        if self.proposer.whole is not None:
            before *= 1 - LEAST_GAIN
        return entry.row.estimated < before or self._is_smaller(entry, before)

    def _grows(self, entry: Entry) -> bool:
        """Whether a candidate has many times the nodes of the original, where nothing but operators has a price.

        A node that is read as many, as a ``Sum`` of 1,000 operands, is one call all the same, but priced as many.
        """
        return self.proposer.whole is None and entry.row.nodes > MOST_GROWTH * self.imported.nodes

    def _is_smaller(self, entry: Entry, before: float) -> bool:
        """Whether reading the model already left nodes out, and the candidate is no dearer than the rest of it."""
        nodes = ModelFacts.of(self.imported.model).nodes
        return self.proposer.lighter and entry.row.estimated <= before * (1 + _NOISE) and entry.row.nodes <= nodes

    def _race(self, entries: Sequence[Entry]) -> Races | None:
        self.tell("time", 0, 1, f"{len(entries)} candidate{'s' * (len(entries) > 1)} against the original")
        models = {e.row.name: e.model for e in entries}
        return race_at_sizes(self.imported.model, models, [self.sizes, *self.more_sizes], self.options, self.deadline)

    @staticmethod
    def _timed(row: Candidate, races: Races | None) -> Candidate:
        laps = {lap.name: lap for lap in races.first.laps} if races else {}
        lap = laps.get(row.name)
        if races is None or lap is None:
            return row
        at = races.at_sizes(row.name) if row.name in races.names else ()
        ratio = races.ratio(row.name) if at else lap.ratio
        return dataclasses.replace(row, ratio=ratio, median_ratio=lap.median_ratio, latency=lap.b10, at_sizes=at)

    def _estimated(self, entry: Entry) -> tuple[AtSize, ...]:
        """What prices say of a candidate at each of several sizes."""
        if not self.more_sizes:
            return ()
        selection = entry.proposal.extraction.selection
        return tuple(self.estimate_at(sizes, selection) for sizes in (self.sizes, *self.more_sizes))

    def fault(
        self, names: Collection[str] | None, check: Check, limit: int = 1, worker: Worker | None = None
    ) -> Fault | None:
        """The first graph, of those that these rules alone lead to, in which ``check`` finds fault.

        ``names``: None for the graphs of all rules; ``limit``: how many graphs are looked at; ``worker``: saturates.
        """
        try:
            proposer = self.proposer if names is None else self.only(names, worker)
        except BudgetError:
            return None
        for number, proposal in enumerate(proposer.proposals(limit), 1):
            for entry in self.entries([proposal]):
                said = check(self.imported.model, entry.model)
                if said:
                    return Fault(entry, said, number, proposer)
        return None

    def as_written(self, check: Check) -> tuple[onnx_ir.Model, str] | None:
        """The model as it is read and written, without any rule, and the fault that ``check`` finds in it, if any."""
        try:
            made = export_model(self.imported, self.imported.graph, provenance=self.options.provenance)
        except OpsetError:
            return None
        said = check(self.imported.model, made)
        return (made, said) if said else None

    def suspects(self, proposal: Proposal) -> Iterator[list[str]]:
        """Names of rules that may be behind a graph: those that explain its nodes, then all that fired: one that only
        united two classes is among these."""
        yield list(proposal.rules)
        fired = {name for names in self.proposer.frozen.fired.values() for name in names}
        yield [rule.name for rule in self.proposer.rules if rule.name in fired]

    def _bisect(self, kind: str, entry: Entry, limit: int) -> tuple[str, ...]:
        """The smallest set of rules found in time that leads to a verdict of this kind, of those behind a candidate.

        An invalid model may as well be the fault of what writes it: only rules whose absence cures it are named.

        ``limit``: how many graphs of each set are looked at. Half of the time that is left is for another try.
        """
        now = time.monotonic()
        end = now + (BISECT_SECONDS if self.deadline is None else min(BISECT_SECONDS, (self.deadline - now) / 2))

        def fault(_: onnx_ir.Model, made: onnx_ir.Model) -> str:
            verdict = self.verdict(made)
            return verdict.reason if verdict.kind == kind else ""

        def late() -> bool:
            return time.monotonic() > end

        with Worker() as worker:

            def shows(names: Collection[str]) -> bool:
                return self.fault(names, fault, limit, worker) is not None

            if kind == "invalid":
                *_, fired = self.suspects(entry.proposal)
                return () if self.as_written(fault) else _cure(fired, shows, late)
            for suspects in self.suspects(entry.proposal):
                if shows(suspects):
                    return tuple(smallest_set(suspects, shows, late)[0])
        return ()


def _cure(rules: Sequence[str], shows: Callable[[Collection[str]], bool], late: Callable[[], bool]) -> tuple[str, ...]:
    """Rules without which the others do not show it: smallest sets that do, in turn; none if time runs out."""
    rest, found = list(rules), list[str]()
    while shows(rest):
        some, minimal = smallest_set(rest, shows, late)
        if not some or not minimal:
            return ()
        found += some
        rest = [name for name in rest if name not in some]
    return tuple(found)


def verified(
    original: onnx_ir.Model, candidate: onnx_ir.Model, *, measured: Sequence[Mapping[str, int]], **options: Any
) -> Verdict:
    """``verify`` at the sizes that are measured, and at others."""
    names = symbols(original)
    sizes = [{n: sizes[n] for n in names if n in sizes} for sizes in measured] if names else []
    return verify(original, candidate, sizes=sizes, others=True, **options)


MOST_SPREAD = 2
"""How many proposals are tried with their factors spread, too."""
MOST_GROWTH = 4
"""How many times the nodes of the original a graph may have that is chosen by the prices of its operators."""
LEAST_GAIN = 0.01
"""By what share the estimate of a whole graph must be below the original's where nothing is timed."""
_NOISE = 1e-9
"""By how much two sums of the same prices may differ."""
VERIFY_SECONDS = 60.0
"""Time after which verification starts no further input."""
BISECT_SECONDS = 30.0
"""Time for finding out which rules are behind a wrong candidate."""
