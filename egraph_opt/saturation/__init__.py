"""Grows an e-graph from a tensor graph with egglog, in a process of its own, and freezes it for extraction."""

from egraph_opt.saturation.fold import fold_constants
from egraph_opt.saturation.frozen import Frozen, freeze
from egraph_opt.saturation.rebuild import rebuild
from egraph_opt.saturation.saturate import Saturation, SaturationReport, Worker, saturate
from egraph_opt.saturation.snapshot import IterationReport, RuleReport, StopReason
from egraph_opt.saturation.worker import Limits

__all__ = [
    "Frozen",
    "IterationReport",
    "Limits",
    "RuleReport",
    "Saturation",
    "SaturationReport",
    "StopReason",
    "Worker",
    "fold_constants",
    "freeze",
    "rebuild",
    "saturate",
]
