"""E-graphs as arrays: what extraction works on. Knows nothing of tensors, ONNX or egglog."""

from egraph_opt.egraph.arrays import EGraph, Selection, SelectionError, selection_cost

__all__ = ["EGraph", "Selection", "SelectionError", "selection_cost"]
