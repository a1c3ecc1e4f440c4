"""Costs of e-nodes: each distinct signature is priced once, at the sizes at which the model is measured."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir import OpaqueType, TensorType, TupleType, Type, evaluate
from egraph_opt.ops import operator
from egraph_opt.ops.base import concrete
from egraph_opt.runtime import SECONDS_PER_STORED_BYTE, Cost, CostModel, Quote, Signature
from egraph_opt.saturation import Frozen

LEAVES = ("Input", "Const", "Get")


@dataclass(frozen=True)
class Wanted:
    """What of the e-nodes of a frozen e-graph needs a price.

    Attributes:
        signatures: the distinct ones.
        place: (n,) index of the e-node's signature; -1 where nothing is run.
        seconds: (n,) the price of e-nodes without a signature: that of stored weights; else 0.
        opsets: (n,) the lowest opset that can express the e-node.
        original: indices of the signatures of the graph as it was.
    """

    signatures: tuple[Signature, ...]
    place: NDArray[np.int64]
    seconds: NDArray[np.float64]
    opsets: NDArray[np.int64]
    original: tuple[int, ...]

    @staticmethod
    def of(frozen: Frozen, sizes: Mapping[str, int]) -> Wanted:
        """``sizes`` has a number for every symbol."""
        numbers = dict(sizes)
        types = [concrete_type(t, numbers) for t in frozen.class_types]
        constant = {e.cls for e in frozen.enodes if e.op == "Const"}
        found: dict[Signature, int] = {}
        place = np.full(len(frozen.enodes), -1, np.int64)
        seconds = np.zeros(len(frozen.enodes))
        opsets = np.zeros(len(frozen.enodes), np.int64)
        for index, enode in enumerate(frozen.enodes):
            if enode.op == "Const":
                type_ = types[enode.cls]
                stored = int(str(type_.bytes)) if isinstance(type_, TensorType) else 0
                seconds[index] = stored * SECONDS_PER_STORED_BYTE
            elif enode.op not in LEAVES:
                operands = [types[c] for c in enode.operands]
                attrs = tuple(concrete(a, numbers) for a in enode.attrs)
                flags = tuple(c in constant for c in enode.operands)
                known = tuple(t if t is not None else OpaqueType("") for t in operands)
                place[index] = found.setdefault(Signature(enode.op, attrs, known, flags), len(found))
                if enode.op != "Opaque":
                    given = [frozen.class_types[c] for c in enode.operands]
                    opsets[index] = operator(enode.op).opset(enode.attrs, given)  # type: ignore[arg-type]
        original = dict.fromkeys(place[frozen.original_enodes()].tolist())
        return Wanted(tuple(found), place, seconds, opsets, tuple(i for i in original if i >= 0))


class Prices:
    """Costs of the e-nodes of a frozen e-graph; made by ``price``.

    Attributes:
        wanted: what has or needs a price.
        seconds: (n,) what extraction minimises; where not ``exact``, a lower bound of that.
        exact: (n,) whether the cost is known.
        opsets: (n,) the lowest opset that can express the e-node.
        batches: how often the cost model was asked.
        violated: signatures whose price turned out below its bound.
    """

    def __init__(
        self,
        wanted: Wanted,
        model: CostModel,
        deadline: float | None,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self.wanted, self._model = wanted, model
        self._deadline, self._on_progress = deadline, on_progress
        self._costs: dict[int, Cost] = {}
        self._quotes: list[Quote] = []
        self._quoted: frozenset[str] = frozenset()
        self._reference = [wanted.signatures[i] for i in wanted.original]
        self.seconds, self.opsets = wanted.seconds.copy(), wanted.opsets
        self.exact = wanted.place < 0
        self.batches = 0
        self.violated: list[str] = []

    @property
    def bounds_hold(self) -> bool:
        """Whether no price was below its bound."""
        return not self.violated

    @property
    def origins(self) -> dict[str, int]:
        """How many distinct signatures were measured, computed by formula, or estimated."""
        return dict(Counter(cost.origin for cost in self._costs.values()))

    @property
    def asked(self) -> int:
        """How many measurements would have been needed for all prices, given the graph as it was and the database."""
        return len(self._quoted)

    @property
    def saved(self) -> int:
        """How many of those were not made."""
        known = {self._quotes[i].key for i in self._costs} if self._quotes else set[str]()
        return len(self._quoted - known)

    def settle(self, nodes: NDArray[np.int64] | None = None) -> None:
        """Makes the costs of these e-nodes exact, and of others that share a measurement with them; None: of all."""
        places = self.wanted.place if nodes is None else self.wanted.place[nodes]
        chosen = {i for i in np.unique(places).tolist() if i >= 0 and i not in self._costs}
        if self._quotes:
            keys = {self._quotes[i].key for i in chosen}
            chosen |= {i for i, q in enumerate(self._quotes) if q.key in keys and i not in self._costs}
        self._price(sorted(chosen))

    def ask(self) -> None:
        """Prices the graph as it was, and takes what needs no measurement; all else has a bound from then on."""
        self._price(sorted(self.wanted.original))
        signatures = self.wanted.signatures
        self._quotes = self._model.quote(signatures, reference=self._reference)
        self._quoted = frozenset(q.key for q in self._quotes if q.cost is None)
        for index, quote in enumerate(self._quotes):
            if index in self._costs:
                continue
            if quote.cost is not None:
                self._set(index, quote.cost)
            else:
                self.seconds[self.wanted.place == index] = quote.lower_bound

    def _price(self, places: list[int]) -> None:
        if not places:
            return
        signatures = [self.wanted.signatures[i] for i in places]
        costs = self._model.price(
            signatures, reference=self._reference, on_progress=self._on_progress, deadline=self._deadline
        )
        self.batches += 1
        late = self._deadline is not None and time.monotonic() >= self._deadline  # what is estimated has no bound
        for index, signature, cost in zip(places, signatures, costs, strict=True):
            self._set(index, cost)
            if self._quotes and not late and cost.seconds < self._quotes[index].lower_bound * (1 - 1e-9):
                self.violated.append(signature.key)

    def _set(self, index: int, cost: Cost) -> None:
        self._costs[index] = cost
        nodes = self.wanted.place == index
        self.seconds[nodes], self.exact[nodes] = cost.seconds, True


def price(
    frozen: Frozen,
    model: CostModel,
    sizes: Mapping[str, int],
    *,
    lazy: bool = False,
    deadline: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Prices:
    """Prices every e-node; ``lazy`` ones that would have to be measured only once they are asked for.

    The graph as it was is always priced. ``deadline`` is a reading of ``time.monotonic()`` after which nothing more is
    measured.
    """
    prices = Prices(Wanted.of(frozen, sizes), model, deadline, on_progress)
    if lazy:
        prices.ask()
    else:
        prices.settle()
    return prices


def concrete_type(type_: Type | None, sizes: dict[str, int]) -> Type | None:
    """A type with numbers for its symbols."""
    if isinstance(type_, TensorType):
        return TensorType(type_.dtype, tuple(evaluate(size, sizes) for size in type_.shape))
    if isinstance(type_, TupleType):
        items = tuple(concrete_type(t, sizes) for t in type_.items)
        return TupleType(items)  # type: ignore[arg-type]
    return type_
