"""Layouts as e-nodes: an e-graph in which each e-class is a value in one order of its axes.

An e-node becomes one e-node for each way to compute it (``runtime.cuda.layout``), and between two orders of a value
there is a ``to_layout``: the identity in logic, at the price of a copy. A selection of this e-graph is a graph and the
order of each of its values. Computing a value twice, in two orders, is a selection too; ``project`` keeps the first and
copies, so that what it returns may cost more than the bound of the extraction, which stays a bound.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph, Selection, selection_cost
from egraph_opt.extraction import Extraction, Status
from egraph_opt.extraction.lazy import LazyCosts
from egraph_opt.ir import TensorType, TupleType, Type
from egraph_opt.runtime import ROW_MAJOR, Order, Orders
from egraph_opt.runtime.cuda.layout import Applied, Values, Way
from egraph_opt.saturation.enodes import ENode

TO_LAYOUT = "to_layout"
Conversion = Callable[[TensorType, Order, Order], float]
"""Seconds to bring a tensor, whose sizes are numbers, from one order into another."""
_TOLERANCE = 1e-9  # relative: that of ``Status.OPTIMAL``


@dataclass(frozen=True)
class Laid:
    """A selection of the e-graph without layouts, and how each of its classes is computed."""

    selection: Selection
    ways: Mapping[int, Way]
    same: Orders

    @property
    def orders(self) -> Orders:
        """By class. Views have none of their own."""
        lies = {c: w.result or self.same.get(c, ROW_MAJOR) for c, w in self.ways.items() if not w.is_view}
        return {c: order for c, order in lies.items() if order != ROW_MAJOR}


@dataclass(frozen=True)
class Expansion:
    """The e-graph with layouts of a frozen e-graph.

    Attributes:
        egraph: its arrays; the roots are row-major.
        base: (n,) the e-node of the frozen e-graph; -1 for ``to_layout``.
        ways: of each e-node; None for ``to_layout``.
        conversions: (n,) seconds of each ``to_layout``; 0 for others.
        place: class by class of the frozen e-graph and order.
        same: see ``Values``.
    """

    frozen: EGraph
    egraph: EGraph
    base: NDArray[np.int64]
    ways: tuple[Way | None, ...]
    conversions: NDArray[np.float64]
    place: Mapping[tuple[int, Order], int]
    same: Orders

    @staticmethod
    def of(
        egraph: EGraph, enodes: Sequence[ENode], types: Sequence[Type | None], conversion: Conversion
    ) -> Expansion | None:
        """``types``: of each class, with numbers for sizes. None where no value may lie in two orders."""
        applied = [Applied(e.op, e.attrs, e.cls, e.operands) for e in enodes]
        values = Values.of(applied, dict(enumerate(types)))
        if not values.orders:
            return None
        keys = [(c, order) for c in range(len(types)) for order in (ROW_MAJOR, *values.orders.get(c, ()))]
        place = {key: number for number, key in enumerate(keys)}
        rows: list[tuple[str, int, list[int]]] = []
        base, ways, seconds = list[int](), list[Way | None](), list[float]()
        for number, a in enumerate(applied):
            for way in values.ways(a):
                operands = [place[key] for key in zip(a.operands, way.operands, strict=True)]
                rows.append((a.op, place[a.value, way.result], operands))
                base.append(number)
                ways.append(way)
                seconds.append(0.0)
        for cls, offered in values.orders.items():
            tensors, every = _tensors(types[cls]), (ROW_MAJOR, *offered)
            for source, target in ((s, t) for s in every for t in every if s != t):
                rows.append((TO_LAYOUT, place[cls, target], [place[cls, source]]))
                base.append(-1)
                ways.append(None)
                seconds.append(sum(conversion(tensor, source, target) for tensor in tensors))
        roots = [place[int(root), ROW_MAJOR] for root in egraph.roots]
        laid = EGraph.build(rows, roots, len(place))
        return Expansion(egraph, laid, np.array(base), tuple(ways), np.array(seconds), place, values.same)

    # --- to the e-graph with layouts

    def costs(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) the cost of each e-node; ``seconds``: those of the frozen one's."""
        runs = np.array([way is not None and not way.is_view for way in self.ways])
        return np.where(runs, seconds[self.base], 0.0) + self.conversions

    def priced(self, costs: LazyCosts) -> LaidCosts:
        """Costs of the e-nodes, looked up where those of the frozen e-graph are."""
        return LaidCosts(self, costs)

    def mask(self, nodes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(n,) the e-nodes of which ``nodes`` holds that they come from; not true of any ``to_layout``."""
        return (self.base >= 0) & nodes[self.base]

    def lift(self, selection: Selection) -> Selection:
        """A selection of the frozen e-graph with layouts: each value as it needs the fewest copies before it."""
        lies: dict[int, Way] = {}
        owner = self.frozen.node_class
        for node in selection.order(self.frozen):
            operands = self.frozen.operands(node).tolist()
            copied = {
                number: sum(o != lies[c].result for c, o in zip(operands, way.operands, strict=True))
                for number in self._of_base[node]
                if (way := self.ways[number]) is not None
            }
            best = self.ways[min(copied, key=copied.__getitem__)]
            assert best is not None
            lies[int(owner[node])] = best
        return self.laid(Laid(selection, lies, self.same))

    def laid(self, laid: Laid) -> Selection:
        """The selection that computes each value once, in the way that is given, and copies it into other orders."""
        choice = np.full(self.egraph.class_count, -1, np.int64)
        for cls, way in laid.ways.items():
            node = int(laid.selection.choice[cls])
            choice[self.place[cls, way.result]] = next(n for n in self._of_base[node] if self.ways[n] == way)
            for number in self._copies[self.place[cls, way.result]]:
                choice[self.egraph.node_class[number]] = number
        return Selection(choice)

    # --- back

    def project(self, selection: Selection) -> Laid:
        """What a selection of this e-graph computes. Of a class in several orders, the one that is computed first is
        kept: what it needs was computed before, so that there is no cycle."""
        choice, ways = np.full(self.frozen.class_count, -1, np.int64), dict[int, Way]()
        for number in selection.order(self.egraph):
            way, node = self.ways[number], int(self.base[number])
            if way is not None and choice[self.frozen.node_class[node]] < 0:
                choice[self.frozen.node_class[node]] = node
                ways[int(self.frozen.node_class[node])] = way
        kept = Selection(choice)
        needed = {int(self.frozen.node_class[n]) for n in kept.order(self.frozen)}
        choice[[c for c in range(len(choice)) if c not in needed]] = -1
        return Laid(kept, {c: w for c, w in ways.items() if c in needed}, self.same)

    def answer(self, found: Extraction, costs: NDArray[np.float64]) -> tuple[Extraction, Laid]:
        """An extraction from this e-graph as one from the frozen e-graph; the cost is that with layouts."""
        laid = self.project(found.selection)
        cost = selection_cost(self.egraph, costs, self.laid(laid))
        proven = cost <= found.lower_bound + _TOLERANCE * abs(cost)
        status = Status.FEASIBLE if found.status is Status.OPTIMAL and not proven else found.status
        return replace(found, selection=laid.selection, cost=cost, status=status), laid

    @cached_property
    def _of_base(self) -> Mapping[int, list[int]]:
        """E-nodes by their e-node of the frozen e-graph."""
        found = defaultdict[int, list[int]](list)
        for number in np.flatnonzero(self.base >= 0).tolist():
            found[int(self.base[number])].append(number)
        return found

    @cached_property
    def _copies(self) -> Mapping[int, list[int]]:
        """The ``to_layout``s by what they copy."""
        found = defaultdict[int, list[int]](list)
        for number in np.flatnonzero(self.base < 0).tolist():
            found[int(self.egraph.operands(number)[0])].append(number)
        return found


def _tensors(type_: Type | None) -> list[TensorType]:
    items = type_.items if isinstance(type_, TupleType) else (type_,)
    return [item for item in items if isinstance(item, TensorType)]


@dataclass(frozen=True)
class LaidCosts:
    """See ``Expansion.priced`` and ``LazyCosts``."""

    expansion: Expansion
    costs: LazyCosts

    @property
    def seconds(self) -> NDArray[np.float64]:
        return self.expansion.costs(self.costs.seconds)

    @property
    def exact(self) -> NDArray[np.bool_]:
        return (self.expansion.base < 0) | self.costs.exact[self.expansion.base]

    @property
    def bounds_hold(self) -> bool:
        return self.costs.bounds_hold

    def settle(self, nodes: NDArray[np.int64]) -> None:
        base = self.expansion.base[nodes]
        self.costs.settle(np.unique(base[base >= 0]))
