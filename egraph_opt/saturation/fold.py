"""Small constants that are computed from constants, evaluated before saturation, so that rules see their values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir import AttrValue, Constant, Node, TensorGraph, TensorType
from egraph_opt.ops import operator

Array = NDArray[np.generic]

LIMIT = 2**20
"""Bytes of the largest value folded here; larger ones stay expressions, which the e-graph folds if that pays."""
STORE_ALWAYS = 16 * 2**10
"""Bytes up to which a value is stored whatever it was made from; above, it may not outgrow its operands."""


def folded(
    op: str, attrs: Sequence[AttrValue], operands: Sequence[Array | tuple[Array, ...]]
) -> Array | tuple[Array, ...]:
    """The value of an operator of constants, in their own dtype.

    Where it computes, operands are laid out in order, as they are in a model: NumPy adds up a transposed view in
    another order than its copy, and the last bits of a sum must not depend on how a constant came about.

    Raises:
        IndexError: an index lies outside of what it indexes, so that there is no value.
    """
    declared = operator(op)
    if not declared.rearranges:
        operands = [v if isinstance(v, tuple) else np.ascontiguousarray(v).reshape(v.shape) for v in operands]
    return declared.evaluate(tuple(attrs), operands)  # type: ignore[arg-type]


def fold_constants(graph: TensorGraph, *, everything: bool = False) -> TensorGraph:
    """The same graph with small constant expressions evaluated, in their own dtype. Outputs and names stay.

    ``everything`` evaluates large ones as well.
    """
    new = TensorGraph(opaques=graph.opaques)
    place: list[int] = []
    for index, (node, type_) in enumerate(zip(graph.nodes, graph.types, strict=True)):
        operands = [place[i] for i in node.operands]
        folded = _fold(node, type_, operands, new, everything) if isinstance(type_, TensorType) else None
        if folded is not None:
            place.append(new.constant(folded))
        elif node.op == "Const":
            place.append(new.constant(graph.constants[int(str(node.attrs[0]))]))
        else:
            place.append(new.add(node.op, node.attrs, operands, type_))
        if index in graph.names and new.nodes[place[-1]].op != "Const":
            new.names.setdefault(place[-1], graph.names[index])
        new.came_from(place[-1], graph.origins.get(index))
    new.outputs = tuple(place[i] for i in graph.outputs)
    return new


def _fold(node: Node, type_: TensorType, operands: list[int], new: TensorGraph, everything: bool) -> Constant | None:
    if node.op in ("Input", "Const", "Opaque", "Get") or not type_.is_static:
        return None
    if any(new.nodes[i].op != "Const" for i in operands):
        return None
    sources = sum(int(str(t.bytes)) for t in (new.types[i] for i in operands) if isinstance(t, TensorType))
    if not everything and int(str(type_.bytes)) > min(LIMIT, max(STORE_ALWAYS, sources)):
        return None
    values = [new.value(i) for i in operands]
    try:
        result = folded(node.op, node.attrs, [v for v in values if v is not None])
    except IndexError:  # a model whose branch is never taken may hold such a node
        return None
    assert not isinstance(result, tuple)
    return Constant.of(np.ascontiguousarray(result).reshape(type_.numbers()), type_.dtype)
