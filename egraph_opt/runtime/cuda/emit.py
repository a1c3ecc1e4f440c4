"""Writes the value of one element of a graph as C: each operator maps its index to indices of its operands.

This is loop fusion as XLA does it: an operator that is not stored is computed where it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.ops.base import integer, ints, numpy_limits
from egraph_opt.runtime.cuda.expressions import COMPUTED, ELEMENTWISE, STORED, cast, expression, literal
from egraph_opt.runtime.cuda.views import View, groups, split_start

Index = tuple[str, ...]


@dataclass
class Emitter:
    """Collects the statements of one kernel.

    Attributes:
        stored: node -> view, of everything that lies in memory.
        prepared: the view of a weight that an operator wants in a form of its own (depthwise convolution).
        parts: how many partial sums, one after the other, make up a stored value.
        arguments: a view of every buffer that the kernel takes, in order of its parameters.
        read: the views that it loads from.
        special: nodes that something else than the rules of this file computes.
    """

    graph: TensorGraph
    stored: Callable[[int], View | None]
    prepared: Callable[[int], View]
    parts: Mapping[int, int] = field(default_factory=dict[int, int])
    arguments: list[View] = field(default_factory=list[View])
    read: list[View] = field(default_factory=list[View])
    special: Mapping[int, Callable[[int, Index], str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list[str])
    _known: list[dict[tuple[int, Index], str]] = field(default_factory=lambda: [{}])
    _names: int = 0

    # --- statements

    def name(self) -> str:
        """A fresh variable."""
        self._names += 1
        return f"v{self._names}"

    def let(self, dtype: str, value: str) -> str:
        """A variable of the computed type that holds ``value``."""
        name = self.name()
        self.lines.append(f"const {COMPUTED[dtype]} {name} = {value};")
        return name

    def bind(self, node: int, index: Index, value: str) -> None:
        """What ``node`` is at ``index`` is known, for as long as the present block lasts."""
        self._known[-1][node, index] = value

    def enter(self, head: str) -> None:
        """Opens a block; what is computed inside is forgotten after ``leave``."""
        self.lines.append(head + " {")
        self._known.append({})

    def leave(self) -> None:
        self.lines.append("}")
        self._known.pop()

    # --- memory

    def parameter(self, view: View) -> str:
        """The pointer to the buffer of ``view``."""
        for number, known in enumerate(self.arguments):
            if (known.buffer, known.dtype) == (view.buffer, view.dtype):
                return f"p{number}"
        self.arguments.append(view)
        return f"p{len(self.arguments) - 1}"

    def address(self, view: View, index: Sequence[str]) -> str:
        """``pointer[offset]`` of an element."""
        terms = [f"{i} * {s}" if s != 1 else i for i, s, n in zip(index, view.strides, view.shape, strict=True)
                 if s and n != 1 and i != "0"]  # fmt: skip
        if view.offset or not terms:
            terms.append(str(view.offset))
        return f"{self.parameter(view)}[{' + '.join(terms)}]"

    def load(self, view: View, index: Sequence[str]) -> str:
        """An element in the computed type."""
        if view not in self.read:
            self.read.append(view)
        return f"up({self.address(view, index)})"

    def store(self, view: View, index: Sequence[str], value: str) -> None:
        self.lines.append(f"{self.address(view, index)} = Down<{STORED[view.dtype]}>::of({value});")

    # --- values

    def value(self, node: int, index: Index) -> str:
        """A variable or literal with the element of ``node`` at ``index``."""
        for scope in reversed(self._known):
            if (node, index) in scope:
                return scope[node, index]
        constant, view = self._scalar(node), self.stored(node)
        if constant is not None:
            result = constant
        elif view is not None:
            pieces = [replace(view, offset=view.offset + i * view.elements) for i in range(self.parts.get(node, 1))]
            result = self.let(self.type(node).dtype, " + ".join(self.load(piece, index) for piece in pieces))
        else:
            result = self.compute(node, index)
        self._known[-1][node, index] = result
        return result

    def type(self, node: int) -> TensorType:
        found = self.graph.types[node]
        assert isinstance(found, TensorType)
        return found

    def compute(self, node: int, index: Index) -> str:
        """The element of ``node`` at ``index``, computed even where it is stored.

        Raises:
            UsageError: there is no kernel for its operator.
        """
        operator, constant = self.graph.nodes[node], self._scalar(node)
        if constant is not None:
            return constant
        if node in self.special:
            return self.special[node](node, index)
        if operator.op in ELEMENTWISE:
            return self._elementwise(node, index)
        rule = _RULES.get(operator.op)
        if rule is None:
            raise UsageError(f"the GPU executor has no kernel for {operator.op} of {self.type(node)}")
        return rule(self, node, index)

    def _scalar(self, node: int) -> str | None:
        type_ = self.type(node)
        operator = self.graph.nodes[node]
        if operator.op == "Fill":
            return literal(operator.attrs[1], type_.dtype)
        if operator.op == "Const" and type_.elements == 1:
            value = self.graph.value(node)
            assert value is not None
            return literal(np.asarray(value).reshape(-1)[0].item(), type_.dtype)
        return None

    def operand(self, node: int, position: int, index: Sequence[str]) -> str:
        """An operand at an index of the result, broadcast as ONNX does."""
        source = self.graph.nodes[node].operands[position]
        shape = self.type(source).numbers()
        own = tuple("0" if n == 1 else i for n, i in zip(shape, index[len(index) - len(shape) :], strict=True))
        return self.value(source, own)

    def _elementwise(self, node: int, index: Index) -> str:
        operator, dtype = self.graph.nodes[node], self.type(node).dtype
        if operator.op == "BatchNormalization":
            channel = (index[1],)
            values = [self.value(operator.operands[0], index)]
            values += [self.value(i, channel if self.type(i).elements != 1 else ("0",)) for i in operator.operands[1:]]
        else:
            values = [self.operand(node, i, index) for i in range(len(operator.operands))]
        source = self.type(operator.operands[1 if operator.op == "Where" else 0]).dtype
        if operator.op == "Cast":
            return self.let(dtype, cast(values[0], source, str(operator.attrs[0])))
        return self.let(dtype, expression(operator.op, operator.attrs, source, values))


def at(node: Emitter, index: int) -> tuple[int, ...]:
    """The shape of node number ``index``."""
    return node.type(index).numbers()


def relinked(index: Sequence[str], new: Sequence[int], old: Sequence[int], let: Callable[[str], str]) -> Index:
    """The index into shape ``old`` of the element at ``index`` of shape ``new``, both in row-major order."""
    result = ["0"] * len(old)
    for left, right in groups(old, new):
        left, right = [i for i in left if old[i] != 1], [i for i in right if new[i] != 1]
        if len(left) == len(right) == 1:
            result[left[0]] = index[right[0]]
            continue
        if not left:
            continue
        flat, step = [], 1
        for axis in reversed(right):
            flat.append(index[axis] if step == 1 else f"{index[axis]} * {step}")
            step *= new[axis]
        whole = let(" + ".join(reversed(flat)) or "0")
        step = 1
        for axis in reversed(left):
            divided = whole if step == 1 else f"{whole} / {step}"
            result[axis] = let(f"({divided}) % {old[axis]}" if axis != left[0] else divided)
            step *= old[axis]
    return tuple(result)


def integer_let(emitter: Emitter) -> Callable[[str], str]:
    """Names an index expression."""

    def let(value: str) -> str:
        if value.isidentifier() or value.isdigit():
            return value
        name = emitter.name()
        emitter.lines.append(f"const int {name} = {value};")
        return name

    return let


def unravel(flat: str, shape: Sequence[int], order: Sequence[int], let: Callable[[str], str]) -> Index:
    """The index of element number ``flat`` of a tensor whose axes lie in ``order``, slowest first."""
    result, step = ["0"] * len(shape), 1
    axes = [axis for axis in order if shape[axis] != 1]
    for axis in reversed(axes):
        divided = flat if step == 1 else f"{flat} / {step}"
        result[axis] = let(divided if axis == axes[0] else f"({divided}) % {shape[axis]}")
        step *= shape[axis]
    return tuple(result)


# --- operators that move data


def _transpose(e: Emitter, node: int, index: Index) -> str:
    perm = ints(e.graph.nodes[node].attrs[0])
    own = [""] * len(perm)
    for axis, source in enumerate(perm):
        own[source] = index[axis]
    return e.value(e.graph.nodes[node].operands[0], tuple(own))


def _reshape(e: Emitter, node: int, index: Index) -> str:
    source = e.graph.nodes[node].operands[0]
    return e.value(source, relinked(index, at(e, node), at(e, source), integer_let(e)))


def _slice(e: Emitter, node: int, index: Index) -> str:
    attrs, let, own = e.graph.nodes[node].attrs, integer_let(e), list(index)
    source = e.graph.nodes[node].operands[0]
    for axis, start, step in zip(ints(attrs[0]), ints(attrs[1]), ints(attrs[3]), strict=True):
        moved = own[axis] if step == 1 else f"{own[axis]} * ({step})"
        own[axis] = let(f"{start} + {moved}" if start else moved)
        if at(e, source)[axis] == 1:
            own[axis] = "0"
    return e.value(source, tuple(own))


def _get(e: Emitter, node: int, index: Index) -> str:
    split = e.graph.nodes[e.graph.nodes[node].operands[0]]
    if split.op != "Split":
        raise UsageError(f"the GPU executor has no kernel for {split.op}")
    axis, start = split_start(split, integer(e.graph.nodes[node].attrs[0]))
    own = list(index)
    own[axis] = integer_let(e)(f"{index[axis]} + {start}") if start else index[axis]
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


# --- operators that loop over a window or over axes


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


def _pool(e: Emitter, node: int, index: Index) -> str:
    operator, dtype = e.graph.nodes[node], e.type(node).dtype
    kernel, strides, pads, dilations = (ints(a) for a in operator.attrs[:4])
    source, highest = operator.operands[0], operator.op == "MaxPool"
    shape = at(e, source)
    start = (
        ("-INF" if dtype.startswith(("float", "bfloat")) else "-128" if dtype == "int8" else "0") if highest else "0"
    )
    total = _accumulator(e, dtype, f"({COMPUTED[dtype]}){start}")
    counted = not highest and operator.attrs[5] == 0
    count = _accumulator(e, dtype, "0") if counted else ""
    _, places = _taps(e, index, shape, kernel, strides, pads, dilations)
    value = e.value(source, (*index[:2], *("0" if n == 1 else p for p, n in zip(places, shape[2:], strict=True))))
    e.lines.append(f"{total} = larger({total}, {value});" if highest else f"{total} += {value};")
    if counted:
        e.lines.append(f"{count} += 1;")
    for _ in kernel:
        e.leave()
    if highest:
        return total
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
    return e.let(dtype, f"{total} / {count}")


def _depthwise(e: Emitter, node: int, index: Index) -> str:
    operator, dtype = e.graph.nodes[node], e.type(node).dtype
    strides, pads, dilations = (ints(a) for a in operator.attrs[:3])
    source, weight = operator.operands[:2]
    shape, kernel = at(e, source), at(e, weight)[2:]
    multiple = at(e, weight)[0] // shape[1]
    bias = e.value(operator.operands[2], (index[1],)) if len(operator.operands) == 3 else "0"
    total = _accumulator(e, dtype, bias)
    channel = index[1] if multiple == 1 else integer_let(e)(f"{index[1]} / {multiple}")
    taps, places = _taps(e, index, shape, kernel, strides, pads, dilations)
    value = e.value(
        source, (index[0], channel, *("0" if n == 1 else p for p, n in zip(places, shape[2:], strict=True)))
    )
    e.lines.append(f"{total} += {value} * {e.load(e.prepared(node), (*taps, index[1]))};")
    for _ in kernel:
        e.leave()
    return total


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


_RULES: dict[str, Callable[[Emitter, int, Index], str]] = {
    "Transpose": _transpose, "Reshape": _reshape, "Slice": _slice, "Get": _get, "Expand": _expand, "Tile": _tile,
    "Concat": _concat, "Pad": _pad, "Gather": _gather, "GatherElements": _gather_elements,
    "MaxPool": _pool, "AveragePool": _pool, "Conv": _depthwise, "LRN": _lrn, "ArgMax": _arg, "ArgMin": _arg,
    **dict.fromkeys(REDUCED, _reduce),
}  # fmt: skip

MOVERS = frozenset({"Transpose", "Reshape", "Slice", "Get", "Split", "Expand", "Tile", "Concat", "Pad", "Gather",
                    "GatherElements", "Fill"})  # fmt: skip
LOOPS = frozenset({"MaxPool", "AveragePool", "LRN", "ArgMax", "ArgMin", *REDUCED})
