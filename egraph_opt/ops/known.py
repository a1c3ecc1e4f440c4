"""Values that are known before the model runs, though a node computes them.

Exporters compute target shapes by chains of Shape, Gather, Concat and so on, and branch on them. Operators that take
such a value need its numbers, or its sizes where they are symbolic; the nodes of the chain stay as they are and die
when nothing reads them.
"""

from __future__ import annotations

import operator as op
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from egraph_opt.ir import Node, Size, SizeExpr, TensorGraph, TensorType, floordiv
from egraph_opt.ops.base import lower_bound
from egraph_opt.ops.kinds import Array, IllTyped
from egraph_opt.ops.lowering import numpy_dtype
from egraph_opt.ops.registry import operator

LIMIT = 4096
"""The largest tensor, in elements, that is computed on the way."""
_STEPS = 200
_NOTHING: Mapping[int, Array] = MappingProxyType({})


class Undecided(ValueError):  # noqa: N818
    """What the operator gives depends on how large a symbolic size is."""


def constant_value(graph: TensorGraph, index: int, given: Mapping[int, Array] = _NOTHING) -> Array | None:
    """The array of node ``index`` if it is the same whatever the inputs and their sizes are, and small or stored.

    ``given`` has values of inputs: those that a body takes from outside may be known there.
    """
    if graph.nodes[index].op == "Const":
        return graph.value(index)
    found = known_value(graph, index, given)
    return found if found is not None and found.dtype.kind != "O" else None


def size_values(graph: TensorGraph, index: int, given: Mapping[int, Array] = _NOTHING) -> tuple[Size, ...] | None:
    """The integers of node ``index``, in order, some of them symbolic sizes, if only sizes of operands decide them."""
    found = known_value(graph, index, given)
    if found is None or found.dtype.kind not in "iuO":
        return None
    return tuple(found.reshape(-1).tolist())


def known_value(graph: TensorGraph, index: int, given: Mapping[int, Array] = _NOTHING) -> Array | None:
    """The array of node ``index``, of objects where symbolic sizes are among them; None where a run decides."""
    found = _Evaluation(graph, given).value(index)
    return found if isinstance(found, np.ndarray) else None


class _Evaluation:
    """One walk towards the leaves, which gives up early: at inputs, at large tensors, after too many steps.

    Where a symbolic size is among the elements, an array is one of objects: numbers and ``SizeExpr``.
    """

    def __init__(self, graph: TensorGraph, given: Mapping[int, Array]) -> None:
        self.graph = graph
        self.found: dict[int, Array | tuple[Array, ...] | None] = dict(given)
        self.steps = 0

    def value(self, index: int) -> Array | tuple[Array, ...] | None:
        if index not in self.found:
            self.steps += 1
            self.found[index] = None if self.steps > _STEPS else self._compute(index)
        return self.found[index]

    def _compute(self, index: int) -> Array | tuple[Array, ...] | None:
        node, type_ = self.graph.nodes[index], self.graph.types[index]
        if node.op in ("Input", "Opaque"):
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
        try:
            if any(isinstance(o, np.ndarray) and o.dtype.kind == "O" for o in operands):
                return _settled(_symbolic(node, operands), type_)
            return operator(node.op).evaluate(node.attrs, operands)
        except (ArithmeticError, IndexError, KeyError, NotImplementedError, TypeError, ValueError, IllTyped):
            return None

    def _shape(self, index: int) -> Array:
        node = self.graph.nodes[index]
        start, end = node.attrs
        operand = self.graph.types[node.operands[0]]
        assert isinstance(operand, TensorType)
        assert isinstance(start, int)
        assert isinstance(end, int)
        shape = operand.shape[start:end]
        if all(isinstance(size, int) for size in shape):
            return np.array(shape, np.int64)
        values = np.empty(len(shape), object)
        values[:] = shape
        return values


def _settled(result: Array | tuple[Array, ...], type_: object) -> Array | tuple[Array, ...]:
    """``result`` in the dtype of its type where no symbolic size is left in it."""
    if isinstance(result, tuple):
        items: Sequence[object] = getattr(type_, "items", ())
        return tuple(_settled(r, t) for r, t in zip(result, items, strict=True))  # type: ignore[misc]
    assert isinstance(type_, TensorType)
    if any(isinstance(value, SizeExpr) for value in result.reshape(-1)):
        return result
    return result.astype(numpy_dtype(type_.dtype))


def _symbolic(node: Node, operands: list[Array]) -> Array | tuple[Array, ...]:
    """``node`` on arrays that hold symbolic sizes."""
    if node.op in _MOVES:
        return operator(node.op).evaluate(node.attrs, operands)
    if node.op == "Cast":
        # TensorFlow's exporter casts sizes to int32; a model with an axis that does not fit fails as it is
        if node.attrs[0] not in ("int32", "int64"):
            raise Undecided("Cast")
        return operands[0]
    if node.op == "Clip":
        low, high = node.attrs
        clipped = operands[0] if low is None else _each(_max, operands[0], np.array(low, object))
        return clipped if high is None else _each(_min, clipped, np.array(high, object))
    if node.op in _FOLDS:
        axes, keep = node.attrs
        assert isinstance(axes, tuple)
        result = operands[0]
        for axis in axes:
            result = np.asarray(_FOLDS[node.op].reduce(result, axis=axis, keepdims=True), object)
        return result if keep else np.squeeze(result, axes)
    return _each(_ELEMENTWISE[node.op], *operands)


def _each(function: Callable[..., Any], *operands: Array) -> Array:
    made = np.frompyfunc(function, len(operands), 1)(*operands)
    result = np.empty(np.broadcast_shapes(*(o.shape for o in operands)), object)
    result[...] = made
    return result


def _at_most(a: Size, b: Size) -> bool:
    if lower_bound(b - a) >= 0:
        return True
    if lower_bound(a - b) >= 1:
        return False
    raise Undecided(f"{a} <= {b}")


def _equal(a: Size, b: Size) -> bool:
    gap = a - b
    if isinstance(gap, int):
        return gap == 0
    if lower_bound(gap) >= 1 or lower_bound(-gap) >= 1:
        return False
    raise Undecided(f"{a} == {b}")


def _divide(a: Size, b: Size) -> Size:
    """ONNX's division of integers is towards zero, which is downwards where both are known not to be negative."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if lower_bound(a) >= 0 and lower_bound(b) >= 1:
        return floordiv(a, b)
    raise Undecided(f"{a} / {b}")


def _remainder(a: Size, b: Size) -> Size:
    if lower_bound(b) >= 1:
        return a - floordiv(a, b) * b
    raise Undecided(f"{a} mod {b}")


def _min(a: Size, b: Size) -> Size:
    return a if _at_most(a, b) else b


def _max(a: Size, b: Size) -> Size:
    return b if _at_most(a, b) else a


def _abs(a: Size) -> Size:
    return a if _at_most(0, a) else -a


_MOVES = frozenset(["Get", "Gather", "Concat", "Slice", "Reshape", "Split", "Tile", "Transpose", "Expand", "Where"])
_FOLDS = {"ReduceSum": np.add, "ReduceProd": np.multiply}
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Add": op.add,
    "Sub": op.sub,
    "Mul": op.mul,
    "Div": _divide,
    "Mod": _remainder,
    "Neg": op.neg,
    "Abs": _abs,
    "Min": _min,
    "Max": _max,
    "Relu": lambda a: _max(a, 0),
    "Equal": _equal,
    "LessOrEqual": _at_most,
    "GreaterOrEqual": lambda a, b: _at_most(b, a),
    "Less": lambda a, b: not _at_most(b, a),
    "Greater": lambda a, b: not _at_most(a, b),
}
