"""Extraction where values may lie in several orders: four strategies, of which ``joint`` is the one to use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from egraph_opt.egraph import Selection
from egraph_opt.extraction import LazyExtraction, extract_lazily
from egraph_opt.extraction.lazy import LazyCosts
from egraph_opt.pipeline.pricing import concrete_type
from egraph_opt.runtime import CostModel, Orders
from egraph_opt.runtime.registry import PricesLayouts
from egraph_opt.saturation import Frozen

if TYPE_CHECKING:
    from egraph_opt.pipeline.expansion import Expansion

Strategy = Literal["joint", "sequential", "layout", "substitutions"]
"""Graph and layouts at once; first the graph and then its layouts; the layouts of the graph as it was; or the graph
alone, with everything row-major."""


@dataclass(frozen=True)
class Layouts:
    """Extraction from an e-graph of values that may be laid out."""

    frozen: Frozen
    expansion: Expansion
    strategy: Strategy = "joint"

    @staticmethod
    def of(frozen: Frozen, model: CostModel, sizes: Mapping[str, int], strategy: Strategy) -> Layouts | None:
        """None where the target lays nothing out, or no value of the e-graph gains by it."""
        if not isinstance(model, PricesLayouts):
            return None
        from egraph_opt.pipeline.expansion import Expansion  # with the executor, which no other target needs

        types = [concrete_type(type_, dict(sizes)) for type_ in frozen.class_types]
        expansion = Expansion.of(frozen.egraph, frozen.enodes, types, cache(model.conversion))
        return None if expansion is None else Layouts(frozen, expansion, strategy)

    def extract(
        self, costs: LazyCosts, *, warm_start: Selection, forbidden: NDArray[np.bool_],
        surcharge: NDArray[np.float64] | float = 0.0, **options: Any,
    ) -> tuple[LazyExtraction, Orders]:  # fmt: skip
        """A selection of the frozen e-graph, and the orders of its classes; the arguments are ``extract_lazily``'s.

        A graph that is wanted for its surcharge gets its layouts afterwards, whatever the strategy, without a search.

        Raises:
            NoExtractionError: as ``extract_lazily``.
        """
        if self.strategy == "layout":
            forbidden = forbidden | self._all_but(self.frozen.selection_of_original())
        found = extract_lazily(
            self.frozen.egraph, costs, surcharge=surcharge, forbidden=forbidden, warm_start=warm_start, **options
        )
        selection = found.extraction.selection
        if self.strategy == "substitutions":
            return found, {}
        if np.any(surcharge):
            return found, self.expansion.project(self.expansion.lift(selection)).orders
        if self.strategy == "joint":  # from there, which settles most of it
            return self._laid(costs, selection, forbidden, **options)
        return found, self.lay(costs, selection, **options)

    def lay(self, costs: LazyCosts, selection: Selection, **options: Any) -> Orders:
        """The cheapest orders of the classes of one selection."""
        return self._laid(costs, selection, self._all_but(selection), **options)[1]

    def lay_original(self, costs: LazyCosts, **options: Any) -> Orders:
        """The cheapest orders of the graph as it was, by node."""
        if self.strategy == "substitutions":
            return {}
        orders = self.lay(costs, self.frozen.selection_of_original(), **options)
        return {node: orders[cls] for node, cls in enumerate(self.frozen.original) if cls in orders}

    def _all_but(self, selection: Selection) -> NDArray[np.bool_]:
        forbidden = np.ones(self.frozen.egraph.node_count, bool)
        forbidden[selection.order(self.frozen.egraph)] = False
        return forbidden

    def _laid(
        self, costs: LazyCosts, start: Selection, forbidden: NDArray[np.bool_], **options: Any
    ) -> tuple[LazyExtraction, Orders]:
        expansion, laid_costs = self.expansion, self.expansion.priced(costs)
        found = extract_lazily(
            expansion.egraph,
            laid_costs,
            forbidden=expansion.mask(forbidden),
            warm_start=expansion.lift(start),
            **options,
        )
        extraction, laid = expansion.answer(found.extraction, laid_costs.seconds)
        return replace(found, extraction=extraction), laid.orders
