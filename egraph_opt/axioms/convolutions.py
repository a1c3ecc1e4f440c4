"""Completions of convolutions and pools: see ``cases.py``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

from egraph_opt.axioms.cases import Chooser, Enumeration
from egraph_opt.axioms.links import Domain, Form
from egraph_opt.axioms.space import pads
from egraph_opt.ir import TensorType, Type
from egraph_opt.terms import App, Var

_LARGEST = 8  # filters of two blocks
_FLAG: Chooser = lambda _: (0, 1)  # noqa: E731 - a table of one


def conv(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    """Conv: input, groups, weight, window, bias."""
    for spatial in _spatial(e, app, form):
        outer: tuple[Domain, ...] = (form[0], form[1]) if form is not None else (None, None)
        for x in e.fill(app.operands[0], (_batch(e, outer[0]), *(None,) * (1 + spatial))):
            assert isinstance(x, TensorType)
            channels = x.numbers()[1]
            groups = dict.fromkeys(g or channels for g in e.space.groups)
            for (group,) in e.bind(app.attrs[3:4], lambda _, groups=groups: groups):
                if group < 1 or channels % group:
                    e.skipped += 1
                    continue
                yield from _weights(e, app, form, x, group, outer[1])


def fused_conv(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    """FusedConv never stands on a left side."""
    raise NotImplementedError(app.op)


def _weights(e: Enumeration, app: App, form: Form, x: TensorType, group: int, filters: Domain) -> Iterator[Type]:
    channels, spatial = x.numbers()[1], x.rank - 2
    fitting = tuple(m for m in filters or range(1, _LARGEST + 1) if m % group == 0)
    weight = app.operands[1]
    if isinstance(weight, Var) and filters is None:
        fitting = tuple(m for m in fitting if m in e.space.sizes)
    padded = isinstance(app.operands[0], App) and app.operands[0].op == "Pad"
    kernels = [k for k in (e.space.few if padded else e.space.kernels) if len(k) == spatial]
    forms: list[Form] = [(fitting, (channels // group,), *((n,) for n in k)) for k in kernels]
    if isinstance(weight, App) and weight.op == "Pad":  # the kernel inside is smaller
        larger = [k for k in e.space.enlarged if len(k) == spatial]
        forms = [(fitting, (channels // group,), *((n,) for n in k)) for k in larger]
    for w in e.fill(app.operands[1], *forms):
        assert isinstance(w, TensorType)
        for attrs in _windows(e, app, x.numbers()[2:], w.numbers()[2:], most_pad=None):
            biases = e.fill(app.operands[2], ((w.numbers()[0],),)) if len(app.operands) == 3 else (None,)
            for b in biases:
                yield from e.emit(app, (*attrs, group), (x, w) if b is None else (x, w, b), form)


def _windows(
    e: Enumeration, app: App, sizes: tuple[int, ...], kernel: tuple[int, ...], most_pad: tuple[int, ...] | None
) -> Iterator[tuple[Any, ...]]:
    """Strides, pads and dilations; pads below ``most_pad`` where that is given."""
    at = 1 if app.op in ("MaxPool", "AveragePool") else 0
    spatial = len(sizes)
    exprs = (app.attrs[at], app.attrs[at + 2], app.attrs[at + 1])

    def patterns(chosen: tuple[Any, ...]) -> tuple[tuple[int, ...], ...]:
        made = _patterns(e.space.pads, sizes, kernel, *chosen)
        if most_pad is None:
            return made
        return tuple(m for m in made if all(p < k for p, k in zip(m, most_pad * 2, strict=True)))

    def uniform(values: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [(v,) * spatial for v in values]

    for strides, dilations, sides in e.bind(
        exprs, lambda _: uniform(e.space.strides), lambda _: uniform(e.space.dilations), patterns
    ):
        yield strides, sides, dilations


@cache
def _patterns(
    names: tuple[str, ...],
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[tuple[int, ...], ...]:
    """Explicit pads of every pattern, each once."""
    found: dict[tuple[int, ...], None] = {}
    for name in names:
        axes = [pads(name, *row) for row in zip(sizes, kernel, strides, dilations, strict=True)]
        found[(*(a for a, _ in axes), *(b for _, b in axes))] = None
    return tuple(found)


def max_pool(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    """MaxPool: input, kernel, window, flags."""
    for spatial in _spatial(e, app, form):
        outer: tuple[Domain, ...] = (form[0], form[1]) if form is not None else (None, None)
        for x in e.fill(app.operands[0], (_batch(e, outer[0]), outer[1], *(None,) * spatial)):
            assert isinstance(x, TensorType)
            rank = x.rank - 2
            kernels = [k for k in e.space.few if len(k) == rank]
            for (kernel,) in e.bind(app.attrs[:1], lambda _, kernels=kernels: kernels):
                if len(kernel) != rank:
                    continue
                flags = list(app.attrs[4:])
                for attrs in _windows(e, app, x.numbers()[2:], kernel, most_pad=kernel):
                    for chosen in e.bind(flags, *[_FLAG] * len(flags)):
                        yield from e.emit(app, (kernel, *attrs, *chosen), (x,), form)


average_pool = max_pool


def global_pool(e: Enumeration, app: App, form: Form) -> Iterator[Type]:
    """One number per plane."""
    for spatial in _spatial(e, app, form):
        outer: tuple[Domain, ...] = (form[0], form[1]) if form is not None else (None, None)
        for x in e.fill(app.operands[0], (_batch(e, outer[0]), outer[1], *(None,) * spatial)):
            yield from e.emit(app, (), (x,), form)


def _spatial(e: Enumeration, app: App, form: Form) -> list[int]:
    """Numbers of spatial axes that are still possible."""
    if form is not None:
        return [len(form) - 2] if len(form) > 2 else []
    known = [e.tensors[o.name].rank - 2 for o in app.operands[:2] if isinstance(o, Var) and o.name in e.tensors]
    counts = dict.fromkeys(len(k) for k in e.space.kernels)
    return [known[0]] if known else list(itertools.chain(counts))


def _batch(e: Enumeration, outer: Domain) -> Domain:
    if outer is not None:
        return outer
    return (e.space.stacked(),) if e.stacks else e.space.joined
