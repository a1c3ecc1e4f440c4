"""Terms as polynomials: the operator table's own ``evaluate`` on arrays of exact numbers.

NumPy computes with any Python numbers in arrays of objects, so convolutions, products, sums and data movement are the
table's. What compares numbers is put in place here by maxima in normal form, and element-wise functions by names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_opt.axioms.evaluate import Term, apply_table, value
from egraph_opt.axioms.polynomial import Polynomial, maximum, number
from egraph_opt.axioms.record import Axiom
from egraph_opt.ir import AttrValue, TensorType
from egraph_opt.ops import operator
from egraph_opt.terms import App
from egraph_opt.terms.pattern import walk

Array = NDArray[Any]
_ORDERED = {"Max", "Min", "Relu", "Abs", "Clip", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin"}
_QUOTIENTS = {"Div", "Reciprocal", "AveragePool", "GlobalAveragePool", "ReduceMean", "Exp", "Log", "Sqrt"}
_SPELLED_OUT = {"BatchNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization"}
_NO_NORMAL_FORM = {"log-of-exp", "clip-of-clip", "relu-of-clip"}
"""Logarithms of exponentials, and maxima of minima of maxima, are left as they are written: numbers decide here."""
_MEANT = _ORDERED | _QUOTIENTS | _SPELLED_OUT


def applies(axiom: Axiom) -> bool:
    """Whether every operator of the axiom that is more than a name here has its meaning."""
    apps = {p.op for side in (axiom.lhs, axiom.rhs) for q in side for p in walk(q) if isinstance(p, App)}
    unknown = {op for op in apps if op not in _MEANT and operator(op).ring != "exact"}
    if axiom.name in _NO_NORMAL_FORM or any(not operator(op).preserves_type for op in unknown):
        return False
    return not unknown or not axiom.by_definition


def exact_inputs(types: dict[str, TensorType]) -> dict[str, Array]:
    """A fresh variable for every element."""
    made: dict[str, Array] = {}
    for tensor, type_ in types.items():
        array = np.empty(type_.numbers(), object)
        for index in np.ndindex(*array.shape):
            array[index] = Polynomial.variable((tensor, index))
        made[tensor] = array
    return made


def exact_value(term: Term, inputs: dict[str, Array]) -> Array:
    """The value of a term.

    Raises:
        NotImplementedError: for a window that hangs over the edge, and for a quotient by zero.
    """
    return np.asarray(value(term, inputs, _apply, np.object_))


def _apply(op: str, attrs: tuple[AttrValue, ...], operands: list[Any]) -> Any:
    x: Array = operands[0] if operands else np.empty(0, object)
    match op:
        case "Fill":
            shape, filling, _ = attrs
            return np.full(shape, number(filling), object)  # type: ignore[call-overload]
        case "Pad":
            return apply_table(op, (attrs[0], attrs[1], number(attrs[2])), operands)  # type: ignore[arg-type]
        case "Max":
            return _each(maximum, *operands)
        case "Min":
            return _negated(_each(maximum, *(_negated(o) for o in operands)))
        case "Relu":
            return _each(maximum, x, np.zeros_like(x))
        case "Abs":
            return _each(maximum, x, _negated(x))
        case "Clip":
            low, high = attrs
            x = x if low is None else _each(maximum, x, np.full(x.shape, low, object))
            return x if high is None else _negated(_each(maximum, _negated(x), np.full(x.shape, -number(high), object)))
        case "MaxPool":
            return _max_pool(attrs, x)
        case "GlobalMaxPool":
            return _reduce(x, tuple(range(2, x.ndim)), True, False)
        case "ReduceMax" | "ReduceMin":
            return _reduce(x, attrs[0], bool(attrs[1]), op == "ReduceMin")
        case "ReduceMean" | "GlobalAveragePool":
            axes = attrs[0] if attrs else tuple(range(2, x.ndim))
            total = operator("ReduceSum").evaluate((axes, attrs[1] if attrs else 1), [x])
            assert isinstance(total, np.ndarray)
            return np.asarray(total * (number(total.size) / x.size), object)
        case "AveragePool":
            return np.asarray(operator(op).evaluate(attrs, [x]), object)
        case "Reciprocal" | "Exp" | "Log" | "Sqrt":
            return _each(_FUNCTIONS[op], _each(number, x))
        case _:
            if operator(op).ring != "exact" and op not in _MEANT:
                return _each(partial(_named, f"{op}{attrs!r}"), x)
            return apply_table(op, attrs, operands)


_FUNCTIONS: dict[str, Callable[[Polynomial], Polynomial]] = {
    "Reciprocal": Polynomial.inverse,
    "Exp": Polynomial.exp,
    "Log": Polynomial.log,
    "Sqrt": Polynomial.sqrt,
}


def _named(label: str, x: Any) -> Polynomial:
    return Polynomial.function(label, number(x))


def _each(function: Callable[..., Polynomial], *operands: Array) -> Array:
    """A function of every element, with broadcasting."""
    result: Any = np.frompyfunc(function, len(operands), 1)(*operands)
    return np.asarray(result, object)


def _negated(x: Array) -> Array:
    return np.asarray(-x, object)


def _reduce(x: Array, axes: Any, keep: bool, smallest: bool) -> Array:
    """The largest or the smallest over some axes."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose([*kept, *axes]).reshape(*(x.shape[axis] for axis in kept), -1)
    result = np.empty(rows.shape[:-1], object)
    for index in np.ndindex(*result.shape):
        row = rows[index]
        result[index] = -maximum(*(-a for a in row)) if smallest else maximum(*row)
    return result.reshape([1 if axis in axes else n for axis, n in enumerate(x.shape)]) if keep else result


def _max_pool(attrs: tuple[AttrValue, ...], x: Array) -> Array:
    """Every place of the window as a convolution by a kernel with a single 1; what is padding is 0 there."""
    kernel, strides, pads, dilations, ceil = attrs
    if ceil:
        raise NotImplementedError("a window that hangs over the edge")
    taps: list[Any] = []
    assert isinstance(kernel, tuple)
    for place in np.ndindex(*kernel):  # type: ignore[arg-type]
        one: Array = np.zeros((x.shape[1], 1, *kernel), object)  # type: ignore[arg-type]
        one[(slice(None), slice(None), *place)] = 1
        taps.append(np.asarray(operator("Conv").evaluate((strides, pads, dilations, x.shape[1]), [x, one])))
    result = np.empty(taps[0].shape, object)
    for index in np.ndindex(*result.shape):
        inside = [t[index] for t in taps if number(t[index]).terms]
        result[index] = maximum(*inside) if inside else Polynomial.variable("padding")
    return result
