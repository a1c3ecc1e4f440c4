"""Operators that move data: the index of each operand's element, from the index of the result's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from egraph_opt.errors import UsageError
from egraph_opt.ops.base import integer, ints
from egraph_opt.runtime.cuda.emit import Emitter, Index, at, integer_let, relinked
from egraph_opt.runtime.cuda.expressions import COMPUTED, literal
from egraph_opt.runtime.cuda.views import split_start


def _transpose(e: Emitter, node: int, index: Index) -> str:
    perm = ints(e.graph.nodes[node].attrs[0])
    own = [""] * len(perm)
    for axis, source in enumerate(perm):
        own[source] = index[axis]
    return e.value(e.graph.nodes[node].operands[0], tuple(own))


def _reshape(e: Emitter, node: int, index: Index) -> str:
    source = e.graph.nodes[node].operands[0]
    return e.value(source, relinked(e, index, at(e, node), at(e, source)))


def _slice(e: Emitter, node: int, index: Index) -> str:
    attrs, let, own = e.graph.nodes[node].attrs, integer_let(e), list(index)
    source = e.graph.nodes[node].operands[0]
    for axis, start, step in zip(ints(attrs[0]), ints(attrs[1]), ints(attrs[3]), strict=True):
        own[axis] = e.lanes.total([(own[axis], step)], start, let)
        if at(e, source)[axis] == 1:
            own[axis] = "0"
    return e.value(source, tuple(own))


def _get(e: Emitter, node: int, index: Index) -> str:
    split = e.graph.nodes[e.graph.nodes[node].operands[0]]
    if split.op != "Split":
        raise UsageError(f"the GPU executor has no kernel for {split.op}")
    axis, start = split_start(split, integer(e.graph.nodes[node].attrs[0]))
    own = list(index)
    own[axis] = e.lanes.total([(index[axis], 1)], start, integer_let(e))
    return e.value(split.operands[0], tuple(own))


def _expand(e: Emitter, node: int, index: Index) -> str:
    return e.operand(node, 0, index)


def _tile(e: Emitter, node: int, index: Index) -> str:
    source = e.graph.nodes[node].operands[0]
    let = integer_let(e)
    own = (("0" if n == 1 else i if n == m else let(f"{i} % {n}"))
           for i, n, m in zip(index, at(e, source), at(e, node), strict=True))  # fmt: skip
    return e.value(source, tuple(own))


def _choice(e: Emitter, node: int, cases: Sequence[tuple[str, Callable[[], str]]], default: str | None) -> str:
    """A variable that the first case whose condition holds sets; the last case needs none without a default."""
    dtype, name = e.type(node).dtype, e.name()
    start = f" = {default}" if default is not None else ""
    e.lines.append(f"{COMPUTED[dtype]} {name}{start};")
    for number, (condition, made) in enumerate(cases):
        last = number == len(cases) - 1 and default is None and number > 0
        e.enter("else" if last else f"{'else ' if number else ''}if ({condition})")
        e.lines.append(f"{name} = {made()};")
        e.leave()
    return name


def _concat(e: Emitter, node: int, index: Index) -> str:
    axis, operands = integer(e.graph.nodes[node].attrs[0]), e.graph.nodes[node].operands
    if len(operands) == 1:
        return e.value(operands[0], index)
    cases: list[tuple[str, Callable[[], str]]] = []
    start = 0
    for source in operands:
        size = at(e, source)[axis]

        def part(source: int = source, start: int = start, size: int = size) -> str:
            own = list(index)
            own[axis] = "0" if size == 1 else integer_let(e)(f"{index[axis]} - {start}") if start else index[axis]
            return e.value(source, tuple(own))

        if size:
            cases.append((f"{index[axis]} < {start + size}", part))
        start += size
    return cases[0][1]() if len(cases) == 1 else _choice(e, node, cases, None)


def _pad(e: Emitter, node: int, index: Index) -> str:
    pads, mode, value = ints(e.graph.nodes[node].attrs[0]), e.graph.nodes[node].attrs[1], e.graph.nodes[node].attrs[2]
    source = e.graph.nodes[node].operands[0]
    shape, let = at(e, source), integer_let(e)
    own, inside = list(index), []
    for axis, size in enumerate(shape):
        begin, end = pads[axis], pads[axis + len(shape)]
        if begin == end == 0:
            continue
        own[axis] = let(f"{index[axis]} - ({begin})")
        if mode == "constant":
            inside.append(f"{own[axis]} >= 0 && {own[axis]} < {size}")
        elif mode == "edge":
            own[axis] = let(f"{own[axis]} < 0 ? 0 : {own[axis]} < {size} ? {own[axis]} : {size - 1}")
        else:
            own[axis] = let(f"{own[axis]} < 0 ? -{own[axis]} : {own[axis]}")
            own[axis] = let(f"{own[axis]} < {size} ? {own[axis]} : {2 * (size - 1)} - {own[axis]}")
    if not inside:
        return e.value(source, tuple(own))
    default = literal(value, e.type(node).dtype)
    return _choice(e, node, [(" && ".join(inside), lambda: e.value(source, tuple(own)))], default)


def _trilu(e: Emitter, node: int, index: Index) -> str:
    upper, k = (integer(a) for a in e.graph.nodes[node].attrs)
    kept = f"{index[-1]} - {index[-2]} {'>=' if upper else '<='} {k}"
    zero = literal(0, e.type(node).dtype)
    return _choice(e, node, [(kept, lambda: e.value(e.graph.nodes[node].operands[0], index))], zero)


def _chosen(e: Emitter, value: str, size: int) -> str:
    """An index tensor's entry, counted from the front."""
    return integer_let(e)(f"(int)({value} < 0 ? {value} + {size} : {value})")


def _gather(e: Emitter, node: int, index: Index) -> str:
    data, indices = e.graph.nodes[node].operands
    axis, rank = integer(e.graph.nodes[node].attrs[0]), len(at(e, indices))
    entry = e.value(
        indices, tuple("0" if n == 1 else i for i, n in zip(index[axis : axis + rank], at(e, indices), strict=True))
    )
    own = (*index[:axis], _chosen(e, entry, at(e, data)[axis]), *index[axis + rank :])
    return e.value(data, tuple("0" if n == 1 else i for i, n in zip(own, at(e, data), strict=True)))


def _gather_elements(e: Emitter, node: int, index: Index) -> str:
    data, indices = e.graph.nodes[node].operands
    axis = integer(e.graph.nodes[node].attrs[0])
    own = list(index)
    own[axis] = _chosen(e, e.value(indices, index), at(e, data)[axis])
    return e.value(data, tuple(own))


MOVES: dict[str, Callable[[Emitter, int, Index], str]] = {
    "Transpose": _transpose, "Reshape": _reshape, "Slice": _slice, "Get": _get, "Expand": _expand, "Tile": _tile,
    "Concat": _concat, "Pad": _pad, "Trilu": _trilu, "Gather": _gather, "GatherElements": _gather_elements,
}  # fmt: skip
MOVERS = frozenset({*MOVES, "Split", "Fill"})
"""Operators that move data: what they need is computed where they need it."""
