"""What operators and models cost: cost models, their database, sessions, and end-to-end timing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egraph_opt.runtime.analytic import DEVICES, Analytic, Device
    from egraph_opt.runtime.costs import (
        ROW_MAJOR,
        SECONDS_PER_STORED_BYTE,
        Cost,
        CostModel,
        OnProgress,
        Order,
        Orders,
        Quote,
        Whole,
        Work,
        work,
    )
    from egraph_opt.runtime.cuda.executor import Program, compile
    from egraph_opt.runtime.database import CostDatabase, Entry, Scope, cache_folder, cpu_name
    from egraph_opt.runtime.ort_cpu import OrtCpu
    from egraph_opt.runtime.registry import cost_models, get_cost_model
    from egraph_opt.runtime.session import Array, open_session, run_session
    from egraph_opt.runtime.signature import Signature
    from egraph_opt.runtime.timing import BaselineError, Lap, RaceResult, halving, race

_HOMES = {
    "Analytic": "egraph_opt.runtime.analytic",
    "Array": "egraph_opt.runtime.session",
    "BaselineError": "egraph_opt.runtime.timing",
    "Cost": "egraph_opt.runtime.costs",
    "CostDatabase": "egraph_opt.runtime.database",
    "CostModel": "egraph_opt.runtime.costs",
    "DEVICES": "egraph_opt.runtime.analytic",
    "Device": "egraph_opt.runtime.analytic",
    "Entry": "egraph_opt.runtime.database",
    "Lap": "egraph_opt.runtime.timing",
    "OnProgress": "egraph_opt.runtime.costs",
    "Order": "egraph_opt.runtime.costs",
    "Orders": "egraph_opt.runtime.costs",
    "OrtCpu": "egraph_opt.runtime.ort_cpu",
    "Program": "egraph_opt.runtime.cuda.executor",
    "Quote": "egraph_opt.runtime.costs",
    "ROW_MAJOR": "egraph_opt.runtime.costs",
    "RaceResult": "egraph_opt.runtime.timing",
    "SECONDS_PER_STORED_BYTE": "egraph_opt.runtime.costs",
    "Scope": "egraph_opt.runtime.database",
    "Signature": "egraph_opt.runtime.signature",
    "Work": "egraph_opt.runtime.costs",
    "Whole": "egraph_opt.runtime.costs",
    "cache_folder": "egraph_opt.runtime.database",
    "compile": "egraph_opt.runtime.cuda.executor",
    "cost_models": "egraph_opt.runtime.registry",
    "cpu_name": "egraph_opt.runtime.database",
    "get_cost_model": "egraph_opt.runtime.registry",
    "halving": "egraph_opt.runtime.timing",
    "open_session": "egraph_opt.runtime.session",
    "race": "egraph_opt.runtime.timing",
    "run_session": "egraph_opt.runtime.session",
    "work": "egraph_opt.runtime.costs",
}

__all__ = [
    "DEVICES",
    "ROW_MAJOR",
    "SECONDS_PER_STORED_BYTE",
    "Analytic",
    "Array",
    "BaselineError",
    "Cost",
    "CostDatabase",
    "CostModel",
    "Device",
    "Entry",
    "Lap",
    "OnProgress",
    "Order",
    "Orders",
    "OrtCpu",
    "Program",
    "Quote",
    "RaceResult",
    "Scope",
    "Signature",
    "Whole",
    "Work",
    "cache_folder",
    "compile",
    "cost_models",
    "cpu_name",
    "get_cost_model",
    "halving",
    "open_session",
    "race",
    "run_session",
    "work",
]


def __getattr__(name: str) -> Any:
    # loaded when first used: a machine that only measures on its GPU has neither ONNX nor ONNX Runtime
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'egraph_opt.runtime' has no attribute {name!r}")
