"""A scale and an offset per channel after a convolution go into its weight and bias.

What is folded here is rounded once, from float64: the library then computes in one call what would be a convolution and
a pass over all that it wrote. The optimizer's rules fold most of these before; they hold back where a sum in float16
could cancel, which a sum in float64 does not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import numpy_dtype, operator
from egraph_opt.ops.kinds import Array

_FLOATS = ("float16", "float32", "float64")
_BITS = 8
"""How many bits the largest weight of a filter has to keep: below the least normal number each halving costs one."""


def scaled(graph: TensorGraph, op: str, attrs: Sequence[object], operands: Sequence[int]) -> int | None:
    """A convolution that computes ``op(attrs, operands)``, if that is a BatchNormalization of one, or a product with a
    weight per channel, and a scaled weight has the precision of the one that is there. Nothing else may read the
    convolution's result."""
    source, factors = _factors(graph, op, attrs, operands)
    if source is None or factors is None or _result(graph, op, attrs, operands) != graph.types[source]:
        return None
    convolution = graph.nodes[source]
    given = [_loader(graph, i) for i in convolution.operands[1:]]
    type_ = graph.types[convolution.operands[1]]
    if any(load is None for load in given) or not isinstance(type_, TensorType) or type_.dtype not in _FLOATS:
        return None
    loads = [load for load in given if load is not None]
    weight, dtype = loads[0], np.dtype(numpy_dtype(type_.dtype))
    scale, offset = factors
    if not _fits(weight(), scale, dtype):
        return None
    bias = offset + (scale * _flat(loads[1]()) if len(loads) == 2 else 0)
    if not np.all(np.isfinite(bias.astype(dtype))):
        return None

    def load() -> Array:
        by_filter = scale.reshape(-1, *(1,) * (len(type_.shape) - 1))
        return (weight().astype(np.float64) * by_filter).astype(dtype)

    said = repr((graph.constants[int(str(graph.nodes[convolution.operands[1]].attrs[0]))].key, scale.tobytes()))
    key = f"{type_}:{hashlib.sha256(said.encode()).hexdigest()}"
    new = [graph.constant(Constant(type_, key, load)), graph.constant(Constant.of(bias.astype(dtype), type_.dtype))]
    inputs = [convolution.operands[0], *new]
    return graph.add("Conv", convolution.attrs, inputs, graph.types[source])


def _factors(
    graph: TensorGraph, op: str, attrs: Sequence[object], operands: Sequence[int]
) -> tuple[int | None, tuple[Array, Array] | None]:
    """The convolution, and the scale and offset of each of its channels, in float64."""
    if op == "BatchNormalization" and graph.nodes[operands[0]].op == "Conv":
        loads = [_loader(graph, i) for i in operands[1:]]
        count = graph.types[operands[0]].numbers()[1]  # type: ignore[union-attr]
        if all(load is not None for load in loads):
            values = (np.broadcast_to(_flat(load()), (count,)) for load in loads if load is not None)
            scale, bias, mean, variance = values
            factor = scale / np.sqrt(variance + float(str(attrs[-1])))
            return operands[0], (factor, bias - mean * factor)
    if op == "Mul":
        for source, other in (operands, tuple(reversed(operands))):
            load, shape = _loader(graph, other), graph.types[source]
            if graph.nodes[source].op == "Conv" and load is not None and isinstance(shape, TensorType):
                count, wide = shape.numbers()[1], (1,) * shape.rank + load().shape
                if load().size in (1, count) and wide[-shape.rank + 1] == load().size:
                    factor = np.broadcast_to(_flat(load()), (count,))
                    return source, (factor, np.zeros(count))
    return None, None


def _fits(weight: Array, scale: Array, dtype: np.dtype) -> bool:
    """Whether every scaled filter is finite, and not so small that its dtype cannot tell it."""
    most = np.abs(weight).reshape(len(scale), -1).max(axis=1).astype(np.float64) * np.abs(scale)
    limits = np.finfo(dtype)
    return bool(
        np.all((most < float(limits.max)) & ((most >= 2**_BITS * float(limits.smallest_subnormal)) | (most == 0)))
    )


def _result(graph: TensorGraph, op: str, attrs: Sequence[object], operands: Sequence[int]) -> object:
    return operator(op).infer(tuple(attrs), [graph.types[i] for i in operands])  # type: ignore[arg-type]


def _flat(value: Array) -> Array:
    return np.asarray(value, np.float64).reshape(-1)


def _loader(graph: TensorGraph, index: int) -> Callable[[], Array] | None:
    node = graph.nodes[index]
    return graph.constants[int(str(node.attrs[0]))].load if node.op == "Const" else None
