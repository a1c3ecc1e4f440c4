"""The tensor graph: sizes, types, nodes. Knows nothing of ONNX, egglog or files."""

from egraph_opt.ir.graph import AttrValue, Constant, Node, Origin, TensorGraph
from egraph_opt.ir.interning import Interner
from egraph_opt.ir.sizes import Size, SizeExpr, evaluate, floordiv, product, substitute, symbol
from egraph_opt.ir.types import FLOATS, INTEGERS, NUMERIC, OpaqueType, TensorType, TupleType, Type

__all__ = [
    "FLOATS",
    "INTEGERS",
    "NUMERIC",
    "AttrValue",
    "Constant",
    "Interner",
    "Node",
    "OpaqueType",
    "Origin",
    "Size",
    "SizeExpr",
    "TensorGraph",
    "TensorType",
    "TupleType",
    "Type",
    "evaluate",
    "floordiv",
    "product",
    "substitute",
    "symbol",
]
