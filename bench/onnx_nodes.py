"""Nodes for ``onnx_draft``: each function draws one node, or a few that belong together, in one of its many forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx_draft import SYMBOL_SIZE, Array, Draft, RefusedError

Make = Callable[[Draft], object]
NODES: dict[str, Make] = {}
FLOAT_KINDS = ("float32", "float64", "float16")


def node(make: Make) -> Make:
    """Registers a function by its name."""
    NODES[make.__name__] = make
    return make


def is_float(v: Array) -> bool:
    return v.dtype.kind == "f"


def is_number(v: Array) -> bool:
    return v.dtype.kind in "fiu"


def ranked(low: int, high: int = 6) -> Callable[[Array], bool]:
    return lambda v: is_float(v) and low <= v.ndim <= high


def flip(d: Draft, chance: float = 0.5) -> bool:
    return bool(d.rng.random() < chance)


def one_of(d: Draft, *choices: Any) -> Any:
    return choices[int(d.rng.integers(len(choices)))]


def number(d: Draft, low: int, high: int) -> int:
    return int(d.rng.integers(low, high + 1))


def axis_of(d: Draft, rank: int) -> int:
    return number(d, -rank, rank - 1)


def axes_of(d: Draft, rank: int) -> list[int]:
    chosen = [int(a) for a in d.rng.permutation(rank)[: number(d, 1, rank)]] if rank else []
    return [a - rank if flip(d, 0.4) else a for a in chosen]


def weight(d: Draft, shape: tuple[int, ...], like: Array) -> str:
    """A constant of a shape, often of special numbers."""
    if like.dtype.kind == "b":
        return d.constant(d.rng.random(shape) < 0.5)
    kind = number(d, 0, 7)
    array = d.rng.normal(size=shape)
    if kind == 0:
        array = np.zeros(shape)
    elif kind == 1:
        array = np.ones(shape)
    elif kind == 2:
        array = np.full(shape, one_of(d, -1.0, 2.0, 0.5, 3.0, 6.0))
    elif like.dtype.kind in "iu":
        array = d.rng.integers(0 if like.dtype.kind == "u" else -3, 5, shape)
    return d.constant(np.asarray(array).astype(like.dtype))


def beside(d: Draft, name: str) -> str:
    """A second operand for a tensor: another that broadcasts with it, or a constant."""
    value = d.values[name]
    others = d.tensors(lambda v: v.dtype == value.dtype and _broadcasts(v.shape, value.shape))
    if others and flip(d, 0.45):
        return str(d.rng.choice(others))
    if flip(d, 0.3):
        return weight(d, one_of(d, (), (1,), (1,) * (value.ndim + 1)), value)
    shape = tuple(1 if s == SYMBOL_SIZE or flip(d, 0.4) else s for s in value.shape[number(d, 0, value.ndim) :])
    return weight(d, shape, value)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(a[::-1], b[::-1], strict=False))


# --- element by element


@node
def unary(d: Draft) -> object:
    names = ["Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Erf", "Softplus", "Softsign", "Identity", "Floor"]
    names += ["Ceil", "Sign", "Sin", "Cos", "Elu", "LeakyRelu", "HardSigmoid", "Selu", "Celu"]
    names += ["Round"] if d.opset >= 11 else []
    names += ["HardSwish"] if d.opset >= 14 else []
    names += ["Mish"] if d.opset >= 18 else []
    names += ["Gelu"] if d.opset >= 20 else []
    op = one_of(d, *names)
    attrs: dict[str, Any] = {}
    if op in ("Elu", "LeakyRelu", "HardSigmoid", "Celu") and flip(d):
        attrs["alpha"] = one_of(d, 0.0, 0.3, 1.0, 0.1666667)
    if op == "Gelu" and flip(d):
        attrs["approximate"] = "tanh"
    return d.apply(op, [d.pick(is_float)], **attrs)


@node
def partial_function(d: Draft) -> object:
    """Functions that need a positive number: of a square and something."""
    x = d.pick(is_float)
    one = d.constant(np.asarray(1.5, d.values[x].dtype))
    above = d.apply("Add", [d.apply("Mul", [x, x])[0], one])
    return d.apply(one_of(d, "Sqrt", "Log", "Reciprocal"), above)


@node
def integer_unary(d: Draft) -> object:
    return d.apply(one_of(d, "Neg", "Abs", "Sign", "Identity"), [d.pick(lambda v: v.dtype.kind == "i")])


@node
def binary(d: Draft) -> object:
    x = d.pick(is_number)
    y = beside(d, x)
    return d.apply(one_of(d, "Add", "Sub", "Mul", "Add", "Mul"), [x, y] if flip(d) else [y, x])


@node
def division(d: Draft) -> object:
    x = d.pick(is_number)
    value = d.values[x]
    by = d.constant(
        np.asarray(one_of(d, 2, 3, 4), value.dtype) if flip(d) else np.full(value.shape[-1:], 3, value.dtype)
    )
    return d.apply("Div", [x, by])


@node
def several(d: Draft) -> object:
    x = d.pick(is_float)
    op = one_of(d, "Sum", "Mean", "Max", "Min")
    return d.apply(op, [x, *(beside(d, x) for _ in range(number(d, 0, 2)))])


@node
def power(d: Draft) -> object:
    x = d.pick(is_float)
    exponent = one_of(d, 2.0, 3.0, 1.0, 0.0)
    kind = d.values[x].dtype if d.opset < 12 or flip(d) else np.dtype(one_of(d, "float32", "int64"))
    return d.apply("Pow", [x, d.constant(np.asarray(exponent, kind))])


@node
def clip(d: Draft) -> object:
    x = d.pick(is_float)
    low, high = one_of(d, (0.0, 6.0), (-1.0, 1.0), (None, 1.0), (0.0, None), (1.0, -1.0), (None, None))
    if d.opset < 11:
        return d.apply("Clip", [x], **{n: v for n, v in (("min", low), ("max", high)) if v is not None})
    bounds = ["" if b is None else d.constant(np.asarray(b, d.values[x].dtype)) for b in (low, high)]
    while bounds and not bounds[-1]:
        bounds.pop()
    return d.apply("Clip", [x, *bounds])


@node
def compare(d: Draft) -> object:
    x = d.pick(is_number)
    names = ["Equal", "Less", "Greater"] + (["LessOrEqual", "GreaterOrEqual"] if d.opset >= 12 else [])
    return d.apply(one_of(d, *names), [x, beside(d, x)])


@node
def logic(d: Draft) -> object:
    x = d.pick(lambda v: v.dtype == bool)
    op = one_of(d, "Not", "And", "Or", "Xor")
    return d.apply(op, [x] if op == "Not" else [x, beside(d, x)])


@node
def where(d: Draft) -> object:
    x = d.pick(is_number)
    condition = d.tensors(lambda v: v.dtype == bool and _broadcasts(v.shape, d.values[x].shape))
    chosen = str(d.rng.choice(condition)) if condition else weight(d, d.values[x].shape[-1:], np.array(True))
    branches = [x, beside(d, x)]
    return d.apply("Where", [chosen, *(branches if flip(d) else branches[::-1])])


@node
def cast(d: Draft) -> object:
    kinds = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32)
    kinds += (TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT8)
    x = d.pick(lambda v: v.dtype.kind in "fib" and v.size > 0)
    to = one_of(d, *kinds)
    if to == TensorProto.UINT8:
        x = d.apply("Abs", [x])[0] if is_number(d.values[x]) else x
    return d.apply("Cast", [x], to=to)


@node
def prelu(d: Draft) -> object:
    x = d.pick(ranked(2))
    value = d.values[x]
    return d.apply("PRelu", [x, weight(d, (value.shape[1], *(1,) * (value.ndim - 2)), value)])


@node
def remainder(d: Draft) -> object:
    if d.opset < 10:
        raise RefusedError("no Mod")
    x = d.pick(is_number)
    by = d.constant(np.asarray(3, d.values[x].dtype))
    return d.apply("Mod", [x, by], fmod=int(is_float(d.values[x]) or flip(d)))


# --- movement


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
    vector = _axes(d, "Unsqueeze", first[0], [0], 13)[0]
    target = d.apply("Concat", [vector, d.ints(-1)], axis=0)
    return d.apply("Reshape", [x, *target])


def _axes(d: Draft, op: str, x: str, axes: list[int], since: int, **attrs: Any) -> list[str]:
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
    return _axes(d, "Unsqueeze", x, axes, 13)


@node
def squeeze(d: Draft) -> object:
    x = d.pick(lambda v: 1 in v.shape)
    shape = d.values[x].shape
    ones = [i for i, s in enumerate(shape) if s == 1]
    if flip(d, 0.2) and not d.symbolic:
        return d.apply("Squeeze", [x])
    axes = [one_of(d, *ones)]
    return _axes(d, "Squeeze", x, [a - len(shape) if flip(d) and d.opset >= 11 else a for a in axes], 13)


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
