"""The table of operators: one declaration per operator, read by every other room."""

from egraph_opt.ops.base import Operator, Param, Sample
from egraph_opt.ops.building import GraphBuilder
from egraph_opt.ops.kinds import Array, IllTyped, Unsupported
from egraph_opt.ops.known import constant_value, known_value, size_values
from egraph_opt.ops.lowering import Lowering, Sink, dtype_name, numpy_dtype
from egraph_opt.ops.registry import importers, operator, operators
from egraph_opt.ops.source import Source

__all__ = [
    "Array",
    "GraphBuilder",
    "IllTyped",
    "Lowering",
    "Operator",
    "Param",
    "Sample",
    "Sink",
    "Source",
    "Unsupported",
    "constant_value",
    "dtype_name",
    "importers",
    "known_value",
    "numpy_dtype",
    "operator",
    "operators",
    "size_values",
]
