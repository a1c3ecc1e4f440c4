"""From a graph to the steps that compute it: what is fused, and how values lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.runtime.costs import Order, Orders
from egraph_opt.runtime.cuda.fuse import fused
from egraph_opt.runtime.cuda.fusion import Fusion
from egraph_opt.runtime.cuda.layout import orders, written
from egraph_opt.runtime.cuda.lower import lowered_places
from egraph_opt.runtime.cuda.planner import Planner
from egraph_opt.runtime.cuda.steps import Generated, Plan


def make_plan(
    graph: TensorGraph,
    sizes: Mapping[str, int] | None = None,
    *,
    exact: bool = False,
    lay_inputs: bool = False,
    layouts: bool = True,
    adding: bool = False,
    chosen: Orders | None = None,
) -> Plan:
    """Plans ``graph``; ``sizes`` are the numbers for its symbolic sizes.

    ``exact`` says that float32 may not use TF32: cuDNN then has no good kernel that adds a residual. ``lay_inputs``
    lets inputs lie as their readers want them, as they would between operators of a larger graph. Without ``layouts``
    every value that a step writes is row-major, except by a library's convolutions. ``adding`` lets attention add up
    the parts and the biases of products before it, which it reads once for every 8 rows: those products are quicker
    and it is slower. ``chosen`` are orders by node of ``graph``, row-major for nodes that it leaves out, in place of
    those of the rule of thumb; where a step cannot write in an order, the value lies as that step writes it.

    Raises:
        UsageError: an operator, a dtype or a size that the executor does not support; the message names it.
    """
    draft = Draft.of(graph, sizes, exact=exact, adding=adding)
    return draft.plan(draft.orders(chosen) if layouts else written(draft.fusion, {}), lay_inputs=lay_inputs)


def plans_of(
    graph: TensorGraph, sizes: Mapping[str, int] | None = None, *, exact: bool, layouts: bool, orders: Orders | None
) -> list[Plan]:
    """Different plans of ``graph`` that are worth a try: with ``adding`` and without, each with the orders of the rule
    of thumb and with ``orders``; see ``make_plan``."""
    found: list[Plan] = []
    for chosen in (None,) if orders is None else (None, orders):
        for adding in (False, True):
            plan = make_plan(graph, sizes, exact=exact, layouts=layouts, adding=adding, chosen=chosen)
            if all(plan.steps != other.steps for other in found):
                found.append(plan)
    return found


@dataclass(frozen=True)
class Draft:
    """What of a plan is the same for all orders: the lowered graph, where the values of the given one are in it, and
    what is fused."""

    graph: TensorGraph
    places: Mapping[int, int]
    fusion: Fusion

    @staticmethod
    def of(
        graph: TensorGraph, sizes: Mapping[str, int] | None = None, *, exact: bool = False, adding: bool = False
    ) -> Draft:
        """See ``make_plan``."""
        simple, places = lowered_places(graph, sizes)
        return Draft(simple, places, fused(simple, exact=exact, adding=adding))

    def orders(self, chosen: Orders | None) -> dict[int, Order]:
        """The order of each value that is not row-major, as far as it can be written so; ``chosen``: see
        ``make_plan``."""
        wanted = orders(self.graph)
        if chosen is not None:  # of what operators are lowered to, it knows nothing
            inner = wanted.keys() - set(self.places.values())
            own = {self.places[node]: order for node, order in chosen.items() if node in self.places}
            wanted = {node: wanted[node] for node in inner} | own
        return written(self.fusion, wanted)

    def kind(self, orders: Orders) -> frozenset[tuple[int, Order]]:
        """What of ``orders`` matters: plans of one kind are equal, where inputs are not laid."""
        made = {node for node in orders.keys() & self.fusion.stored if self.graph.nodes[node].op != "Input"}
        return frozenset((node, orders[node]) for node in made)

    def plan(self, orders: Orders, *, lay_inputs: bool = False) -> Plan:
        """The plan in which values lie in these orders, and row-major where there is none."""
        return Planner(self.graph, self.fusion, orders, lay_inputs).run()


def copy_step(type_: TensorType, source: Order, target: Order) -> Generated:
    """The step that copies a value that lies in the order ``source`` into the order ``target``."""
    graph = TensorGraph()
    value = graph.add("Input", ("x",), (), type_)
    planner, rows = Planner(graph, Fusion(graph), {}, False), tuple(range(type_.rank))
    view = planner.new(type_, source or rows)
    return planner.copy(value, view, planner.new(type_, target or rows))
