"""Several graphs out of one e-graph, each for a reason: the sum of operator costs is only a proxy for the whole."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from egraph_opt.egraph import Selection, selection_cost
from egraph_opt.extraction import Ended, Extraction, NoExtractionError, Status, extract_lazily
from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.onnx_io.spreading import keeps_blocks
from egraph_opt.pipeline.layouts import Layouts
from egraph_opt.pipeline.pricing import LEAVES, Prices
from egraph_opt.rewrites import Rule
from egraph_opt.runtime import Orders, Whole
from egraph_opt.saturation import Frozen, rebuild
from egraph_opt.saturation.enodes import ENode
from egraph_opt.saturation.rebuild import rebuild_places

NODE_SECONDS = 2e-6
"""What the ``fewest-nodes`` candidate charges for each node on top of its price: launches, caches, memory traffic."""

MEASURING_SECONDS = 0.05
"""What measuring one operator takes, about: extraction that goes on for longer than that is not worth it."""

AS_READ = "as-read"
"""The candidate that no rule made: what is left of the model when it is read."""

VARIANTS = (0.1, 0.3, 1.0, 0.1, 0.3, 2.0, 0.1, 0.3, 1.0, 0.1, 0.3, 2.0)
"""By what factors (of the natural logarithm) the prices of variants are off, where whole graphs have a price."""

HELPERS = frozenset({"commutative", "unit"})
"""Families that only help others to match: there is no graph without them that is worth timing."""
MOST_FAMILIES = 2
"""How many families of rules are tried to be done without, those behind the most nodes first."""


@dataclass(frozen=True)
class Proposal:
    """A graph, how it was extracted, the rules behind it, and its estimated seconds (all prices, no surcharges).

    ``ended``: why no further operator was priced for it. ``orders``: how its values are to lie, by node, where that is
    better than the target's rule of thumb. ``spread``: it is written with factors spread over their images.
    """

    name: str
    graph: TensorGraph
    extraction: Extraction
    rules: dict[str, int]
    estimated: float
    ended: Ended = Ended.PROVEN
    orders: Orders | None = None
    spread: bool = False


@dataclass(frozen=True)
class Proposer:
    """Draws proposals from a priced e-graph.

    Attributes:
        lighter: whether the graph as it was read is a candidate itself, because the model has nodes that it has not.
        whole: seconds of a whole graph, where the cost model can tell; the sum of the prices of its operators is
            then only what guides the search.
        layouts: extracts graphs with their layouts, where the target lays values out.
        opset: opset of the model; e-nodes that need a newer one are only used where ``newer_opset`` allows it.
    """

    frozen: Frozen
    prices: Prices
    rules: tuple[Rule, ...]
    extractor: str
    opset: int
    newer_opset: bool
    seed: int
    time_limit: float
    lighter: bool = False
    whole: Callable[[TensorGraph, Sequence[Orders | None]], Whole] | None = None
    layouts: Layouts | None = None

    @cached_property
    def original_whole(self) -> Whole | None:
        """Seconds of the graph as it was, with the best orders of its values, where the cost model can tell."""
        if self.whole is None:
            return None
        orders = None
        if self.layouts is not None:
            orders = self.layouts.lay_original(self.prices, extractor=self.extractor, time_limit=self.time_limit)
        return self.whole(self.frozen.graph, self._offered(orders))

    def original(self) -> float:
        """Estimated seconds of the graph as it was."""
        if self.original_whole is not None:
            return self.original_whole.seconds
        return float(self.prices.seconds[self.frozen.original_enodes()].sum())

    def proposals(self, limit: int) -> Iterator[Proposal]:
        """Different graphs, the cheapest by estimate first, then variants; none equals the original or another."""
        if self.whole is None:
            return self._different(limit)
        return iter(sorted(self._different(sys.maxsize), key=lambda p: p.estimated)[:limit])

    def _different(self, limit: int) -> Iterator[Proposal]:
        seen = set[str]() if self.lighter else self._originals()
        for proposal in self._drawn():
            identity = proposal.graph.fingerprint()
            if identity not in seen:
                seen.add(identity)
                yield proposal
                limit -= 1
                if limit <= 0:  # here, before another one is extracted
                    return

    def _drawn(self) -> Iterator[Proposal]:
        """Proposals in the order in which they are worth their time, repeats among them."""
        best: Proposal | None = None
        for name, forbidden, surcharge in self._plans():
            if not self._is_answered(best, forbidden, surcharge):
                proposal = self._propose(name, forbidden, surcharge, best)
                if proposal is not None:
                    best = best or proposal
                    yield proposal
        for family in self._families(best) if best is not None else ():
            forbidden = self.forbidden() | self.made_by({family})
            if not self._is_answered(best, forbidden):
                proposal = self._propose(f"without {family}", forbidden, best=best)
                if proposal is not None:
                    yield proposal

    @staticmethod
    def _is_answered(
        best: Proposal | None, forbidden: NDArray[np.bool_], surcharge: NDArray[np.float64] | float = 0.0
    ) -> bool:
        """Whether ``best`` is the answer again: proven for the same prices, it uses nothing that is forbidden."""
        if best is None or best.extraction.status is not Status.OPTIMAL or np.any(surcharge):
            return False
        return not forbidden[_chosen(best.extraction.selection)].any()

    def made_by(self, names: set[str]) -> NDArray[np.bool_]:
        """(n,) e-nodes that, going by their operator and class, only rules called or of the families ``names`` made."""
        blamed = {rule.name for rule in self.rules if rule.name in names or rule.family in names}
        mask = np.zeros(len(self.frozen.enodes), bool)
        for index in np.flatnonzero(self.frozen.is_new):
            makers = self.frozen.made_by(int(index))
            mask[index] = bool(makers) and makers <= blamed
        return mask

    def _originals(self) -> set[str]:
        """Identities of the graph as it was, with constant expressions as they are and evaluated."""
        seen = {self.frozen.graph.fingerprint()}
        selection = self.frozen.selection_of_original()
        if len(selection.order(self.frozen.egraph)) == len(self.frozen.original_enodes()):
            seen.add(rebuild(self.frozen, selection).fingerprint())
        return seen

    def _plans(self) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.float64]]]:
        nothing = np.zeros(len(self.frozen.enodes))
        nodes = NODE_SECONDS * np.array([self._nodes(e) for e in self.frozen.enodes])
        newer = self.prices.opsets > self.opset
        yield "cheapest", self.forbidden(), nothing
        if self.lighter:
            added = np.ones(len(self.frozen.enodes), bool)
            added[self.frozen.original_enodes()] = False
            yield AS_READ, added, nothing
        yield "fewest-nodes", self.forbidden(), nodes
        if self.newer_opset and newer.any():
            yield "same-opset", self.forbidden() | newer, nothing
        if self.whole is not None:
            yield from self._variants()

    def _nodes(self, enode: ENode) -> int:
        """How many nodes run, about: two more where ONNX Runtime changes layouts around a convolution."""
        if enode.op not in ("Conv", "FusedConv") or self.whole is not None:
            return int(enode.op not in LEAVES)
        weight = self.frozen.class_types[enode.operands[1]]
        image = isinstance(weight, TensorType) and weight.rank == 4
        return 3 if image and not keeps_blocks(enode.attrs[3], weight) else 1

    def _variants(self) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.float64]]]:
        """Prices that are off by random factors: what a sum of operators cannot tell, the price of the whole can."""
        rng, end = np.random.default_rng(self.seed), time.monotonic() + self.time_limit
        for number, spread in enumerate(VARIANTS):
            if time.monotonic() > end:
                return
            more = self.prices.seconds * np.expm1(spread * np.abs(rng.standard_normal(len(self.frozen.enodes))))
            yield f"variant {number + 1}", self.forbidden(), more

    def forbidden(self) -> NDArray[np.bool_]:
        """(n,) e-nodes that no proposal may use: those that need a newer opset, where it must stay."""
        if self.newer_opset:
            return np.zeros(len(self.frozen.enodes), bool)
        return self.prices.opsets > self.opset

    def _families(self, proposal: Proposal) -> list[str]:
        family = {rule.name: rule.family for rule in self.rules}
        found = dict.fromkeys(family[name] for name in proposal.rules if name in family)
        return [name for name in found if name not in HELPERS][:MOST_FAMILIES]

    def _propose(
        self,
        name: str,
        forbidden: NDArray[np.bool_],
        surcharge: NDArray[np.float64] | float = 0.0,
        best: Proposal | None = None,
    ) -> Proposal | None:
        extract = partial(extract_lazily, self.frozen.egraph) if self.layouts is None else self.layouts.extract
        try:
            found = extract(
                self.prices,
                surcharge=surcharge,
                extractor=self.extractor,
                time_limit=self.time_limit,
                patience=self.prices.saved * MEASURING_SECONDS,
                seed=self.seed,
                forbidden=forbidden,
                warm_start=self.frozen.selection_of_original() if best is None else best.extraction.selection,
            )
        except NoExtractionError:
            return None
        found, orders = found if isinstance(found, tuple) else (found, None)
        selection = found.extraction.selection
        graph, places = rebuild_places(self.frozen, selection)
        rules = self.frozen.rules_behind(selection)
        orders = None if orders is None else {places[cls]: order for cls, order in orders.items()}
        estimated = selection_cost(self.frozen.egraph, self.prices.seconds, selection)
        if self.whole is not None:
            whole = self.whole(graph, self._offered(orders))
            estimated, orders = whole.seconds, whole.orders
        return Proposal(name, graph, found.extraction, rules, estimated, found.ended, orders)

    def _offered(self, orders: Orders | None) -> Sequence[Orders | None]:
        """The orders that are priced: those of the rule of thumb too, unless nothing is to be laid out."""
        if self.layouts is None:
            return (None,)
        return (orders,) if self.layouts.strategy == "substitutions" else (None, orders)


def _chosen(selection: Selection) -> NDArray[np.int64]:
    """The e-nodes that are selected."""
    return selection.choice[selection.choice >= 0]
