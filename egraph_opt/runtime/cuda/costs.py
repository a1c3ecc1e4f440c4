"""The cost model ``cuda``: measured on this machine's GPU, or read from the measurements that ship with the package."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.runtime.analytic import Analytic
from egraph_opt.runtime.bounds import Peaks
from egraph_opt.runtime.costs import NOTHING, Cost, OnProgress, Order, Orders, Quote, Whole, work
from egraph_opt.runtime.cuda.expressions import ELEMENTWISE
from egraph_opt.runtime.cuda.fitted import Fitted
from egraph_opt.runtime.cuda.measure import measure, scope_here, signature_of
from egraph_opt.runtime.cuda.movers import MOVERS
from egraph_opt.runtime.cuda.plan import Draft, copy_step
from egraph_opt.runtime.cuda.prices import shipped_steps
from egraph_opt.runtime.database import CostDatabase, Entry
from egraph_opt.runtime.signature import FREE, Signature

if TYPE_CHECKING:
    from egraph_opt.runtime.cuda.tune import Choices

SHIPPED = ("h100",)
_LAUNCH = 1.25e-6
"""Seconds of a kernel that does nothing, in a replayed graph."""
_HALF = 16.0
"""How many times faster than float32 products of half precision are at most."""
_FUSED = (ELEMENTWISE - {"BatchNormalization"}) | MOVERS
"""What is computed inside a kernel that is launched anyway; a BatchNormalization mostly follows a library call."""


@dataclass(frozen=True)
class Cuda:
    """Prices operators as the executor runs them.

    Attributes:
        device: ``h100`` for the shipped measurements; empty for this machine's GPU, which measures what it lacks.
        threads: has no meaning here; every cost model takes it.
        fast: float32 products and convolutions may use TF32 (measured here only).
    """

    name: ClassVar[str] = "cuda"
    description: ClassVar[str] = "cuBLAS, cuDNN and generated kernels, measured; cuda:h100 needs no GPU"

    device: str = ""
    threads: int = 1
    fast: bool = False

    def __post_init__(self) -> None:
        if self.device and self.device not in SHIPPED:
            raise UsageError(f"no measurements of {self.device!r} are shipped: choose one of {', '.join(SHIPPED)}")
        if self.device and self.fast:
            raise UsageError("the shipped measurements are of exact float32: leave out fast")

    def price(
        self,
        signatures: Sequence[Signature],
        *,
        reference: Sequence[Signature] = (),
        on_progress: OnProgress | None = None,
        deadline: float | None = None,
    ) -> list[Cost]:
        """See ``CostModel.price``. What is not measured is estimated from what ships, by the fitted model.

        Raises:
            UsageError: costs of this machine are wanted and there is no GPU.
        """
        wanted = list(dict.fromkeys(s for s in signatures if s.op not in FREE))
        known = dict(shipped(self.device)) if self.device else self._measured(wanted, on_progress, deadline)
        costs = {s: self._cost(s, known.get(s)) for s in wanted}
        return [costs.get(s, NOTHING) for s in signatures]

    def quote(self, signatures: Sequence[Signature], *, reference: Sequence[Signature] = ()) -> list[Quote]:
        """See ``CostModel.quote``. Speeds are bounded by the fastest of the shipped and of this machine's operators.

        Raises:
            UsageError: as ``price``.
        """
        if self.device:
            return [Quote.known(s, cost) for s, cost in zip(signatures, self.price(signatures), strict=True)]
        wanted = list(dict.fromkeys(s for s in (*signatures, *reference) if s.op not in FREE))
        known = self._read(wanted)
        seen = [(work(s), e.seconds) for s, e in [*shipped(SHIPPED[0]).items(), *known.items()] if e.seconds]
        peaks = Peaks.of(seen, partial(widening, fast=self.fast))
        quotes: list[Quote] = []
        for s in signatures:
            if s.op in FREE or s in known or not s.is_known:
                quotes.append(Quote.known(s, NOTHING if s.op in FREE else self._cost(s, known.get(s))))
            else:
                quotes.append(Quote(s.key, None, _less_launch(s, peaks.seconds(work(s)))))
        return quotes

    def whole(
        self, graph: TensorGraph, sizes: Mapping[str, int], orders: Sequence[Orders | None] = (None,)
    ) -> Whole | None:
        """Seconds of one run of ``graph`` by the executor: what it fuses, and what it runs side by side.

        Made of the shipped seconds of its steps, for this machine's GPU too: its candidates are raced afterwards.
        The least over several orders of values (``chosen`` of ``make_plan``), of equals the first. ``None`` where the
        executor does not run the graph.
        """
        prices = shipped_steps(self.device or SHIPPED[0])
        try:
            draft = Draft.of(graph, sizes, exact=not self.fast)
            priced: dict[frozenset[tuple[int, Order]], Whole] = {}
            for given in orders:
                found = draft.orders(given)
                if draft.kind(found) not in priced:
                    priced[draft.kind(found)] = Whole(prices.plan(draft.plan(found), self.fast), given)
            return min(priced.values(), key=lambda whole: whole.seconds)
        except UsageError:
            return None

    def conversion(self, type_: TensorType, source: Order, target: Order) -> float:
        """Seconds to copy a tensor from one order into another, by the shipped seconds of such steps."""
        step = copy_step(type_, source, target)
        return shipped_steps(self.device or SHIPPED[0]).seconds(step, self.fast)

    def _read(self, wanted: Sequence[Signature]) -> dict[Signature, Entry]:
        database = CostDatabase.open()
        try:
            found = database.read((s.key for s in wanted), scope_here(self.fast))
        finally:
            database.close()
        return {s: found[s.key] for s in wanted if s.key in found}

    def _measured(
        self, wanted: Sequence[Signature], on_progress: OnProgress | None, deadline: float | None
    ) -> dict[Signature, Entry]:
        from egraph_opt.runtime.cuda.tune import Tuner

        scope, database = scope_here(self.fast), CostDatabase.open()
        try:
            found = database.read((s.key for s in wanted), scope)
            known = {s: found[s.key] for s in wanted if s.key in found}
            missing = [s for s in wanted if s not in known and s.is_known]
            if missing:
                ended = (lambda: time.monotonic() > deadline) if deadline is not None else (lambda: False)
                tuner = Tuner(self._choices, alone=True)
                fresh = measure(missing, tuner, fast=self.fast, deadline=ended, on_progress=on_progress)
                new = dict(fresh)
                database.write(new, scope)
                known |= {s: new[s.key] for s in missing if s.key in new}
            return known
        finally:
            database.close()

    @cached_property
    def _choices(self) -> Choices:
        from egraph_opt.runtime.cuda.tune import Choices

        return Choices()

    def _cost(self, signature: Signature, entry: Entry | None) -> Cost:
        bound = Analytic("h100").price([signature])[0]
        measured = entry is not None and entry.seconds is not None
        seconds = entry.seconds if entry is not None else None
        if seconds is None:
            seconds = fitted_model(SHIPPED[0]).seconds(signature) if signature.is_known else None
        seconds = bound.seconds if seconds is None else seconds
        seconds = _less_launch(signature, seconds)
        todo = work(signature)
        layout = entry.layout if entry is not None else 0.0
        origin = "measured" if measured else "estimated"
        return Cost(
            seconds, todo.flops, todo.bytes, min(seconds, max(bound.seconds - 2 * _LAUNCH, 0.0)), origin, layout
        )


def _less_launch(signature: Signature, seconds: float) -> float:
    """Without the launch, where the operator is computed inside a kernel that is launched anyway."""
    return max(seconds - _LAUNCH, 0.04 * _LAUNCH) if signature.op in _FUSED else seconds


def widening(dtype: str, *, fast: bool) -> float:
    """How many times faster than exact float32 a product in this dtype may be."""
    if dtype in ("float16", "bfloat16") or (fast and dtype == "float32"):
        return _HALF
    return {"float32": 1.0, "float64": 2.0}.get(dtype, 2.0 * _HALF)


@cache
def shipped(device: str) -> Mapping[Signature, Entry]:
    """The measurements of a card that come with the package."""
    lines = (files("egraph_opt.runtime.cuda") / f"{device}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines[1:]]
    return {signature_of(row): Entry(row[4], row[5]) for row in rows}


@cache
def fitted_model(device: str) -> Fitted:
    """The model that is fitted to the shipped measurements of a card."""
    return Fitted.of([(s, e.seconds) for s, e in shipped(device).items() if e.seconds])
