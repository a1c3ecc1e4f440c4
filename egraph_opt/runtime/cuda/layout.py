"""In which order the axes of a value lie in memory: which operator takes which orders, and a rule of thumb.

Orders that differ only in where axes of size 1 stand are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from egraph_opt.ir import AttrValue, TensorGraph, TensorType, TupleType, Type
from egraph_opt.ops.base import ints
from egraph_opt.runtime.costs import ROW_MAJOR, Order, Orders
from egraph_opt.runtime.cuda.expressions import ELEMENTWISE, STORED
from egraph_opt.runtime.cuda.fusion import Fusion
from egraph_opt.runtime.cuda.kernels import ROWS
from egraph_opt.runtime.cuda.loops import REDUCED
from egraph_opt.runtime.cuda.views import channels_last

WANT = frozenset(
    {
        "Conv", "FusedConv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LRN",
        "BatchNormalization",
    }
)  # fmt: skip
"""The channels fastest, in the first operand and in the result."""
FOLLOW = ELEMENTWISE - WANT | {"Concat", "Slice", "Get", "Split", "Pad"}
"""Any one order throughout."""
READ = ROWS | REDUCED.keys() - WANT
"""Generated kernels that read any order, and write row-major."""
_MOST = 3
"""Orders besides row-major that a value may have."""


@dataclass(frozen=True, slots=True)
class Applied:
    """An operator and what it is applied to: a node of a graph, or an e-node, whose values are e-classes."""

    op: str
    attrs: tuple[AttrValue, ...]
    value: int
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to compute an operator: how its result lies and its operands do. A view costs nothing."""

    result: Order
    operands: tuple[Order, ...]
    is_view: bool = False


@dataclass(frozen=True)
class Values:
    """Values that operators are applied to.

    Attributes:
        shapes: by value; of a tuple, the largest of its tensors along each axis; absent where there is none.
        free: values that lie as their readers want them: constants.
        orders: the orders that each value may have besides row-major.
        same: how row-major is written for values for which channels last is the same: as steps were measured.
    """

    shapes: Mapping[int, tuple[int, ...]]
    free: Collection[int]
    orders: Mapping[int, tuple[Order, ...]]
    same: Orders

    @staticmethod
    def of(applied: Sequence[Applied], types: Mapping[int, Type | None]) -> Values:
        """Looks for the orders that may pay: channels last around ``WANT``, and products as ``Transpose`` wants them.

        ``types``: by value, with numbers for sizes.
        """
        shapes = {v: s for v, t in types.items() if (s := _shape(t)) is not None}
        free = {a.value for a in applied if a.op in ("Const", "Fill")}
        found: dict[int, dict[Order, Order]] = defaultdict(dict)
        same: dict[int, Order] = {}
        marked = _with_channels(applied, {v: len(s) for v, s in shapes.items()})
        wanted = [(v, channels_last(len(shapes[v]))) for v in marked if v in shapes and len(shapes[v]) >= 3]
        for value, order in [*wanted, *_transposed(applied, shapes)]:
            key, known = _without_ones(order, shapes[value]), found[value]
            if key == _without_ones(ROW_MAJOR, shapes[value]):
                same.setdefault(value, order)
            elif value not in free and len(known) < _MOST:
                known.setdefault(key, order)
        return Values(shapes, free, {v: tuple(known.values()) for v, known in found.items() if known}, same)

    def ways(self, applied: Applied) -> list[Way]:
        """The ways to compute an operator, the ones with most in row-major first; there is at least one."""
        value, operands = applied.value, applied.operands
        if applied.op in WANT and value in self.shapes and len(self.shapes[value]) >= 3:
            order = channels_last(len(self.shapes[value]))
            result, first = self._as(order, value), self._as(order, operands[0])
            return [Way(result or ROW_MAJOR, (first or ROW_MAJOR, *(ROW_MAJOR,) * (len(operands) - 1)))]
        plain = Way(ROW_MAJOR, (ROW_MAJOR,) * len(operands))
        if not any(v in self.orders for v in (value, *operands)):
            return [plain]
        if applied.op in FOLLOW:
            return list(dict.fromkeys([plain, *self._throughout(applied)]))
        if applied.op == "Transpose":
            return list(dict.fromkeys([*self._views(applied), plain]))
        if applied.op in READ:
            rest = operands[1:]
            return [plain, *(Way(ROW_MAJOR, (o, *(ROW_MAJOR,) * len(rest))) for o in self._offered(operands[0]))]
        if applied.op == "MatMul":
            return [
                Way(result, (a, b))
                for result in self._products(value)
                for a in self._products(operands[0])
                for b in self._products(operands[1])
            ]
        return [plain]

    def _offered(self, value: int) -> tuple[Order, ...]:
        return self.orders.get(value, ())

    def _as(self, order: Order, value: int) -> Order | None:
        """The order of a value that is the same as ``order``, if it may have one."""
        shape = self.shapes.get(value, ())
        key = _without_ones(order, shape)
        known = (o for o in (ROW_MAJOR, *self._offered(value)) if _without_ones(o, shape) == key)
        return ROW_MAJOR if value in self.free else next(known, None)

    def _throughout(self, applied: Applied) -> Iterable[Way]:
        rank = len(self.shapes.get(applied.value, ()))
        for order in dict.fromkeys(o for v in (applied.value, *applied.operands) for o in self._offered(v)):
            if len(order) != rank:
                continue
            same = [v for v in applied.operands if len(self.shapes.get(v, ())) == rank]
            lies = {v: self._as(order, v) for v in (applied.value, *same)}
            if None not in lies.values():
                operands = tuple(lies.get(v) or ROW_MAJOR for v in applied.operands)
                yield Way(lies[applied.value] or ROW_MAJOR, operands)

    def _views(self, applied: Applied) -> Iterable[Way]:
        source, perm = applied.operands[0], ints(applied.attrs[0])
        if applied.value not in self.shapes or source not in self.shapes or source in self.free:
            return
        for order in (ROW_MAJOR, *self._offered(source)):
            seen = self._as(_through(perm, order), applied.value)
            if seen is not None:
                yield Way(seen, (order,), is_view=True)

    def _products(self, value: int) -> list[Order]:
        """Orders in which a library takes a matrix, or writes one."""
        return [o for o in (ROW_MAJOR, *self._offered(value)) if is_matrix(o, self.shapes.get(value, ()))]


def orders(graph: TensorGraph) -> dict[int, Order]:
    """The order of every value that is not to be row-major, by a rule of thumb.

    Convolutions and pools want the channels fastest; what is computed element by element from or for them follows. The
    result of a product that is only used transposed is written transposed.
    """
    live = graph.live()
    applied = [Applied(graph.nodes[i].op, graph.nodes[i].attrs, i, graph.nodes[i].operands) for i in live]
    ranks = {i: len(s) for i in live if (s := _shape(graph.types[i])) is not None}
    found = {i: channels_last(ranks[i]) for i in _with_channels(applied, ranks) if ranks.get(i, 0) >= 3}
    users: dict[int, list[int]] = defaultdict(list)
    for node in live:
        for operand in graph.nodes[node].operands:
            users[operand].append(node)
    for node in live:
        if graph.nodes[node].op == "MatMul" and node not in graph.outputs:
            perms = {graph.nodes[u].attrs if graph.nodes[u].op == "Transpose" else None for u in users[node]}
            if len(perms) == 1 and None not in perms:
                (attrs,) = perms
                assert attrs is not None
                found[node] = ints(attrs[0])
    return found


def written(fusion: Fusion, wanted: Orders) -> dict[int, Order]:
    """``wanted`` as far as what computes each value can write it so."""
    types = fusion.graph.types
    ranks = {n: t.rank for n in wanted if isinstance(t := types[n], TensorType)}  # a Split is never written
    found = {n: wanted[n] for n, rank in ranks.items() if sorted(wanted[n]) == list(range(rank))}
    found = {n: order for n, order in found.items() if order != tuple(range(ranks[n]))}
    for root, dense in fusion.dense.items():
        if fusion.graph.nodes[dense.node].op == "Conv":
            found[root] = channels_last(len(fusion.shape(root)))
        elif root in found and not may_write(fusion, root, found[root]):
            del found[root]
    return found


def may_write(fusion: Fusion, root: int, order: Order) -> bool:
    """Whether what computes a value can write it in an order: a library's convolutions write the channels fastest, its
    products matrices, along whose rows it adds; generated kernels write any order."""
    dense = fusion.dense.get(root)
    if dense is None:
        return True
    shape = fusion.shape(root)
    if fusion.graph.nodes[dense.node].op == "Conv":
        return _without_ones(order, shape) == _without_ones(channels_last(len(shape)), shape)
    return is_matrix(order, shape, rows=dense.adds)


def is_matrix(order: Order, shape: Sequence[int], *, rows: bool = False) -> bool:
    """Whether one of the last two axes is the fastest, or the last one (``rows``), those of size 1 apart: what
    libraries multiply."""
    rest = _without_ones(order, shape)
    return not rest or rest[-1] >= len(shape) - (1 if rows else 2)


def _without_ones(order: Order, shape: Sequence[int]) -> Order:
    return tuple(axis for axis in order or range(len(shape)) if shape[axis] != 1)


def _through(perm: Order, order: Order) -> Order:
    """How the transpose of a value lies that lies in ``order``."""
    return tuple(perm.index(axis) for axis in order or range(len(perm)))


def _shape(type_: Type | None) -> tuple[int, ...] | None:
    items = type_.items if isinstance(type_, TupleType) else (type_,)
    shapes = [t.numbers() for t in items if isinstance(t, TensorType) and t.dtype in STORED]
    if len(shapes) != len(items) or len({len(s) for s in shapes}) != 1:
        return None
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


def _with_channels(applied: Iterable[Applied], ranks: Mapping[int, int]) -> set[int]:
    """Values of convolutions, pools, and of what is between them."""
    marked: set[int] = set()
    fixed: set[int] = set()
    neighbours: dict[int, set[int]] = defaultdict(set)
    for a in applied:
        if a.op in ("Const", "Fill"):
            fixed.add(a.value)
        if a.op in WANT:
            marked |= {a.value, a.operands[0]}
        if a.op in FOLLOW:
            for operand in a.operands:
                if ranks.get(operand) == ranks.get(a.value):
                    neighbours[a.value].add(operand)
                    neighbours[operand].add(a.value)
    stack = list(marked)
    while stack:
        for other in neighbours.get(stack.pop(), ()):
            if other not in marked and other not in fixed:
                marked.add(other)
                stack.append(other)
    return marked


def _transposed(applied: Sequence[Applied], shapes: Mapping[int, tuple[int, ...]]) -> Iterable[tuple[int, Order]]:
    """Values and orders: of products that are written as a ``Transpose`` of them, or of what is computed from them
    element by element, is to lie, and of transposes that products read where they are."""
    makers: dict[int, list[Applied]] = defaultdict(list)
    read: set[int] = set()
    for a in applied:
        if a.op in ELEMENTWISE:
            makers[a.value].append(a)
        if a.op == "MatMul":
            read.update(a.operands)
    near = _computed_from({a.value for a in applied if a.op == "MatMul"}, applied, shapes)
    for a in applied:
        if a.op != "Transpose" or a.operands[0] not in shapes or a.value not in shapes:
            continue
        perm = ints(a.attrs[0])
        seen = _through(perm, ROW_MAJOR)
        if a.value in read and is_matrix(seen, shapes[a.value]):
            yield a.value, seen
        stack, known = [a.operands[0]], set[int]()
        while stack:
            value = stack.pop()
            if value in known or value not in near or len(shapes[value]) != len(perm):
                continue
            known.add(value)
            if is_matrix(perm, shapes[value]):
                yield value, perm
                stack += [v for maker in makers[value] for v in maker.operands]


def _computed_from(start: set[int], applied: Sequence[Applied], shapes: Mapping[int, tuple[int, ...]]) -> set[int]:
    """``start`` and what is computed from it element by element, at the same rank."""
    users: dict[int, list[int]] = defaultdict(list)
    for a in applied:
        if a.op in ELEMENTWISE:
            for operand in a.operands:
                users[operand].append(a.value)
    found, stack = set[int](), [v for v in start if v in shapes]
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            stack += [u for u in users[value] if u in shapes and len(shapes[u]) == len(shapes[value])]
    return found
