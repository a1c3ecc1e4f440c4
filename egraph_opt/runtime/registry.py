"""The cost models by name. A new one is one file and one line here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorGraph
from egraph_opt.runtime.analytic import Analytic
from egraph_opt.runtime.costs import CostModel
from egraph_opt.runtime.cuda.costs import Cuda
from egraph_opt.runtime.ort_cpu import OrtCpu

COST_MODELS: tuple[type[CostModel], ...] = (OrtCpu, Analytic, Cuda)


def cost_models() -> dict[str, type[CostModel]]:
    """Every cost model by name, the default first."""
    return {model.name: model for model in COST_MODELS}


def get_cost_model(target: str, **options: Any) -> CostModel:
    """The cost model called ``target``; ``analytic:h100`` is short for ``device="h100"``.

    Raises:
        UsageError: there is no such model, or it has no such option.
    """
    name, _, device = target.partition(":")
    found = cost_models().get(name)
    if found is None:
        raise UsageError(f"unknown target {target!r}: choose one of {', '.join(cost_models())}")
    given = {"device": device, **options} if device else options
    allowed = [f.name for f in dataclasses.fields(found)] if dataclasses.is_dataclass(found) else []
    unknown = [option for option in given if option not in allowed]
    if unknown:
        raise UsageError(f"target {name!r} has no option {unknown[0]!r}: it has {', '.join(allowed)}")
    return found(**given)


def whole_price(model: CostModel, sizes: Mapping[str, int]) -> Callable[[TensorGraph], float | None] | None:
    """What says how long one run of a whole graph takes, for targets whose models can tell; ``None`` for others."""
    return partial(model.whole, sizes=sizes) if isinstance(model, Cuda) else None
