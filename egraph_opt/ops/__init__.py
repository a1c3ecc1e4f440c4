"""The table of operators: one declaration per operator, read by every other room."""

from egraph_opt.ops.base import IllTyped, Operator, Param, Sample, Unsupported
from egraph_opt.ops.lowering import Lowering, Sink, dtype_name, numpy_dtype
from egraph_opt.ops.registry import importers, operator, operators
from egraph_opt.ops.source import Builder, Source

__all__ = [
    "Builder",
    "IllTyped",
    "Lowering",
    "Operator",
    "Param",
    "Sample",
    "Sink",
    "Source",
    "Unsupported",
    "dtype_name",
    "importers",
    "numpy_dtype",
    "operator",
    "operators",
]
