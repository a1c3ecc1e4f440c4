"""Products of any rank as products of (batch, rows, columns), which is what a library takes."""

from __future__ import annotations

import math
from dataclasses import replace

from egraph_opt.runtime.cuda.steps import Product
from egraph_opt.runtime.cuda.views import View, reshaped


def parts_of(rows: int, inner: int, outer: int, size: int) -> int:
    """Into how many parts the inner axis of a product of few rows is cut: enough blocks for the GPU, but none so short
    that starting it costs more. ``size`` is that of an element in bytes: a block has room for 128 or 64 columns."""
    count = 1
    while rows <= 128 and inner % (2 * count) == 0 and inner // (2 * count) * size >= 1024:
        if 2 * count * outer > 132 * 32 * size:
            break
        count *= 2
    return count


def products(
    title: str, a: View, b: View, d: View, bias: View | None, c: View | None, alpha: float, activation: str | None
) -> list[Product]:
    """``d = activation(alpha * a @ b + bias + c)`` with NumPy's rules of rank; more than one where strides need it."""
    if len(a.shape) == 1:
        a, d = _with_axis(a, 0), _with_axis(d, len(d.shape) - (len(b.shape) > 1))
        c = c and _with_axis(c, len(c.shape) - (len(b.shape) > 1))
    if len(b.shape) == 1:
        b, d = _with_axis(b, 1), _with_axis(d, len(d.shape))
        c = c and _with_axis(c, len(c.shape))
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if math.prod(b.shape[:-2]) == 1:  # one weight for all: the batch is more rows
        rows = math.prod(d.shape[:-1])
        flat = [reshaped(v, (1, rows, v.shape[-1])) if v else None for v in (a, d, c)]
        if flat[0] and flat[1] and (c is None or flat[2]) and math.prod(a.shape[:-1]) == rows:
            b = replace(b, shape=(1, k, n), strides=(0, *b.strides[-2:]))
            return [_product(title, flat[0], b, flat[1], bias, flat[2], alpha, activation)]
    batch = d.shape[:-2]
    wide = [_broadcast(v, batch) if v else None for v in (a, b, d, c)]
    return _batched(title, wide, bias, alpha, activation, (m, k, n))


def _batched(
    title: str,
    views: list[View | None],
    bias: View | None,
    alpha: float,
    activation: str | None,
    sizes: tuple[int, ...],
) -> list[Product]:
    a, b, d, c = views
    assert a and b and d
    count = math.prod(d.shape[:-2])
    flat = [reshaped(v, (count, *v.shape[-2:])) if v else None for v in views]
    if flat[0] and flat[1] and flat[2] and (c is None or flat[3]):
        return [_product(title, flat[0], flat[1], flat[2], bias, flat[3], alpha, activation)]
    found: list[Product] = []
    for entry in range(d.shape[0]):
        inner = [
            v and replace(v, shape=v.shape[1:], strides=v.strides[1:], offset=v.offset + entry * v.strides[0])
            for v in views
        ]
        found += _batched(title, inner, bias, alpha, activation, sizes)
    return found


def _product(
    title: str, a: View, b: View, d: View, bias: View | None, c: View | None, alpha: float, activation: str | None
) -> Product:
    reads = tuple(v for v in (a, b, bias, c) if v is not None)
    return Product(title, reads, (d,), a, b, d, bias, c, alpha, activation)


def _with_axis(view: View, axis: int) -> View:
    shape, strides = list(view.shape), list(view.strides)
    shape.insert(axis, 1)
    strides.insert(axis, 1)
    return replace(view, shape=tuple(shape), strides=tuple(strides))


def _broadcast(view: View, batch: tuple[int, ...]) -> View:
    own = view.shape[:-2]
    padded = (1,) * (len(batch) - len(own)) + own
    steps = (0,) * (len(batch) - len(own)) + view.strides[:-2]
    strides = tuple(0 if n == 1 else s for n, s in zip(padded, steps, strict=True))
    return replace(view, shape=(*batch, *view.shape[-2:]), strides=(*strides, *view.strides[-2:]))
