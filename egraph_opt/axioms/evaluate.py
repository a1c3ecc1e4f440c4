"""Values of both sides of an axiom on one case: modulo a prime, on signed integers, or in float64.

All of them call the operator table's own ``evaluate``. Modulo a prime, division multiplies by the inverse, means are
taken in float64 and made whole again (sums of residues times a common multiple of the counts stay below 2**53),
maxima compare representatives (data movement commutes with the maximum of any order), and an element-wise operator
that is no polynomial is a random polynomial of its own: what holds for it holds for every function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from egraph_opt.axioms.cases import SCALAR, infer, is_literal, literal
from egraph_opt.axioms.record import Axiom
from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops import operator
from egraph_opt.terms import App, Case, Expr, Number, Pattern, Var
from egraph_opt.terms.expressions import evaluate
from egraph_opt.terms.pattern import walk

Array = NDArray[Any]
Value = Any  # an array, or a tuple of them where an operator has several outputs
Method = Literal["prime", "signed", "real"]
Apply = Callable[[str, tuple[AttrValue, ...], list[Value]], Value]

PRIME = 268_435_399
"""Largest prime below 2**28: sums of 128 products fit an int64, and two polynomials of degree 3 that differ agree at a
random point with probability below 2**-26 per element (Schwartz and Zippel)."""
TOLERANCE = 1e-7
"""Largest difference of float64 results, relative to their scale, that is taken for rounding."""
_FIELD = {"Div", "Reciprocal", "AveragePool", "GlobalAveragePool", "ReduceMean"}
_ORDER = {"Max", "Min", "MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin"}
_MOVES = {"Transpose", "Concat", "Split", "Get", "Slice", "Reshape", "Expand", "Tile", *_ORDER}
_COUNTS = math.lcm(*range(1, 10), 12, 16)
"""A multiple of the number of elements in any window of up to 3 by 3, and of whole planes of up to 4 by 4."""


class NoType(Exception):  # noqa: N818 - an answer about a case
    """A term of the right side has no type; the message shows it."""


class Term(NamedTuple):
    """A pattern under a case: attributes computed, types known. (A tuple, because there are tens of millions.)"""

    op: str
    attrs: tuple[AttrValue, ...]
    operands: tuple[Term, ...]
    type: Type


def method(axiom: Axiom) -> Method:
    """How an axiom is tried on every case."""
    if axiom.needs_order:
        return "signed"
    apps = [p for side in (axiom.lhs, axiom.rhs) for q in side for p in walk(q) if isinstance(p, App)]
    if axiom.definition and any(not _is_rational(a.op) for a in apps):
        return "real"
    return "prime"


def _is_rational(op: str) -> bool:
    return op in _FIELD or operator(op).ring == "exact"


def resolve(pattern: Pattern, case: Case, environment: dict[str, Any]) -> Term:
    """The term of a pattern.

    Raises:
        NoType: an application in it is ill-typed.
        Undefined: an attribute has no value.
    """
    if isinstance(pattern, Var):
        return Term(pattern.name, (), (), case.tensors[pattern.name])
    if isinstance(pattern, Number):
        return Term("", (pattern.value,), (), case.numbers.get(id(pattern), SCALAR))
    terms = tuple([resolve(o, case, environment) for o in pattern.operands])
    values = tuple([_attribute(e, environment) for e in pattern.attrs])
    types: tuple[TensorType, ...] = tuple([t.type for t in terms])  # type: ignore[misc]
    type_ = infer(pattern.op, values, types)
    if type_ is None:
        raise NoType(f"{pattern.op} of {', '.join(map(str, types))} with {values} is ill-typed")
    return Term(pattern.op, values, terms, type_)


def _attribute(expr: Expr, environment: dict[str, Any]) -> AttrValue:
    if expr.text in environment:
        return environment[expr.text]
    return literal(expr) if is_literal(expr) else evaluate(expr.text, environment)


def value(term: Term, inputs: dict[str, Array], apply: Apply, dtype: type[np.generic]) -> Value:
    """The value of a term."""
    if term.op in inputs:
        return inputs[term.op]
    if not term.op:
        assert isinstance(term.type, TensorType)
        return np.full(term.type.numbers(), term.attrs[0]).astype(dtype)
    if term.op == "Fill":
        shape, number, _ = term.attrs
        return apply("Fill", (shape, number, np.dtype(dtype).name), [])
    return apply(term.op, term.attrs, [value(o, inputs, apply, dtype) for o in term.operands])


def apply_table(op: str, attrs: tuple[AttrValue, ...], operands: list[Value]) -> Value:
    """The operator table's semantics, as they are."""
    return operator(op).evaluate(attrs, operands)


def apply_prime(op: str, attrs: tuple[AttrValue, ...], operands: list[Value]) -> Value:
    """The operator table's semantics in the field of residues."""
    if op in _MOVES:
        return apply_table(op, attrs, operands)
    if op == "Cast":  # to the type that it has
        return operands[0]
    if op == "Fill":
        shape, number, dtype = attrs
        return np.full(shape, residue(number), dtype)  # type: ignore[arg-type]
    if op == "Div":
        return operands[0] * inverse(operands[1]) % PRIME
    if op == "Reciprocal":
        return inverse(operands[0])
    if op in _FIELD:
        return _mean(op, attrs, operands[0])
    declared = operator(op)
    if declared.ring != "exact":
        return _oracle(f"{op}{attrs!r}", operands[0])
    return declared.evaluate(attrs, operands) % PRIME  # type: ignore[operator]


def residue(number: Any) -> int:
    """A number that is written in decimals, as a residue: 1/9 is the inverse of 9."""
    from fractions import Fraction

    exact = Fraction(float(number)).limit_denominator(10_000)
    return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


def inverse(x: Array) -> Array:
    """Inverses modulo the prime; 0 stays 0."""
    result, base, exponent = np.ones_like(x), x % PRIME, PRIME - 2
    while exponent:
        if exponent & 1:
            result = result * base % PRIME
        base = base * base % PRIME
        exponent >>= 1
    return result


def _mean(op: str, attrs: tuple[AttrValue, ...], x: Array) -> Array:
    mean = np.asarray(operator(op).evaluate(attrs, [x.astype(np.float64)]))
    count = _COUNTS if op == "AveragePool" else max(x.size // max(mean.size, 1), 1)
    # a window of padding alone has no mean; any fixed number will do on both sides
    whole = np.rint(np.nan_to_num(mean) * count).astype(np.int64) % PRIME
    return whole * pow(count, -1, PRIME) % PRIME


def _oracle(name: str, x: Array) -> Array:
    coefficients = np.random.default_rng(list(name.encode())).integers(1, PRIME, 4)
    result = np.zeros_like(x)
    for coefficient in coefficients:
        result = (result * x + coefficient) % PRIME
    return result


def same(a: Value, b: Value, *, exact: bool) -> bool:
    """Whether two values agree: in every bit, or up to rounding with infinities and NaNs in the same places."""
    if exact:
        return a.shape == b.shape and bool((a == b).all())
    if a.shape != b.shape:
        return False
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)):
        return False
    scale = max(1.0, float(np.max(np.abs(a[finite]), initial=0.0)))
    return float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)) <= TOLERANCE * scale


class Source:
    """Random arrays, cut from long ones that are drawn once."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._residues = rng.integers(0, PRIME, 1 << 17, dtype=np.int64)
        mixed = rng.integers(-9, 10, 1 << 17, dtype=np.int64)
        negative = -1 - np.abs(mixed)
        mostly = np.where(rng.random(1 << 17) < 0.9, negative, np.abs(mixed))
        self._signed = (mixed, negative, mostly)
        normal = rng.normal(size=1 << 17)
        self._real = (normal, np.abs(normal) + 0.1, -np.abs(normal) - 0.1)
        self._at = 0

    def draws(self, how: Method, types: dict[str, TensorType]) -> list[dict[str, Array]]:
        """Inputs: one draw of residues, or one per pattern of signs (all negative and mostly negative ones too)."""
        longs = {"prime": (self._residues,), "signed": self._signed, "real": self._real}[how]
        return [{name: self._cut(long, t.numbers()) for name, t in types.items()} for long in longs]

    def _cut(self, long: Array, shape: tuple[int, ...]) -> Array:
        count = math.prod(shape)
        if self._at + count > len(long):
            self._at = self._at % 97
        start, self._at = self._at, self._at + count
        return long[start : start + count].reshape(shape)
