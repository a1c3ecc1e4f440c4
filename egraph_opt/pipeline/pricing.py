"""Costs of e-nodes: each distinct signature is priced once, at the sizes at which the model is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir import OpaqueType, TensorType, TupleType, Type, evaluate
from egraph_opt.ops import operator
from egraph_opt.ops.base import concrete
from egraph_opt.runtime import SECONDS_PER_STORED_BYTE, Cost, CostModel, Signature
from egraph_opt.saturation import Frozen

LEAVES = ("Input", "Const", "Get")


@dataclass(frozen=True)
class Prices:
    """Costs of the e-nodes of a frozen e-graph.

    Attributes:
        seconds: (n,) what extraction minimises.
        opsets: (n,) the lowest opset that can express the e-node.
        origins: how many distinct signatures were measured, computed by formula, or estimated.
    """

    seconds: NDArray[np.float64]
    opsets: NDArray[np.int64]
    origins: dict[str, int]


def price(
    frozen: Frozen,
    model: CostModel,
    sizes: Mapping[str, int],
    *,
    deadline: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Prices:
    """Prices every e-node; ``deadline`` is a reading of ``time.monotonic()`` after which nothing more is measured."""
    numbers = dict(sizes)
    types = [_concrete_type(t, numbers) for t in frozen.class_types]
    constant = {e.cls for e in frozen.enodes if e.op == "Const"}
    wanted: dict[Signature, list[int]] = {}
    seconds = np.zeros(len(frozen.enodes))
    opsets = np.zeros(len(frozen.enodes), np.int64)
    for index, enode in enumerate(frozen.enodes):
        if enode.op == "Const":
            type_ = types[enode.cls]
            stored = int(str(type_.bytes)) if isinstance(type_, TensorType) else 0
            seconds[index] = stored * SECONDS_PER_STORED_BYTE
        elif enode.op not in LEAVES:
            operands = [types[c] for c in enode.operands]
            attrs = tuple(concrete(a, numbers) for a in enode.attrs)
            flags = tuple(c in constant for c in enode.operands)
            known = tuple(t if t is not None else OpaqueType("") for t in operands)
            wanted.setdefault(Signature(enode.op, attrs, known, flags), []).append(index)
            if enode.op != "Opaque":
                opsets[index] = operator(enode.op).opset(enode.attrs, [frozen.class_types[c] for c in enode.operands])  # type: ignore[misc]
    signatures = list(wanted)
    costs = model.price(signatures, on_progress=on_progress, deadline=deadline)
    for signature, cost in zip(signatures, costs, strict=True):
        seconds[wanted[signature]] = cost.seconds
    return Prices(seconds, opsets, _origins(costs))


def _origins(costs: list[Cost]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for cost in costs:
        counts[cost.origin] = counts.get(cost.origin, 0) + 1
    return counts


def _concrete_type(type_: Type | None, sizes: dict[str, int]) -> Type | None:
    if isinstance(type_, TensorType):
        return TensorType(type_.dtype, tuple(evaluate(size, sizes) for size in type_.shape))
    if isinstance(type_, TupleType):
        items = tuple(_concrete_type(t, sizes) for t in type_.items)
        return TupleType(items)  # type: ignore[arg-type]
    return type_
