"""Data movement for ``onnx_draft``: axes, slices, joins, indices, and tensors made of sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper
from onnx_draft import SYMBOL_SIZE, Draft, RefusedError
from onnx_nodes import axes_of, axis_of, flip, is_float, node, number, one_of, ranked, weight


@node
def transpose(d: Draft) -> object:
    x = d.pick(lambda v: v.ndim >= 1)
    rank = d.values[x].ndim
    if flip(d, 0.3):
        return d.apply("Transpose", [x])
    return d.apply("Transpose", [x], perm=[int(p) for p in d.rng.permutation(rank)])


@node
def reshape(d: Draft) -> object:
    x = d.pick(lambda v: v.size > 0)
    shape = list(d.values[x].shape)
    kind = number(d, 0, 4)
    if kind == 0 and len(shape) > 1:
        shape = [*shape[:-2], -1]
    elif kind == 1 and shape:
        shape = [0, -1]
    elif kind == 2:
        shape = [*([0] if shape and flip(d) else shape[:1]), *shape[1:], 1]
    elif kind == 3 and shape:
        last = shape[-1]
        part = one_of(d, *[p for p in range(1, last + 1) if last % p == 0])
        shape = [*(0 for _ in shape[:-1]), part, -1]
    else:
        shape = [-1]
    return d.apply("Reshape", [x, d.ints(*shape)])


@node
def reshape_by_shape(d: Draft) -> object:
    """As exporters write it: sizes by Shape, Gather, and Concat."""
    x = d.pick(lambda v: v.ndim >= 2 and v.size > 0)
    sizes = d.apply("Shape", [x])[0]
    first = d.apply("Gather", [sizes, d.constant(np.asarray(one_of(d, 0, -d.values[x].ndim)))], axis=0)
    vector = axes_given(d, "Unsqueeze", first[0], [0], 13)[0]
    target = d.apply("Concat", [vector, d.ints(-1)], axis=0)
    return d.apply("Reshape", [x, *target])


def axes_given(d: Draft, op: str, x: str, axes: list[int], since: int, **attrs: Any) -> list[str]:
    if d.opset < since:
        return d.apply(op, [x], axes=axes, **attrs)
    return d.apply(op, [x, d.ints(*axes)], **attrs)


@node
def unsqueeze(d: Draft) -> object:
    x = d.pick(lambda v: v.ndim <= 3)
    rank = d.values[x].ndim + 2
    axes = axes_of(d, rank)[:2]
    if d.opset < 11:
        axes = [a % rank for a in axes]
    if len(axes) == 1:
        axes = [a + 1 if a < -1 else a % (rank - 1) if a >= 0 else a for a in axes]
    return axes_given(d, "Unsqueeze", x, axes, 13)


@node
def squeeze(d: Draft) -> object:
    x = d.pick(lambda v: 1 in v.shape)
    shape = d.values[x].shape
    ones = [i for i, s in enumerate(shape) if s == 1]
    if flip(d, 0.2) and not d.symbolic:
        return d.apply("Squeeze", [x])
    axes = [one_of(d, *ones)]
    return axes_given(d, "Squeeze", x, [a - len(shape) if flip(d) and d.opset >= 11 else a for a in axes], 13)


@node
def flatten(d: Draft) -> object:
    x = d.pick(lambda v: v.ndim >= 1)
    rank = d.values[x].ndim
    return d.apply("Flatten", [x], axis=number(d, -rank if d.opset >= 11 else 0, rank))


@node
def slice_(d: Draft) -> object:
    x = d.pick(lambda v: v.ndim >= 1)
    shape = d.values[x].shape
    axes = axes_of(d, len(shape))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = shape[axis]
        step = one_of(d, 1, 1, 1, 2, 3, -1, -2) if d.opset >= 10 else 1
        if step > 0:
            start = number(d, 0, max(size - 1, 0))
            end = one_of(d, size, 2**63 - 1, 10**6, number(d, start, size))
        else:
            start = one_of(d, size - 1, 2**31 - 1, number(d, 0, max(size - 1, 0)))
            end = one_of(d, -(2**63), -(10**6), 0 - size - 1)
        starts.append(start - size if flip(d, 0.4) and 0 < start < size else start)
        ends.append(end - size if flip(d, 0.4) and 0 < end < size else end)
        steps.append(step)
    if d.opset < 10:
        return d.apply("Slice", [x], starts=starts, ends=ends, axes=[a % len(shape) for a in axes])
    small = flip(d, 0.3) and all(abs(e) < 2**31 for e in (*starts, *ends))
    kind = "int32" if small else "int64"
    lists = [starts, ends, axes, steps]
    if all(s == 1 for s in steps) and flip(d):
        lists = lists[:3]
    return d.apply("Slice", [x, *(d.constant(np.array(v, kind)) for v in lists)])


@node
def concat(d: Draft) -> object:
    x = d.pick(lambda v: v.ndim >= 1)
    value = d.values[x]
    axis = axis_of(d, value.ndim)
    at = axis % value.ndim
    fits = d.tensors(
        lambda v: (
            v.dtype == value.dtype
            and v.ndim == value.ndim
            and all(a == b or i == at for i, (a, b) in enumerate(zip(v.shape, value.shape, strict=True)))
        )
    )
    parts = [x, *(str(d.rng.choice(fits)) for _ in range(number(d, 0, 3)))]
    if SYMBOL_SIZE not in value.shape or not d.symbolic:
        parts += [weight(d, value.shape, value)] if flip(d, 0.3) else []
    return d.apply("Concat", parts, axis=axis if d.opset >= 11 else at)


@node
def split(d: Draft) -> object:
    x = d.pick(lambda v: v.ndim >= 1 and max(v.shape) >= 2)
    shape = d.values[x].shape
    axis = one_of(d, *[i for i, s in enumerate(shape) if s >= 2])
    parts = number(d, 2, min(shape[axis], 3))
    cuts = sorted(int(c) for c in d.rng.permutation(np.arange(1, shape[axis]))[: parts - 1])
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, shape[axis]], strict=True)]
    signed = axis - len(shape) if flip(d, 0.4) and d.opset >= 11 else axis
    if d.opset >= 18 and flip(d, 0.4):
        return d.apply("Split", [x], parts, axis=signed, num_outputs=parts)
    if flip(d, 0.3) and shape[axis] % parts == 0 and d.opset < 18:
        return d.apply("Split", [x], parts, axis=signed)
    if d.opset < 13:
        return d.apply("Split", [x], parts, axis=signed, split=sizes)
    return d.apply("Split", [x, d.ints(*sizes)], parts, axis=signed)


@node
def pad(d: Draft) -> object:
    x = d.pick(ranked(1, 4))
    value = d.values[x]
    mode = one_of(d, "constant", "constant", "constant", "reflect", "edge")
    amounts = [number(d, -1 if mode == "constant" and flip(d, 0.3) else 0, 2) for _ in range(2 * value.ndim)]
    fill = one_of(d, 0.0, 0.0, 1.5)
    if d.opset < 11:
        return d.apply("Pad", [x], mode=mode, pads=amounts, **({"value": fill} if flip(d) else {}))
    more = [d.constant(np.asarray(fill, value.dtype))] if mode == "constant" and flip(d) else []
    if d.opset >= 18 and flip(d, 0.3):
        axis = axis_of(d, value.ndim)
        return d.apply("Pad", [x, d.ints(*amounts[:2]), *(more or [""]), d.ints(axis)], mode=mode)
    return d.apply("Pad", [x, d.ints(*amounts), *more], mode=mode)


@node
def gather(d: Draft) -> object:
    x = d.pick(lambda v: v.ndim >= 1 and v.size > 0)
    axis = axis_of(d, d.values[x].ndim)
    size = d.values[x].shape[axis]
    low = min(size, 2) if d.symbolic and size == SYMBOL_SIZE else size
    picked = d.rng.integers(-low, low, one_of(d, (), (1,), (3,), (2, 2)))
    return d.apply("Gather", [x, d.constant(picked, one_of(d, "int64", "int32"))], axis=axis)


@node
def gather_elements(d: Draft) -> object:
    if d.opset < 11:
        raise RefusedError("no GatherElements")
    x = d.pick(lambda v: v.ndim >= 1 and v.size > 0)
    value = d.values[x]
    axis = axis_of(d, value.ndim)
    return d.apply("GatherElements", [x, d.constant(d.rng.integers(-1, 1, value.shape))], axis=axis)


@node
def expand(d: Draft) -> object:
    x = d.pick(lambda v: v.ndim <= 3)
    shape = [one_of(d, 1, s) if s != 1 else number(d, 1, 3) for s in d.values[x].shape]
    shape = [1 if s == SYMBOL_SIZE else s for s in shape]
    return d.apply("Expand", [x, d.ints(*([2] if flip(d, 0.3) else []), *shape)])


@node
def tile(d: Draft) -> object:
    x = d.pick(lambda v: 1 <= v.ndim <= 4)
    return d.apply("Tile", [x, d.ints(*(one_of(d, 1, 1, 2) for _ in d.values[x].shape))])


@node
def blocks(d: Draft) -> object:
    x = d.pick(ranked(4, 4))
    _, channels, height, width = d.values[x].shape
    if channels % 4 == 0 and flip(d):
        more = {"mode": one_of(d, "DCR", "CRD")} if d.opset >= 11 else {}
        return d.apply("DepthToSpace", [x], blocksize=2, **more)
    if height % 2 or width % 2:
        raise RefusedError("odd")
    return d.apply("SpaceToDepth", [x], blocksize=2)


@node
def places(d: Draft) -> object:
    x = d.pick(lambda v: is_float(v) and v.ndim >= 1 and v.size > 0)
    op = one_of(d, "ArgMax", "ArgMin")
    more = {"select_last_index": number(d, 0, 1)} if d.opset >= 12 else {}
    axis = axis_of(d, d.values[x].ndim)
    return d.apply(op, [x], axis=axis if d.opset >= 11 else axis % d.values[x].ndim, keepdims=number(d, 0, 1), **more)


@node
def top(d: Draft) -> object:
    if d.opset < 11:
        raise RefusedError("another form")
    x = d.pick(lambda v: is_float(v) and v.ndim >= 1 and v.shape[-1] >= 2)
    return d.apply("TopK", [x, d.ints(2)], 2, axis=-1, largest=number(d, 0, 1))


@node
def sums_of_prefixes(d: Draft) -> object:
    if d.opset < 11:
        raise RefusedError("no CumSum")
    x = d.pick(ranked(1))
    return d.apply("CumSum", [x, d.constant(axis_of(d, d.values[x].ndim), "int64")], exclusive=number(d, 0, 1))


@node
def shape_of(d: Draft) -> object:
    x = d.pick(lambda v: v.ndim >= 1)
    more = {"start": one_of(d, -1, 0, 1), "end": 9} if d.opset >= 15 and flip(d) else {}
    return d.apply(one_of(d, "Size", "Shape"), [x]) if not more else d.apply("Shape", [x], **more)


@node
def ramp(d: Draft) -> object:
    if d.opset < 11:
        raise RefusedError("no Range")
    x = d.pick(lambda v: v.ndim >= 1 and v.shape[0] > 0)
    shape = d.apply("Shape", [x])[0]
    end = d.apply("Gather", [shape, d.constant(0, "int64")], axis=0)[0]
    return d.apply("Range", [d.constant(0, "int64"), end, d.constant(one_of(d, 1, 2), "int64")])


@node
def filled(d: Draft) -> object:
    x = d.pick(lambda v: 1 <= v.ndim <= 4)
    value = numpy_helper.from_array(np.array([one_of(d, 0.0, 1.0, 2.5)], "float32"))
    shape = d.apply("Shape", [x])
    return d.apply("ConstantOfShape", shape) if flip(d, 0.3) else d.apply("ConstantOfShape", shape, value=value)


@node
def triangle(d: Draft) -> object:
    if d.opset < 14:
        raise RefusedError("no Trilu")
    x = d.pick(ranked(2))
    return d.apply("Trilu", [x, *([d.constant(number(d, -1, 1), "int64")] if flip(d) else [])], upper=number(d, 0, 1))
