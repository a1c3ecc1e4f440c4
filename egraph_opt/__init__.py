"""egraph-opt: an equality-saturation optimizer for ONNX models.

``egraph_opt.optimize(model)`` returns a faster model that computes the same, and the evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egraph_opt.api import OptimizeResult, optimize, optimize_file
    from egraph_opt.errors import (
        BudgetError,
        EgraphOptError,
        InvalidModelError,
        UnsoundRuleError,
        UnsupportedModelError,
        UsageError,
    )
    from egraph_opt.explanation import Explanation, explain
    from egraph_opt.pipeline import Options, Outcome, Progress, Report

__version__ = "0.1.0"

_HOMES = {
    "OptimizeResult": "egraph_opt.api",
    "optimize": "egraph_opt.api",
    "optimize_file": "egraph_opt.api",
    "BudgetError": "egraph_opt.errors",
    "EgraphOptError": "egraph_opt.errors",
    "InvalidModelError": "egraph_opt.errors",
    "UnsoundRuleError": "egraph_opt.errors",
    "UnsupportedModelError": "egraph_opt.errors",
    "UsageError": "egraph_opt.errors",
    "Explanation": "egraph_opt.explanation",
    "explain": "egraph_opt.explanation",
    "Options": "egraph_opt.pipeline",
    "Outcome": "egraph_opt.pipeline",
    "Progress": "egraph_opt.pipeline",
    "Report": "egraph_opt.pipeline",
}

__all__ = [
    "BudgetError",
    "EgraphOptError",
    "Explanation",
    "InvalidModelError",
    "OptimizeResult",
    "Options",
    "Outcome",
    "Progress",
    "Report",
    "UnsoundRuleError",
    "UnsupportedModelError",
    "UsageError",
    "explain",
    "optimize",
    "optimize_file",
]


def __getattr__(name: str) -> Any:
    # loaded when first used: importing the package costs nothing, and a worker need not load the whole of it
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'egraph_opt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
