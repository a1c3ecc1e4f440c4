"""E-graphs as arrays: what extraction works on. Knows nothing of tensors, ONNX or egglog."""

from egraph_opt.egraph.arrays import EGraph, Selection, SelectionError, selection_cost
from egraph_opt.egraph.serialize import (
    InvalidEGraphError,
    SerializedEGraph,
    egraph_from_json,
    egraph_to_json,
    read_egraph,
    write_egraph,
)

__all__ = [
    "EGraph",
    "InvalidEGraphError",
    "Selection",
    "SelectionError",
    "SerializedEGraph",
    "egraph_from_json",
    "egraph_to_json",
    "read_egraph",
    "selection_cost",
    "write_egraph",
]
