"""How each operator completes what is known of it, in every way that a space allows: see ``cases.py``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from egraph_opt.axioms import attributes
from egraph_opt.axioms.cases import Choice, Enumeration, exactly
from egraph_opt.axioms.convolutions import average_pool, conv, fused_conv, global_pool, max_pool
from egraph_opt.axioms.links import Form
from egraph_opt.axioms.record import UNARY, Axiom
from egraph_opt.axioms.space import Space
from egraph_opt.ir import AttrValue, TensorType, TupleType, Type
from egraph_opt.ops.base import ints
from egraph_opt.terms import App
from egraph_opt.terms.pattern import tensor_names


def cases_of(axiom: Axiom, space: Space, rng: np.random.Generator | None = None) -> Enumeration:
    """Every case of ``axiom`` in ``space``; with ``rng`` in random order."""
    return Enumeration(axiom, space, CHOICES, rng)


def _unary(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    rows = e.space.scalars.get(app.op, ((),))
    for x in e.fill(app.operands[0], form):
        yield from _scalar_rows(e, app, form, rows, x)


def _scalar_rows(e: Enumeration, app: App, form: Form, rows: Sequence[tuple[Any, ...]], *types: Type) -> Iterator[Type]:
    """The application for every row of attributes."""

    def column(chosen: tuple[Any, ...]) -> dict[AttrValue, None]:
        return dict.fromkeys(row[len(chosen)] for row in rows if row[: len(chosen)] == chosen)

    for attrs in e.bind(app.attrs, *[column] * len(app.attrs)):
        yield from e.emit(app, attrs, types, form)


def _binary(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    first, second = app.operands
    wider = None if form is None else tuple(None if d is None else tuple(dict.fromkeys((*d, 1))) for d in form)
    for x in e.fill(first, wider):
        assert isinstance(x, TensorType)
        forms = _partners(x.numbers(), isinstance(second, App))
        for y in e.fill(second, *forms):
            yield from e.emit(app, (), (x, y), form)


@cache
def _partners(shape: tuple[int, ...], same_rank: bool) -> list[Form]:
    """Forms that broadcast with ``shape``: fewer axes, sizes 1 on either side, one more axis."""
    if len(shape) > 3:
        channel = (1, shape[1], *(1,) * (len(shape) - 2))
        one = (1,) * len(shape)
        made = [exactly(s) for s in dict.fromkeys([shape, (), channel, channel[1:], one])]
        return [form for form in made if len(form) == len(shape) or not same_rank]
    full: tuple[tuple[int, ...] | None, ...] = tuple((n, 1) if n > 1 else None for n in shape)
    if same_rank:
        return [full]
    grown: list[Form] = [((2,), *((n,) for n in shape))] if len(shape) < 3 else []
    return [full[i:] for i in range(len(shape) + 1)] + grown


def _transpose(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    if form is None:
        for x in e.fill(app.operands[0], None):
            assert isinstance(x, TensorType)
            rank = x.rank
            for attrs in e.bind(app.attrs, lambda _, rank=rank: itertools.permutations(range(rank))):
                yield from e.emit(app, attrs, (x,), form)
        return
    rank = len(form)
    for attrs in e.bind(app.attrs, lambda _: itertools.permutations(range(rank))):
        if len(attrs[0]) != rank:
            continue
        perm: tuple[int, ...] = attrs[0]
        inner = tuple(form[perm.index(axis)] for axis in range(rank))
        for x in e.fill(app.operands[0], inner):
            yield from e.emit(app, attrs, (x,), form)


def _concat(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    if form is None:
        for x in e.fill(app.operands[0], None):
            assert isinstance(x, TensorType)
            rank = x.rank
            for attrs in e.bind(app.attrs, lambda _, rank=rank: range(rank)):
                if 0 <= attrs[0] < rank:
                    yield from _rest(e, app, form, attrs[0], (x,))
        return
    for attrs in e.bind(app.attrs, lambda _: range(len(form))):
        axis: int = attrs[0]
        if not 0 <= axis < len(form):
            continue
        domain = form[axis]
        part = None if domain is None else _below(e, max(domain), len(app.operands) - 1)
        for x in e.fill(app.operands[0], (*form[:axis], part, *form[axis + 1 :])):
            assert isinstance(x, TensorType)
            yield from _rest(e, app, form, axis, (x,))


def _rest(e: Enumeration, app: App, form: Form, axis: int, types: tuple[TensorType, ...]) -> Iterator[Type]:
    """The operands after ``types``, equal to the first but along ``axis``."""
    if len(types) == len(app.operands):
        yield from e.emit(app, (axis,), types, form)
        return
    shape = types[0].numbers()
    domain = None if form is None else form[axis]
    left = len(app.operands) - len(types) - 1
    used = sum(t.numbers()[axis] for t in types)
    if domain is None:
        part = None
    elif left:
        part = _below(e, max(domain) - used, left)
    else:
        part = tuple(d - used for d in domain if d > used)
    wanted: Form = (*((n,) for n in shape[:axis]), part, *((n,) for n in shape[axis + 1 :]))
    for t in e.fill(app.operands[len(types)], wanted):
        assert isinstance(t, TensorType)
        yield from _rest(e, app, form, axis, (*types, t))


def _below(e: Enumeration, total: int, others: int) -> tuple[int, ...]:
    return tuple(n for n in e.space.sizes if n + others <= total)


def _split(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    def pieces(chosen: tuple[Any, ...], x: TensorType) -> tuple[tuple[int, ...], ...]:
        axis: int = chosen[0]
        return attributes.pieces(x.numbers()[axis])

    for x in e.fill(app.operands[0], None):
        assert isinstance(x, TensorType)
        if x.rank:
            axes = range(x.rank)
            for attrs in e.bind(app.attrs, lambda _, axes=axes: axes, lambda c, x=x: pieces(c, x)):
                yield from e.emit(app, attrs, (x,), None)


def _get(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    for x in e.fill(app.operands[0], None):
        assert isinstance(x, TupleType)
        count = len(x.items)
        for attrs in e.bind(app.attrs, lambda _, count=count: range(count)):
            yield from e.emit(app, attrs, (x,), form)


def _slice(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    inner: Form = form
    if form is not None:
        cut = e.attributes.get(app.attrs[0].text)  # axes that are known already; the others keep their sizes
        sliced = ints(cut) if cut is not None else tuple(range(len(form)))
        inner = tuple(None if axis in sliced else d for axis, d in enumerate(form))
    for x in e.fill(app.operands[0], inner):
        assert isinstance(x, TensorType)
        shape = x.numbers()
        rank = len(shape)

        def axes(_: tuple[Any, ...], rank: int = rank) -> list[tuple[int, ...]]:
            return [(i,) for i in range(rank)] + [(i, rank - 1) for i in range(rank - 1)]

        def column(chosen: tuple[Any, ...], shape: tuple[int, ...] = shape) -> tuple[tuple[int, ...], ...]:
            chosen_axes: tuple[int, ...] = chosen[0]
            return attributes.column(tuple([shape[axis] for axis in chosen_axes]), chosen[1:])

        for attrs in e.bind(app.attrs, axes, column, column, column):
            yield from e.emit(app, attrs, (x,), form)


def _pad(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    modes = e.space.scalars["Pad"]

    def choosers(rank: int) -> list[Callable[[tuple[Any, ...]], Any]]:
        return [
            lambda _: attributes.pads(e.space.sides, rank),
            lambda _: dict.fromkeys(m for m, _ in modes),
            lambda c: [v for m, v in modes if m == c[1]],
        ]

    if form is None:
        for x in e.fill(app.operands[0], None):
            assert isinstance(x, TensorType)
            if x.rank:
                for attrs in e.bind(app.attrs, *choosers(x.rank)):
                    yield from e.emit(app, attrs, (x,), form)
        return
    rank = len(form)
    for attrs in e.bind(app.attrs, *choosers(rank)):
        sides = attrs[0]
        if len(sides) != 2 * rank:
            continue
        inner = tuple(
            d if d is None or not (sides[i] or sides[i + rank]) else _unpadded(e, d, sides[i] + sides[i + rank])
            for i, d in enumerate(form)
        )
        for x in e.fill(app.operands[0], inner):
            yield from e.emit(app, attrs, (x,), form)


def _unpadded(e: Enumeration, domain: tuple[int, ...], total: int) -> tuple[int, ...]:
    return tuple(n - total for n in domain if 0 < n - total <= max(e.space.sizes))


def _reshape(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    for x in e.fill(app.operands[0], None):
        assert isinstance(x, TensorType)
        shape = x.numbers()
        for attrs in e.bind(app.attrs, lambda _, shape=shape: attributes.regroupings(shape)):
            yield from e.emit(app, attrs, (x,), form)


def _expand(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    for x in e.fill(app.operands[0], None):
        assert isinstance(x, TensorType)
        grown = [tuple(s) for s in itertools.product(*((1, 3) if n == 1 else (n,) for n in x.numbers()))]
        targets = [*grown, (2, *x.numbers())]
        for attrs in e.bind(app.attrs, lambda _, targets=targets: targets):
            yield from e.emit(app, attrs, (x,), form)


def _fill(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    shapes = [(c, *(1,) * (rank - 1)) for rank in (3, 4) for c in e.space.sizes]
    for attrs in e.bind(app.attrs, lambda _: shapes, lambda _: (1.0,), lambda _: ("float64",)):
        yield from e.emit(app, attrs, (), form)


def _cast(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    for x in e.fill(app.operands[0], form):
        for attrs in e.bind(app.attrs, lambda _: ("float64",)):
            yield from e.emit(app, attrs, (x,), form)


def _matmul(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    if not tensor_names(app.operands[0]):  # a constant whose attributes the other operand determines
        for y in e.fill(app.operands[1], None):
            for x in e.fill(app.operands[0], None):
                yield from e.emit(app, (), (x, y), form)
        return
    left: list[Form] = [None]
    if form is not None and len(form) >= 2:
        left = [(None,), (form[-2], None), (None, form[-2], None), (None, None, form[-2], None)]
    for x in e.fill(app.operands[0], *left):
        assert isinstance(x, TensorType)
        if x.rank == 0:
            continue
        inner, batch = (x.numbers()[-1],), x.numbers()[:-2]
        forms: list[Form] = [(inner, None), (inner,)]
        if batch:
            forms += [(*((n, 1) if n > 1 else (1,) for n in batch), inner, None)]
        elif x.rank == 2:
            forms += [((2,), inner, None)]
        for y in e.fill(app.operands[1], *forms):
            yield from e.emit(app, (), (x, y), form)


def _gemm(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    rows = e.space.scalars["Gemm"]

    def choose(chosen: tuple[Any, ...]) -> list[AttrValue]:
        return [0, 1] if len(chosen) < 2 else [r[len(chosen) - 2] for r in rows]

    for attrs in e.bind(app.attrs, *[choose] * 4):
        for a in e.fill(app.operands[0], (None, None)):
            assert isinstance(a, TensorType)
            m, k = a.numbers()[::-1] if attrs[0] else a.numbers()
            for b in e.fill(app.operands[1], (None, (k,)) if attrs[1] else ((k,), None)):
                assert isinstance(b, TensorType)
                n = b.numbers()[0] if attrs[1] else b.numbers()[1]
                biases = [exactly(s) for s in dict.fromkeys([(m, n), (n,), (m, 1), (1, n), (1,), ()])]
                rest = e.fill(app.operands[2], *biases) if len(app.operands) == 3 else (None,)
                for c in rest:
                    yield from e.emit(app, attrs, (a, b) if c is None else (a, b, c), form)


def _reduce(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    for x in e.fill(app.operands[0], None):
        assert isinstance(x, TensorType)
        axes = [a for count in range(1, x.rank + 1) for a in itertools.combinations(range(x.rank), count)]
        for attrs in e.bind(app.attrs, lambda _, axes=axes: axes, lambda _: (0, 1)):
            yield from e.emit(app, attrs, (x,), form)


def _softmax(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    for x in e.fill(app.operands[0], form):
        assert isinstance(x, TensorType)
        rank = x.rank
        for attrs in e.bind(app.attrs, lambda _, rank=rank: range(rank)):
            yield from e.emit(app, attrs, (x,), form)


def _per_channel(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    """BatchNormalization and InstanceNormalization."""
    for rank in (2, 3, 4):
        for x in e.fill(app.operands[0], (None,) * rank):
            assert isinstance(x, TensorType)
            yield from _parameters(e, app, form, [x], exactly(x.numbers()[1:2]))


def _parameters(e: Enumeration, app: App, form: Form, types: list[Type], *forms: Form) -> Iterator[Type]:
    if len(types) < len(app.operands):
        for t in e.fill(app.operands[len(types)], *forms):
            yield from _parameters(e, app, form, [*types, t], *forms)
        return
    values = [v for (v,) in e.space.scalars["epsilon"]]
    for attrs in e.bind(app.attrs[-1:], lambda _: values):
        before = tuple(e.attributes[a.text] for a in app.attrs[:-1])
        yield from e.emit(app, (*before, *attrs), types, form)


def _per_axis(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    """LayerNormalization and RMSNormalization."""
    for x in e.fill(app.operands[0], form):
        assert isinstance(x, TensorType)
        rank = x.rank
        for (axis,) in e.bind(app.attrs[:1], lambda _, rank=rank: range(rank)):
            inner = x.numbers()[axis:]
            forms = [exactly(s) for s in dict.fromkeys([inner, inner[-1:]])]
            yield from _parameters(e, app, form, [x], *forms)


CHOICES: dict[str, Choice] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu"), _binary),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"), _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _per_channel),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), _per_axis),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), global_pool),
    **dict.fromkeys([*(name for name, _ in UNARY), "Softsign", "Mish"], _unary),
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Get": _get,
    "Slice": _slice,
    "Pad": _pad,
    "Reshape": _reshape,
    "Expand": _expand,
    "Fill": _fill,
    "Cast": _cast,
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": conv,
    "FusedConv": fused_conv,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
}
