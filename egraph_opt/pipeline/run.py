"""The way of a model through the house, on one screen."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

import numpy as np
import onnx_ir

from egraph_opt.egraph import Selection
from egraph_opt.errors import BudgetError, UsageError
from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io import Imported, import_model
from egraph_opt.onnx_io.shapes import specialise
from egraph_opt.ops import IllTyped
from egraph_opt.pipeline.bodies import has_bodies, with_better_bodies
from egraph_opt.pipeline.candidates import Proposer
from egraph_opt.pipeline.choose import Choice, Chooser, Decision
from egraph_opt.pipeline.layouts import Layouts
from egraph_opt.pipeline.options import OnProgress, Options, Progress
from egraph_opt.pipeline.pricing import Prices, Wanted, price
from egraph_opt.pipeline.races import AtSize
from egraph_opt.pipeline.reasons import why_not
from egraph_opt.pipeline.recording import record_choice, record_prices, record_result, record_saturation
from egraph_opt.pipeline.report import ModelFacts, Outcome, Refusal, Report
from egraph_opt.pipeline.sizes import measured_sizes, observe_sizes, sizes_that_fit
from egraph_opt.pipeline.tries import TRIES, refusal
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.library import all_rules, select_rules
from egraph_opt.rewrites.user import read_user_rules
from egraph_opt.rewrites.validation import admit
from egraph_opt.runtime import Orders, Whole
from egraph_opt.runtime.registry import whole_price
from egraph_opt.runtime.side_file import attach
from egraph_opt.saturation import Frozen, Limits, Saturation, Worker, fold_constants, saturate
from egraph_opt.verification import check_feeds, symbols

SATURATION_SECONDS = 20.0
EXTRACTION_SECONDS = 10.0
BODY_SECONDS = 4.0
"""Longest saturation of one body of a control flow node."""
BODIES_SECONDS = 30.0
"""Time after which the bodies that are left stay as they are."""
BISECT_SECONDS = 3.0
"""Longest saturation with some of the rules, to see whether they lead to wrong results."""
SHARES = {"saturate": 0.25, "price": 0.6}
"""Points of a user's time limit at which saturation and pricing give way to what follows."""


@dataclass(frozen=True)
class Explored:
    """A model, its e-graph, what the e-nodes cost, and the sizes at which they were priced."""

    imported: Imported
    frozen: Frozen
    prices: Prices
    sizes: dict[str, int]


@dataclass
class Run:
    """One model on its way. ``report`` grows with each stage and is whole whenever the run stops.

    ``left_out``: rules that led to results that did not verify, and that this try does without.
    """

    model: onnx_ir.Model
    options: Options
    on_progress: OnProgress | None = None
    rules: tuple[Rule, ...] = ()
    report: Report = field(default_factory=Report)
    frozen: Frozen | None = None
    prices: Prices | None = None
    decision: Decision | None = None
    read_bodies: bool = True
    better_bodies: int = 0
    left_out: frozenset[str] = frozenset()

    def run(self) -> onnx_ir.Model:
        """The optimized model, or the original; ``report`` says which and why.

        Raises:
            UsageError: an option does not fit the model.
        """
        try:
            return self._tried()
        except MemoryError as error:
            return self._original(Outcome.BUDGET, f"there is not enough memory here: {error or 'for its weights'}")

    def _tried(self) -> onnx_ir.Model:
        """What a try made that verified, or the original."""
        result = self._run()
        while self.report.outcome == Outcome.REJECTED and (found := self._refusal()):
            refused, decision = self.report, self.decision
            refusals = [*refused.refusals, found]
            self.left_out |= frozenset(found.left_out)
            self.read_bodies &= bool(found.left_out)
            notes = [note for r in refusals for note in (r.blame, r.said)]
            self.report = Report(refusals=refusals, notes=notes, seconds=refused.seconds)
            result = self._run()
            if self.report.outcome not in (Outcome.OPTIMIZED, Outcome.REJECTED):  # what was refused is what there was
                notes = [*refused.notes, f"{found.said}: {self.report.reason}"]
                self.report, self.decision = dataclasses.replace(refused, notes=notes, refusals=refusals), decision
                break
        return result

    def _refusal(self) -> Refusal | None:
        """What another try does without, after one of which nothing verified; None where there is none to be made."""
        if self.decision is None or len(self.report.refusals) == TRIES:
            return None
        found = refusal(self.decision.choice, self.report.reason, self.loaded, self.better_bodies)
        deadline = self._deadline(1.0)
        if found is not None and deadline is not None and time.monotonic() > deadline:
            self.report.notes.append("no time was left for another try without what led to this")
            return None
        return found

    def _run(self) -> onnx_ir.Model:
        try:
            found = self.explore()
        except BudgetError as error:
            return self._original(Outcome.BUDGET, str(error))
        imported, sizes = found.imported, found.sizes
        proposer = self._proposer(imported, found.frozen, found.prices, sizes)
        whole = proposer.original_whole
        attach(self.model, found.frozen.graph, None if whole is None else whole.orders)  # it is raced with these
        if self.options.measures or proposer.whole is not None:
            choice, _ = self._choose(imported, proposer, sizes, self.options.candidates)
        else:  # estimates decide: others than the best are of use only where that one is of none
            choice, usable = self._choose(imported, proposer, sizes, 1)
            if choice.entry is None and not usable:
                choice, _ = self._choose(imported, proposer, sizes, self.options.candidates)
        return self._conclude(imported, proposer, choice)

    def _choose(
        self, imported: Imported, proposer: Proposer, sizes: dict[str, int], candidates: int
    ) -> tuple[Choice, bool]:
        """The choice among so many candidates, and whether others would be no better: all of these are usable."""
        with self._stage("extract"):
            proposals = list(proposer.proposals(candidates))
        record_prices(self.report, proposer.prices, proposals, lazy=self.options.lazy_costs)
        chooser = self._chooser(imported, proposer, sizes)
        with self._stage("export"):
            entries = chooser.entries(proposals)
        with self._stage("choose"):
            choice = chooser.choose(entries)
        self.decision = Decision(imported, proposer, tuple(proposals), choice)
        written = sum(not entry.proposal.spread for entry in entries)
        return choice, written == len(proposals) and not choice.refused and not choice.grown

    def _chooser(self, imported: Imported, proposer: Proposer, sizes: dict[str, int]) -> Chooser:
        more = [measured_sizes(self.model, shapes) for shapes in self.options.shape_sets[1:]]
        return Chooser(
            imported,
            proposer,
            self.options,
            sizes,
            self._deadline(1.0),
            self._tell,
            only=partial(self._only, imported, sizes),
            estimate_at=partial(self._estimate_at, imported, proposer.frozen),
            more_sizes=[observe_sizes(self.model, imported.graph, sizes)[0] for sizes in more],
        )

    def _estimate_at(self, imported: Imported, frozen: Frozen, sizes: Mapping[str, int], chosen: Selection) -> AtSize:
        """The price of a selection, and of the graph as it was, at other sizes."""
        prices = Prices(Wanted.of(frozen, sizes), self.options.prices_by(), self._deadline(1.0), None)
        nodes = [np.array(frozen.original_enodes(), np.int64), np.array(chosen.order(frozen.egraph), np.int64)]
        for some in nodes:
            prices.settle(some)
        named = {n: sizes[n] for n in symbols(imported.model) if n in sizes}
        return AtSize.estimated(named, *(float(prices.seconds[some].sum()) for some in nodes))

    @property
    def loaded(self) -> tuple[Rule, ...]:
        """The rules of this try."""
        return tuple(rule for rule in self.rules if rule.name not in self.left_out)

    def chooser(self) -> Chooser:
        """Explores the model; what chooses among the graphs that were found.

        Raises:
            BudgetError, UsageError: as ``explore``.
        """
        found = self.explore()
        proposer = self._proposer(found.imported, found.frozen, found.prices, found.sizes)
        return self._chooser(found.imported, proposer, found.sizes)

    def explore(self) -> Explored:
        """The first half of the way: every equal graph, with the price of each e-node.

        Raises:
            BudgetError: not even the graph itself fitted into the limits.
            UsageError: an option does not fit the model.
        """
        self._begin()
        with Worker() as worker:  # it starts while the model is read
            self._prepare()
            with self._stage("import"):
                imported = self._import()
            with self._stage("sizes"):
                sizes = self._sizes(imported)
            if self.read_bodies and has_bodies(imported.graph):
                with self._stage("bodies"):
                    imported = self._better_bodies(imported, sizes)
            with self._stage("saturate"):
                self.frozen = self._saturate(imported, worker).frozen
        with self._stage("price"):
            self.prices = self._price(self.frozen, sizes)
        return Explored(imported, self.frozen, self.prices, sizes)

    # --- stages

    def _begin(self) -> None:
        """The clock of a try, which has the time that others have left of the user's limit."""
        self._start, self._spent = time.monotonic(), self.report.seconds.get("total", 0.0)
        limit = self.options.time_limit
        self._limit = None if limit is None else max(limit - self._spent, 0.0)

    def _prepare(self) -> None:
        self.options.check()
        specialise(self.model, self.options.shapes)
        for shapes in filter(None, self.options.shape_sets):
            measured_sizes(self.model, shapes)  # complain before any work is done
        if self.options.verify_inputs is not None:
            check_feeds(self.model, self.options.verify_inputs)
        named = self.options.skip_rules or self.options.only_rules  # those may be rules of another effort
        offered = self.rules or all_rules("thorough" if named else self.options.effort)
        names = {rule.name for rule in offered}  # on a second way they are all there
        offered += tuple(r for r in read_user_rules(self.options.rule_files) if r.name not in names)
        self.rules = admit(
            select_rules(
                offered,
                self.options.numerics,
                effort=self.options.effort,
                skip=self.options.skip_rules,
                only=self.options.only_rules,
            )
        )
        self.better_bodies = 0
        self.report.before = ModelFacts.of(self.model)
        self.report.options = {k: v for k, v in dataclasses.asdict(self.options).items() if k != "verify_inputs"}
        names = ("egraph-opt", "egglog", "onnx", "onnx-ir", "onnxruntime", "highspy", "numpy")
        self.report.versions = {name: version(name) for name in names}

    def _import(self) -> Imported:
        self._tell("import", 0, 1, "")
        imported = import_model(self.model)
        for op, _ in imported.opaque:
            self.report.opaque = {**self.report.opaque, op: self.report.opaque.get(op, 0) + 1}
        self.report.understood = imported.declared_nodes / imported.nodes if imported.nodes else 1.0
        return dataclasses.replace(imported, graph=fold_constants(imported.graph))

    def _better_bodies(self, imported: Imported, sizes: dict[str, int]) -> Imported:
        """The model with the bodies of If, Loop and Scan optimized, one by one and by estimate, while time lasts."""
        own = self._deadline(SHARES["saturate"])
        latest = min(time.monotonic() + BODIES_SECONDS, math.inf if own is None else own)

        def best(graph: TensorGraph) -> TensorGraph:
            left = latest - time.monotonic()
            if left <= 0:
                return graph
            body = Imported(imported.model, graph, imported.opset)
            limits = Limits(seconds=min(BODY_SECONDS, left), memory=self.options.memory_bytes)
            guard = self.options.numerics != "fast"
            try:
                chosen = sizes_that_fit(graph, sizes)
                frozen = saturate(graph, self.loaded, limits, worker=worker, guard_cancellation=guard).frozen
            except (BudgetError, IllTyped):
                return graph
            proposer = self._proposer(body, frozen, self._price(frozen, chosen), chosen)
            proposer = dataclasses.replace(proposer, newer_opset=False, lighter=False)
            better = [p for p in proposer.proposals(1) if p.estimated < proposer.original()]
            return better[0].graph if better else graph

        with Worker() as worker:
            graph, self.better_bodies = with_better_bodies(imported.graph, best)
        if self.better_bodies:
            self.report.notes.append(f"{self.better_bodies} subgraphs were optimized on their own")
        return dataclasses.replace(imported, graph=graph)

    def _saturate(self, imported: Imported, worker: Worker) -> Saturation:
        seconds = SATURATION_SECONDS
        if self._limit is not None:
            seconds = min(seconds, self._limit * SHARES["saturate"])
        limits = Limits(seconds=seconds, memory=self.options.memory_bytes)
        found = saturate(
            imported.graph,
            self.loaded,
            limits,
            worker=worker,
            guard_cancellation=self.options.numerics != "fast",
            on_progress=lambda r: self._tell("saturate", 0, 0, f"{r.nodes:,} e-nodes"),
        )
        record_saturation(self.report, found)
        return found

    def _sizes(self, imported: Imported) -> dict[str, int]:
        try:
            sizes = measured_sizes(self.model, self.options.shape_sets[0], imported.graph)
        except UsageError as error:
            if self.options.measure_shapes:
                raise
            sizes = dict.fromkeys(symbols(self.model), 1)
            self.report.notes.append(f"sizes of the inputs are taken to be 1: {error}")
        self.report.measured_sizes = sizes
        complete, notes = observe_sizes(self.model, imported.graph, sizes)
        self.report.notes += notes
        return complete

    def _price(self, frozen: Frozen, sizes: dict[str, int]) -> Prices:
        prices = price(
            frozen,
            self.options.prices_by(),
            sizes,
            lazy=self.options.lazy_costs,
            deadline=self._deadline(SHARES["price"]),
            on_progress=lambda done, total: self._tell("price", done, total, "operators measured"),
        )
        self.report.pricing = prices.origins
        return prices

    def _proposer(self, imported: Imported, frozen: Frozen, prices: Prices, sizes: dict[str, int]) -> Proposer:
        left = EXTRACTION_SECONDS
        if self._limit is not None:
            left = min(left, self._limit * 0.1)
        whole = self._whole(frozen.graph, sizes)
        laid = whole and Layouts.of(frozen, self.options.prices_by(), sizes, self.options.layout)
        return Proposer(
            frozen,
            prices,
            self.loaded,
            self.options.extractor,
            imported.opset,
            not self.options.keep_opset,
            self.options.seed,
            left,
            imported.is_lighter or self.better_bodies > 0,
            whole,
            laid,
        )

    def _whole(
        self, graph: TensorGraph, sizes: dict[str, int]
    ) -> Callable[[TensorGraph, Sequence[Orders | None]], Whole] | None:
        """What prices whole graphs, if the target can and runs this one."""
        seconds = whole_price(self.options.prices_by(), sizes)
        if seconds is None or seconds(graph, (None,)) is None:
            return None
        return lambda other, orders: seconds(other, orders) or Whole(math.inf)

    def _only(
        self, imported: Imported, sizes: dict[str, int], names: Collection[str], worker: Worker | None
    ) -> Proposer:
        """What would have been proposed with some of the rules, in a short time."""
        rules = [rule for rule in self.loaded if rule.name in names]
        limits = Limits(seconds=BISECT_SECONDS, memory=self.options.memory_bytes)
        guard = self.options.numerics != "fast"
        frozen = saturate(imported.graph, rules, limits, worker=worker, guard_cancellation=guard).frozen
        return self._proposer(imported, frozen, self._price(frozen, sizes), sizes)

    # --- the end

    def _conclude(self, imported: Imported, proposer: Proposer, choice: Choice) -> onnx_ir.Model:
        self.report.estimated_before = proposer.original()
        record_choice(self.report, choice)
        if choice.entry is None:
            return self._original(*why_not(choice, self.options))
        record_result(self.report, choice, imported)
        return choice.entry.model

    def _original(self, outcome: Outcome, reason: str) -> onnx_ir.Model:
        self.report.outcome, self.report.reason = outcome, reason
        self.report.after = self.report.before
        return self.model

    # --- time

    def _deadline(self, share: float) -> float | None:
        return None if self._limit is None else self._start + self._limit * share

    @contextmanager
    def _stage(self, name: str) -> Generator[None]:
        begin = time.monotonic()
        try:
            yield
        finally:
            self.report.seconds[name] = self.report.seconds.get(name, 0.0) + time.monotonic() - begin
            self.report.seconds["total"] = self._spent + time.monotonic() - self._start

    def _tell(self, stage: str, done: int, total: int, detail: str) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(stage, done, total, detail))
