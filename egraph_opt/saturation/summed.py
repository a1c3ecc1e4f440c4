"""Constants whose elements only ever count in sums, because they are weights of products and convolutions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.saturation.enodes import ENode

ELEMENTWISE = frozenset({"Add", "Sub", "Mul", "Div", "Neg"})
"""What is done to weights place by place before they are used."""

Axes = frozenset[int]
_NONE: Axes = frozenset()


def summed_axes(
    enodes: Sequence[ENode], class_types: Sequence[Type | None], constant: Collection[int], roots: Collection[int]
) -> dict[int, Axes]:
    """For each constant class the axes over which all who use it add it up, times something; none for most.

    A filter of a convolution, say, is added up over its channels and places, so that what one of its elements loses to
    rounding is to be held against the largest of them. Weights that are added or scaled place by place and then used
    so count as well.
    """
    users: dict[int, list[tuple[ENode, int]]] = {}
    wanted = set(constant) - set(roots)
    for enode in enodes:
        for position, cls in enumerate(enode.operands):
            if cls in wanted:
                users.setdefault(cls, []).append((enode, position))
    found = {cls: _all_axes(class_types[cls]) for cls in users}
    changed = True
    while changed:  # from all axes down to those that every user allows
        changed = False
        for cls, uses in users.items():
            allowed = found[cls]
            for enode, position in uses:
                if not allowed:
                    break
                allowed &= _of_use(enode, position, class_types, found)
            if allowed != found[cls]:
                found[cls], changed = allowed, True
    return found


def _of_use(enode: ENode, position: int, class_types: Sequence[Type | None], found: dict[int, Axes]) -> Axes:
    own, result = class_types[enode.operands[position]], class_types[enode.cls]
    if not isinstance(own, TensorType) or not isinstance(result, TensorType):
        return _NONE
    if enode.op in ELEMENTWISE:
        return found.get(enode.cls, _NONE) if own.shape == result.shape else _NONE
    return _of_product(enode.op, enode.attrs, position, own.rank)


def _of_product(op: str, attrs: Sequence[AttrValue], position: int, rank: int) -> Axes:
    if op in ("Conv", "FusedConv") and position == 1:
        return frozenset(range(1, rank))
    if op == "MatMul":
        return frozenset({rank - 1 if position == 0 else max(rank - 2, 0)})
    if op == "Gemm" and position < 2:
        return frozenset({(position + 1 + int(bool(attrs[position]))) % 2})  # op(a) by columns, op(b) by rows
    return _NONE


def _all_axes(type_: Type | None) -> Axes:
    return frozenset(range(type_.rank)) if isinstance(type_, TensorType) else _NONE
