"""The cost models by name. A new one is one file and one line here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.runtime.costs import CostModel, Order, Orders, Whole

COST_MODELS = {"ort-cpu": "ort_cpu:OrtCpu", "analytic": "analytic:Analytic", "cuda": "cuda.costs:Cuda"}
"""By name, the default first: module in this package, and class. What a target needs is loaded when it is asked for."""


def cost_models() -> dict[str, type[CostModel]]:
    """Every cost model by name, the default first."""
    return {name: _load(name) for name in COST_MODELS}


def _load(name: str) -> type[CostModel]:
    module, _, kind = COST_MODELS[name].partition(":")
    return getattr(import_module(f"egraph_opt.runtime.{module}"), kind)


def get_cost_model(target: str, **options: Any) -> CostModel:
    """The cost model called ``target``; ``analytic:h100`` is short for ``device="h100"``.

    Raises:
        UsageError: there is no such model, or it has no such option.
    """
    name, _, device = target.partition(":")
    if name not in COST_MODELS:
        raise UsageError(f"unknown target {target!r}: choose one of {', '.join(COST_MODELS)}")
    found = _load(name)
    given = {"device": device, **options} if device else options
    allowed = [f.name for f in dataclasses.fields(found)] if dataclasses.is_dataclass(found) else []
    unknown = [option for option in given if option not in allowed]
    if unknown:
        raise UsageError(f"target {name!r} has no option {unknown[0]!r}: it has {', '.join(allowed)}")
    return found(**given)


WholePrice = Callable[[TensorGraph, Sequence[Orders | None]], Whole | None]
"""The least seconds of a whole graph over several orders of its nodes (None: those of a rule of thumb); None where the
target does not run it."""


@runtime_checkable
class PricesWholes(Protocol):
    """A cost model that can also say how long one run of a whole graph takes; ``None`` for one that it cannot run."""

    def whole(
        self, graph: TensorGraph, sizes: Mapping[str, int], orders: Sequence[Orders | None] = (None,)
    ) -> Whole | None: ...


@runtime_checkable
class PricesLayouts(Protocol):
    """A cost model whose target lays values out as it likes: seconds to bring one from one order into another."""

    def conversion(self, type_: TensorType, source: Order, target: Order) -> float: ...


def whole_price(model: CostModel, sizes: Mapping[str, int]) -> WholePrice | None:
    """What says how long one run of a whole graph takes, for targets whose models can tell; ``None`` for others."""
    return (lambda graph, orders: model.whole(graph, sizes, orders)) if isinstance(model, PricesWholes) else None
