"""Operators that loop over a window or over axes for each element: pools, depthwise convolution, reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.ops.base import integer, ints, numpy_limits
from egraph_opt.runtime.cuda.emit import Emitter, Index, at, integer_let
from egraph_opt.runtime.cuda.expressions import COMPUTED, literal


def _accumulator(e: Emitter, dtype: str, start: str) -> str:
    name = e.name()
    e.lines.append(f"{COMPUTED[dtype]} {name} = {start};")
    return name


def _taps(
    e: Emitter, index: Index, shape: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int],
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Opens the loops over a window; returns the names of the tap and of the position on each spatial axis."""
    taps, places = [], []
    for i, size in enumerate(kernel):
        tap, place = e.name(), e.name()
        n, pad = shape[2 + i], pads[i]
        e.lines.append("#pragma unroll")
        e.enter(f"for (int {tap} = 0; {tap} < {size}; {tap}++)")
        e.lines.append(f"const int {place} = {index[2 + i]} * {strides[i]} + {tap} * {dilations[i]} - {pad};")
        e.lines.append(f"if ({place} < 0 || {place} >= {n}) continue;")
        taps.append(tap)
        places.append(place)
    return taps, places


def _pool(e: Emitter, node: int, indices: Sequence[Index]) -> list[str]:
    """The elements at ``indices``, which differ in their channel only."""
    index = indices[0]
    operator, dtype = e.graph.nodes[node], e.type(node).dtype
    kernel, strides, pads, dilations = (ints(a) for a in operator.attrs[:4])
    source, highest = operator.operands[0], operator.op == "MaxPool"
    shape = at(e, source)
    start = (
        ("-INF" if dtype.startswith(("float", "bfloat")) else "-128" if dtype == "int8" else "0") if highest else "0"
    )
    totals = [_accumulator(e, dtype, f"({COMPUTED[dtype]}){start}") for _ in indices]
    counted = not highest and operator.attrs[5] == 0
    count = _accumulator(e, dtype, "0") if counted else ""
    _, places = _taps(e, index, shape, kernel, strides, pads, dilations)
    inside = tuple("0" if n == 1 else p for p, n in zip(places, shape[2:], strict=True))
    values = e.values(source, [(*i[:2], *inside) for i in indices])
    for total, value in zip(totals, values, strict=True):
        e.lines.append(f"{total} = larger({total}, {value});" if highest else f"{total} += {value};")
    if counted:
        e.lines.append(f"{count} += 1;")
    for _ in kernel:
        e.leave()
    if highest:
        return totals
    if not counted:
        spatial, factors = len(kernel), []
        for i, size in enumerate(kernel):
            reach = shape[2 + i] + pads[i] + pads[i + spatial]
            last = (at(e, node)[2 + i] - 1) * strides[i] + (size - 1) * dilations[i] + 1
            factors.append(
                str(size) if last <= reach
                else f"min({size}, ({reach} - {index[2 + i]} * {strides[i]} + {dilations[i] - 1}) / {dilations[i]})"
            )  # fmt: skip
        count = f"({COMPUTED[dtype]})({' * '.join(factors)})"
    return [e.let(dtype, f"{total} / {count}") for total in totals]


def _depthwise(e: Emitter, node: int, indices: Sequence[Index]) -> list[str]:
    """The elements at ``indices``, which differ in their channel only."""
    index = indices[0]
    operator, dtype = e.graph.nodes[node], e.type(node).dtype
    strides, pads, dilations = (ints(a) for a in operator.attrs[:3])
    source, weight = operator.operands[:2]
    shape, kernel = at(e, source), at(e, weight)[2:]
    multiple = at(e, weight)[0] // shape[1]
    biases = [e.value(operator.operands[2], (i[1],)) if len(operator.operands) == 3 else "0" for i in indices]
    totals = [_accumulator(e, dtype, bias) for bias in biases]
    let = integer_let(e)
    channels = [i[1] if multiple == 1 else let(f"{i[1]} / {multiple}") for i in indices]
    taps, places = _taps(e, index, shape, kernel, strides, pads, dilations)
    inside = tuple("0" if n == 1 else p for p, n in zip(places, shape[2:], strict=True))
    values = e.values(source, [(index[0], channel, *inside) for channel in channels])
    for i, total, value in zip(indices, totals, values, strict=True):
        e.lines.append(f"{total} += {value} * {e.load(e.prepared(node), (*taps, i[1]))};")
    for _ in kernel:
        e.leave()
    return totals


REDUCED: Mapping[str, tuple[str, str, str]] = {
    # operator: start, step, end
    "ReduceSum": ("0", "{a} += {x};", "{a}"),
    "ReduceMean": ("0", "{a} += {x};", "{a} / {n}"),
    "ReduceMax": ("-INF", "{a} = larger({a}, {x});", "{a}"),
    "ReduceMin": ("INF", "{a} = smaller({a}, {x});", "{a}"),
    "ReduceProd": ("1", "{a} *= {x};", "{a}"),
    "GlobalAveragePool": ("0", "{a} += {x};", "{a} / {n}"),
    "GlobalMaxPool": ("-INF", "{a} = larger({a}, {x});", "{a}"),
}


def reduction_start(start: str, dtype: str) -> str:
    """What a reduction begins with, in the computed type; for whole numbers the limit of their type stands for INF."""
    if "INF" not in start or dtype.startswith(("float", "bfloat")):
        return f"({COMPUTED[dtype]}){start}"
    low, high = numpy_limits(np.dtype(dtype))
    return literal(int(low if start == "-INF" else high), dtype)


def reduced_axes(graph: TensorGraph, node: int) -> tuple[tuple[int, ...], bool]:
    """The axes that a reduction loops over, and whether the result keeps them."""
    operator = graph.nodes[node]
    if operator.op.startswith("Global"):
        source = graph.types[operator.operands[0]]
        assert isinstance(source, TensorType)
        return tuple(range(2, source.rank)), True
    if operator.op.startswith("Arg"):
        return (integer(operator.attrs[0]),), bool(operator.attrs[1])
    return ints(operator.attrs[0]), bool(operator.attrs[1])


def reduction_index(index: Sequence[str], inner: Sequence[str], axes: Sequence[int], rank: int, keep: bool) -> Index:
    """The index of an operand's element from that of the result and those along the reduced axes."""
    kept = iter([i for axis, i in enumerate(index) if axis not in axes] if keep else list(index))
    along = dict(zip(axes, inner, strict=True))
    return tuple(along[axis] if axis in along else next(kept) for axis in range(rank))


def _reduce(e: Emitter, node: int, index: Index) -> str:
    operator, dtype = e.graph.nodes[node], e.type(node).dtype
    source, (axes, keep) = operator.operands[0], reduced_axes(e.graph, node)
    shape = at(e, source)
    start, step, end = REDUCED[operator.op]
    total = _accumulator(e, dtype, reduction_start(start, dtype))
    inner = []
    for axis in axes:
        inner.append(e.name() if shape[axis] != 1 else "0")
        e.lines.append("#pragma unroll 8")
        head = (
            f"for (int {inner[-1]} = 0; {inner[-1]} < {shape[axis]}; {inner[-1]}++)"
            if shape[axis] != 1
            else "if (true)"
        )
        if shape[axis] == 1:
            e.lines.pop()
        e.enter(head)
    value = e.value(source, reduction_index(index, inner, axes, len(shape), keep))
    e.lines.append(step.format(a=total, x=value))
    for _ in axes:
        e.leave()
    count = math.prod(shape[axis] for axis in axes)
    return e.let(dtype, end.format(a=total, n=f"({COMPUTED[dtype]}){count}"))


def _arg(e: Emitter, node: int, index: Index) -> str:
    operator = e.graph.nodes[node]
    source, ((axis,), keep) = operator.operands[0], reduced_axes(e.graph, node)
    shape, dtype = at(e, source), e.type(source).dtype
    best, place, i = e.name(), e.name(), e.name()

    def value(inner: str) -> str:
        return e.value(source, reduction_index(index, (inner,), (axis,), len(shape), keep))

    e.lines.append(f"{COMPUTED[dtype]} {best} = 0; long long {place} = -1;")
    e.enter(f"for (int {i} = 0; {i} < {shape[axis]}; {i}++)")
    x = value(i if shape[axis] != 1 else "0")
    better = f"{x} {'>' if operator.op == 'ArgMax' else '<'}{'=' if operator.attrs[2] else ''} {best}"
    e.lines.append(
        f"if ({place} < 0 || ({best} == {best} && ({better} || {x} != {x}))) {{ {best} = {x}; {place} = {i}; }}"
    )
    e.leave()
    return place


def _lrn(e: Emitter, node: int, index: Index) -> str:
    operator, dtype = e.graph.nodes[node], e.type(node).dtype
    alpha, beta, bias = (float(str(a)) for a in operator.attrs[:3])
    size, source = integer(operator.attrs[3]), operator.operands[0]
    channels, before = at(e, source)[1], (size - 1) // 2
    total, tap, place = _accumulator(e, dtype, "0"), e.name(), e.name()
    e.enter(f"for (int {tap} = 0; {tap} < {size}; {tap}++)")
    e.lines.append(f"const int {place} = {index[1]} + {tap} - {before};")
    e.lines.append(f"if ({place} < 0 || {place} >= {channels}) continue;")
    value = e.value(source, (index[0], place if channels != 1 else "0", *index[2:]))
    e.lines.append(f"{total} += {value} * {value};")
    e.leave()
    t, x = COMPUTED[dtype], e.value(source, index)
    return e.let(dtype, f"{x} / pow(({t}){bias!r} + ({t}){alpha / size!r} * {total}, ({t}){beta!r})")


WIDE: Mapping[str, Callable[[Emitter, int, Sequence[Index]], list[str]]] = MappingProxyType(
    {"MaxPool": _pool, "AveragePool": _pool, "Conv": _depthwise}
)
"""Operators whose loop several elements share."""
LOOPED: dict[str, Callable[[Emitter, int, Index], str]] = {
    "LRN": _lrn, "ArgMax": _arg, "ArgMin": _arg, **dict.fromkeys(REDUCED, _reduce),
    **{name: lambda e, node, index, rule=rule: rule(e, node, [index])[0] for name, rule in WIDE.items()},
}  # fmt: skip
LOOPS = frozenset(LOOPED) - {"Conv"}
"""Operators that loop whatever their attributes; of convolutions only depthwise ones do."""
