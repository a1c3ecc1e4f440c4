"""Why each node of a model was rewritten or was not: read off the e-graph, the prices and the choice of one run."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from egraph_opt.api import Model, optimize
from egraph_opt.egraph import Selection
from egraph_opt.errors import BudgetError, UsageError
from egraph_opt.explanation.records import Alternative, Explanation, Fate, NodeExplanation, RuleAt, Stop
from egraph_opt.explanation.rules import Attempts
from egraph_opt.explanation.text import Words
from egraph_opt.extraction import NoExtractionError, extract
from egraph_opt.onnx_io import to_ir
from egraph_opt.onnx_io.functions import inlined
from egraph_opt.onnx_io.importer import label_of
from egraph_opt.onnx_io.opaque import opaque_node
from egraph_opt.pipeline import OnProgress
from egraph_opt.pipeline.choose import Decision
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.saturation import Frozen
from egraph_opt.saturation.regions import Region, chain, regions
from egraph_opt.units import seconds

LEAVES = ("Input", "Const", "Get")
MOST_ALTERNATIVES = 12
"""How many ways to compute a value get a price as part of the whole, those that are cheapest by themselves first."""
SAME = 1e-6
"""Relative difference of two costs that is none."""
ALTERNATIVE_SECONDS = 2.0
"""Longest extraction for one of them."""


def explain(
    model: Model,
    *,
    nodes: Sequence[str] = (),
    on_progress: OnProgress | None = None,
    rules: tuple[Rule, ...] = (),
    **options: Any,
) -> Explanation:
    """Why the nodes of a model were rewritten or were not; the model is optimized for that, and is not changed.

    Args:
        model: a path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``.
        nodes: names (or where a node has none, its first output) of those to explain in detail: each rule for its
            operator with what stopped it, and the price of every other way to compute it.
        on_progress, rules, **options: as for ``optimize``.

    Raises:
        UsageError: there is no such node, or as ``optimize``.
        InvalidModelError: the model is not valid.
        BudgetError: the limits left no time or memory to find anything out.
    """
    source = to_ir(model)
    _check_names(source, nodes)
    run = optimize(source, on_progress=on_progress, rules=rules, **options).run
    if run.decision is None:
        raise BudgetError(run.report.reason)
    offered = (*all_rules("thorough"), *(rule for rule in run.rules if rule not in all_rules("thorough")))
    ended = str(run.report.saturation["reason"])
    frozen = run.decision.proposer.frozen
    way = Explainer(run.decision, Attempts(frozen, offered, run.options, ended))
    best = run.decision.best
    before = run.decision.proposer.original()
    return Explanation(
        str(run.report.outcome),
        run.report.reason,
        best.name if best else "",
        run.decision.taken is not None,
        before,
        best.estimated if best else before,
        ended,
        tuple(way.node(node, detailed=label_of(node) in nodes) for node in way.model_nodes),
    )


def _check_names(model: onnx_ir.Model, nodes: Sequence[str]) -> None:
    known = [label_of(node) for node in (inlined(model)).graph]
    for name in nodes:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3, cutoff=0.3) or known[:3]
            raise UsageError(f"the model has no node {name}; there are {len(known)}, for example {', '.join(near)}")


@dataclass(frozen=True)
class Explainer:
    """Answers about single nodes of one run's model."""

    decision: Decision
    attempts: Attempts

    @cached_property
    def model_nodes(self) -> list[onnx_ir.Node]:
        """The nodes of the main graph, with local functions inlined."""
        imported = self.decision.imported
        return list((imported.source or imported.model).graph)

    def node(self, node: onnx_ir.Node, *, detailed: bool) -> NodeExplanation:
        """What became of one node of the model."""
        name, op = label_of(node), node.op_type
        indices = self._read_as.get(name, [])
        live = [i for i in indices if i in self._live]
        fate, reason = self._without_rules(name, live[-1]) if live else _unread(self._folded(indices))
        if fate is not None:
            return NodeExplanation(name, op, fate, reason)
        found = self._changed(name, op, live[-1]) or self._kept(name, op, live[-1])
        if not detailed:
            return found
        ways = tuple(self._alternatives(live[-1]))
        attempts = tuple(_priced(a, ways) for i in live for a in self.attempts.at(i, found.rules))
        return dataclasses.replace(found, attempts=attempts, alternatives=ways)

    # --- what became of it

    def _without_rules(self, name: str, index: int) -> tuple[Fate | None, str]:
        """The fate of a node that rules have nothing to do with."""
        graph = self._frozen.graph
        if graph.nodes[index].op == "Const":
            return Fate.CONSTANT, "its value is known before the model runs"
        first = graph.origins[index].nodes[0]
        if first != name and graph.nodes[index].op != "Opaque":
            return Fate.READ, f"its result is that of {first}"
        if graph.nodes[index].op == "Input":
            return Fate.READ, f"its result is the input {graph.nodes[index].attrs[0]}"
        if graph.nodes[index].op == "Opaque":
            return Fate.OPAQUE, opaque_node(graph, index).why
        return None, ""

    def _changed(self, name: str, op: str, index: int) -> NodeExplanation | None:
        regions_here = self._regions_of.get(index, [])
        changed = [r for r in regions_here if r.rules]
        if not changed:
            return None
        cls = self._frozen.original[index]
        own = next((r for r in changed if r.cls == cls), None)
        region = own or changed[0]
        steps = [n for n in region.new if self._frozen.enodes[n].op not in LEAVES]
        into = tuple(self._words.operator(n) for n in steps or region.new[:1])
        together = self._together(region)
        nodes = (n for r in together for i in r.old for n in self._frozen.graph.origins[i].nodes)
        group = tuple(dict.fromkeys(nodes))
        before, after = self._prices_of(together)
        fate = Fate.REWRITTEN if own else Fate.ABSORBED
        return NodeExplanation(
            name, op, fate, _gain(region, into, before, after), into, region.rules, group, before, after
        )

    def _kept(self, name: str, op: str, index: int) -> NodeExplanation:
        cls, place = self._frozen.original[index], self._frozen.places[index]
        own = float(self._prices[place]) if place >= 0 else None
        others = [n for n in self._frozen.egraph.nodes_of(cls).tolist() if n != place]
        if others:
            cheapest = min(others, key=lambda n: self._prices[n])
            ways = "another way" if len(others) == 1 else f"{len(others)} other ways"
            reason = (
                f"rules found {ways} to compute it, none in a cheaper graph; the cheapest step is"
                f" {self._words.operator(cheapest)}, {seconds(float(self._prices[cheapest]))} instead of {seconds(own)}"
            )
            return NodeExplanation(name, op, Fate.KEPT, reason, before=own, after=own)
        closest = self.attempts.closest(index)
        reason = f"no rule fires; closest is {closest.rule}: {closest.reason}" if closest else "no rule begins with it"
        return NodeExplanation(name, op, Fate.KEPT, reason, before=own, after=own)

    def _together(self, region: Region) -> list[Region]:
        """The region and all that share new e-nodes or old nodes with it, directly or not."""
        found, waiting = {region.cls: region}, [region]
        while waiting:
            here = waiting.pop()
            near = [r for n in here.new for r in self._regions_with.get(n, ())]
            near += [r for i in here.old for r in self._regions_of.get(i, ())]
            fresh = [r for r in near if r.rules and r.cls not in found]
            found.update((r.cls, r) for r in fresh)
            waiting += fresh
        return list(found.values())

    def _prices_of(self, together: Sequence[Region]) -> tuple[float, float]:
        """Seconds of what was and of what is, each node once."""
        places = {self._frozen.places[i] for r in together for i in r.old} - {-1}
        made = {n for r in together for n in r.new}
        return float(sum(self._prices[p] for p in places)), float(sum(self._prices[n] for n in made))

    # --- what else it could have been

    def _alternatives(self, index: int) -> Iterator[Alternative]:
        """Ways to compute the value of a node: the one of the model, the chosen one, then the cheapest."""
        frozen, cls, place = self._frozen, self._frozen.original[index], self._frozen.places[index]
        chosen = int(self._selection.choice[cls]) if cls in self._chosen else -1
        first, text = (place, chosen), self._words.enode
        every = sorted(frozen.egraph.nodes_of(cls).tolist(), key=lambda n: (n not in first, self._prices[n], n))
        told = {text(n): n for n in reversed(every)}  # of those that read the same, the first
        for number in [n for n in every if told[text(n)] == n][:MOST_ALTERNATIVES]:
            op = frozen.graph.nodes[index].op
            rules = () if number == place else tuple(r.name for r in chain(frozen, cls, op, {frozen.enodes[number].op}))
            whole = self._whole(cls, number)
            yield Alternative(text(number), float(self._prices[number]), whole, rules, number == chosen)

    def _whole(self, cls: int, number: int) -> float | None:
        """Seconds of the cheapest graph that computes a class by one of its e-nodes."""
        egraph, proposer = self._frozen.egraph, self.decision.proposer
        forbidden = proposer.forbidden()
        forbidden[egraph.nodes_of(cls)] = True
        forbidden[number] = False
        asked = dataclasses.replace(egraph, roots=np.append(egraph.roots, cls))
        try:
            found = extract(
                asked,
                self._prices,
                extractor=proposer.extractor,
                time_limit=ALTERNATIVE_SECONDS,
                forbidden=forbidden,
                warm_start=self._selection,
            )
        except NoExtractionError:
            return None
        return found.cost

    # --- tables

    @property
    def _frozen(self) -> Frozen:
        return self.decision.proposer.frozen

    @property
    def _prices(self) -> NDArray[np.float64]:
        return self.decision.proposer.prices.seconds

    @cached_property
    def _words(self) -> Words:
        return Words(self._frozen)

    @cached_property
    def _selection(self) -> Selection:
        """The graph that is explained, as a selection; the graph as it was where there is no other."""
        proposal = self.decision.best
        return proposal.extraction.selection if proposal else self._frozen.selection_of_original()

    @cached_property
    def _chosen(self) -> frozenset[int]:
        """Classes that it computes."""
        return frozenset(self._frozen.enodes[n].cls for n in self._selection.order(self._frozen.egraph))

    @cached_property
    def _regions_of(self) -> dict[int, list[Region]]:
        """Regions by the nodes of the graph that they replace."""
        found: dict[int, list[Region]] = {}
        for region in regions(self._frozen, self._selection):
            for index in region.old:
                found.setdefault(index, []).append(region)
        return found

    @cached_property
    def _regions_with(self) -> dict[int, list[Region]]:
        """Regions by the new e-nodes that do something."""
        found: dict[int, list[Region]] = {}
        for region in {r.cls: r for here in self._regions_of.values() for r in here}.values():
            for number in region.new:
                if self._frozen.enodes[number].op not in LEAVES:
                    found.setdefault(number, []).append(region)
        return found

    @cached_property
    def _live(self) -> frozenset[int]:
        return frozenset(self._frozen.graph.live())

    @cached_property
    def _read_as(self) -> dict[str, list[int]]:
        """Nodes of the graph by the nodes of the model that they were read from, in order."""
        found: dict[str, list[int]] = {}
        for index, origin in sorted(self._frozen.graph.origins.items()):
            for name in origin.nodes:
                found.setdefault(name, []).append(index)
        return found

    def _folded(self, indices: Sequence[int]) -> bool:
        """Whether all of these nodes are constants."""
        nodes = self._frozen.graph.nodes
        return bool(indices) and all(nodes[i].op == "Const" for i in indices)


def _priced(attempt: RuleAt, ways: Sequence[Alternative]) -> RuleAt:
    """A rule that fired, with what the graph would cost if it were used."""
    by_it = [way.whole for way in ways if way.whole is not None and attempt.rule in way.rules]
    least = min((way.whole for way in ways if way.whole is not None), default=None)
    if attempt.stop is not Stop.COST or not by_it or least is None:
        return attempt
    best = min(by_it)
    more = (
        "no more"
        if best <= least * (1 + SAME)
        else f"{seconds(best)} (+{best / least - 1:.2%}) instead of {seconds(least)}"
    )
    return dataclasses.replace(attempt, reason=f"it fired; the graph would cost {more} with what it made")


def _unread(folded: bool) -> tuple[Fate, str]:
    if folded:
        return Fate.CONSTANT, "its value is known before the model runs"
    return Fate.UNUSED, "nothing that is left of the model reads it"


def _gain(region: Region, into: Sequence[str], before: float, after: float) -> str:
    return f"{', '.join(into)} by {', '.join(region.rules)}; {seconds(before)} -> {seconds(after)}"
