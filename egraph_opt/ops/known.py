"""Values that are known before the model runs, though a node computes them.

Exporters compute target shapes by chains of Shape, Gather, Concat and so on. Operators that take such a shape need its
numbers, or its sizes where they are symbolic; the nodes of the chain stay as they are and die when nothing reads them.
"""

from __future__ import annotations

import numpy as np

from egraph_opt.ir import Size, SizeExpr, TensorGraph, TensorType
from egraph_opt.ops.base import Array, IllTyped
from egraph_opt.ops.registry import operator

LIMIT = 4096
"""The largest tensor, in elements, that is computed on the way."""
_STEPS = 200
# what stays true when a number is replaced by a symbolic size: no comparison and no rounding (TensorFlow's exporter
# casts sizes to int32; a model with an axis that does not fit fails as it is)
_SYMBOLIC = frozenset(
    {
        "Shape",
        "Const",
        "Get",
        "Gather",
        "Concat",
        "Slice",
        "Reshape",
        "Split",
        "Tile",
        "Add",
        "Sub",
        "Mul",
        "Cast",
        "Fill",
    }
)


def constant_value(graph: TensorGraph, index: int) -> Array | None:
    """The array of node ``index`` if it needs no input of the model (and no size of one) and is small or stored."""
    if graph.nodes[index].op == "Const":
        return graph.value(index)
    found = _Evaluation(graph, symbolic=False).value(index)
    return found if isinstance(found, np.ndarray) else None


def size_values(graph: TensorGraph, index: int) -> tuple[Size, ...] | None:
    """The integers of node ``index``, in order, some of them symbolic sizes, if only sizes of operands decide them."""
    found = _Evaluation(graph, symbolic=True).value(index)
    if not isinstance(found, np.ndarray):
        return None
    values: list[Size] = []
    for value in found.reshape(-1).tolist():
        if not isinstance(value, int | SizeExpr) or isinstance(value, bool):
            return None
        values.append(value)
    return tuple(values)


class _Evaluation:
    """One walk towards the leaves, which gives up early: at inputs, at large tensors, after too many steps."""

    def __init__(self, graph: TensorGraph, symbolic: bool) -> None:
        self.graph, self.symbolic = graph, symbolic
        self.found: dict[int, Array | tuple[Array, ...] | None] = {}

    def value(self, index: int) -> Array | tuple[Array, ...] | None:
        if index not in self.found:
            self.found[index] = None if len(self.found) > _STEPS else self._compute(index)
        return self.found[index]

    def _compute(self, index: int) -> Array | tuple[Array, ...] | None:
        node, type_ = self.graph.nodes[index], self.graph.types[index]
        if node.op in ("Input", "Opaque") or (self.symbolic and node.op not in _SYMBOLIC):
            return None
        for item in getattr(type_, "items", (type_,)):
            if not (isinstance(item, TensorType) and isinstance(item.elements, int) and item.elements <= LIMIT):
                return None
        if node.op == "Const":
            return self.graph.value(index)
        if node.op == "Shape":
            return self._shape(index)
        operands: list[Array] = []
        for operand in node.operands:
            value = self.value(operand)
            if value is None:
                return None
            operands.append(value)  # type: ignore[arg-type]  # a tuple only below Get, which takes one
        if node.op == "Cast" and operands[0].dtype.kind == "O":
            return operands[0] if node.attrs[0] in ("int32", "int64") else None
        try:
            return operator(node.op).evaluate(node.attrs, operands)
        except (ArithmeticError, IndexError, KeyError, NotImplementedError, TypeError, ValueError, IllTyped):
            return None

    def _shape(self, index: int) -> Array | None:
        node = self.graph.nodes[index]
        start, end = node.attrs
        operand = self.graph.types[node.operands[0]]
        assert isinstance(operand, TensorType)
        assert isinstance(start, int)
        assert isinstance(end, int)
        shape = operand.shape[start:end]
        if all(isinstance(size, int) for size in shape):
            return np.array(shape, np.int64)
        if not self.symbolic:
            return None
        values = np.empty(len(shape), object)
        values[:] = shape
        return values
