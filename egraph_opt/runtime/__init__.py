"""What operators and models cost: cost models, their database, sessions, and end-to-end timing."""

from egraph_opt.runtime.analytic import DEVICES, Analytic, Device
from egraph_opt.runtime.costs import SECONDS_PER_STORED_BYTE, Cost, CostModel, OnProgress, Quote, Work, work
from egraph_opt.runtime.cuda.executor import Program, compile
from egraph_opt.runtime.database import CostDatabase, Entry, Scope, cache_folder, cpu_name
from egraph_opt.runtime.ort_cpu import OrtCpu
from egraph_opt.runtime.registry import cost_models, get_cost_model
from egraph_opt.runtime.session import Array, open_session, run_session
from egraph_opt.runtime.signature import Signature
from egraph_opt.runtime.timing import Lap, RaceResult, halving, race

__all__ = [
    "DEVICES",
    "SECONDS_PER_STORED_BYTE",
    "Analytic",
    "Array",
    "Cost",
    "CostDatabase",
    "CostModel",
    "Device",
    "Entry",
    "Lap",
    "OnProgress",
    "OrtCpu",
    "Program",
    "Quote",
    "RaceResult",
    "Scope",
    "Signature",
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
