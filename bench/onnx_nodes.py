"""Nodes for ``onnx_draft``: each function draws one node, or a few that belong together, in one of its many forms.

Here what they share, and operators that work element by element; ``onnx_moves`` and ``onnx_layers`` have the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto
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
