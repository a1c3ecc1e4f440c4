"""Values of both sides of an axiom on one case: modulo a prime, on signed integers, or in float64.

All of them call the operator table's own ``compute``. Modulo a prime, division multiplies by the inverse, means are
taken in float64 and made whole again (sums of residues times a common multiple of the counts stay below 2**53),
maxima compare representatives (data movement commutes with the maximum of any order), and an element-wise operator
that is no polynomial is a random polynomial of its own: what holds for it holds for every function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from egraph_opt.axioms.cases import SCALAR, infer
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
Draw = Callable[[TensorType], Array]

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

_KEPT = 4096
"""Values of parts of terms that are kept while cases are walked; of an axiom's arrays they take some tens of MB."""


class NoType(Exception):  # noqa: N818 - an answer about a case
    """A term of the right side has no type; the message shows it."""


@dataclass(eq=False, slots=True)
class Term:
    """A pattern under a case: attributes computed, types known. Two terms are the same if they are one object."""

    op: str
    attrs: tuple[AttrValue, ...]
    operands: tuple[Term, ...]
    type: Type


Resolve = Callable[[Case, dict[str, Any]], Term]


class Terms:
    """The terms of an axiom. What cases share is one object, while it is among the last that were asked for; tensors
    are for ever, since the values of what is kept were computed of them."""

    def __init__(self) -> None:
        self.leaf: Callable[[str, tuple[AttrValue, ...], Type], Term] = cache(_leaf)
        self.shared: Callable[[str, tuple[AttrValue, ...], tuple[Term, ...]], Term] = lru_cache(_KEPT)(applied)


def _leaf(name: str, attrs: tuple[AttrValue, ...], type_: Type) -> Term:
    return Term(name, attrs, (), type_)


def applied(op: str, attrs: tuple[AttrValue, ...], operands: tuple[Term, ...]) -> Term:
    """The application of an operator; raises NoType where it has no type."""
    types: tuple[TensorType, ...] = tuple([o.type for o in operands])  # type: ignore[misc]
    type_ = infer(op, attrs, types)
    if type_ is None:
        raise NoType(f"{op} of {', '.join(map(str, types))} with {attrs} is ill-typed")
    return Term(op, attrs, operands, type_)


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


def resolver(pattern: Pattern, terms: Terms, *, root: bool = True) -> Resolve:
    """What makes the term of a pattern of a case and of its environment; taken apart once, for it is asked per case.

    The answer raises ``NoType`` where an application is ill-typed and ``Undefined`` where an attribute has no value.
    """
    leaf = terms.leaf
    if isinstance(pattern, Var):
        name = pattern.name
        return lambda case, _: leaf(name, (), case.tensors[name])
    if isinstance(pattern, Number):
        filling, key = (pattern.value,), id(pattern)
        return lambda case, _: leaf("", filling, case.numbers.get(key, SCALAR))
    op, operands = pattern.op, [resolver(o, terms, root=False) for o in pattern.operands]
    attrs = _reader(pattern.attrs)
    made = applied if root else terms.shared  # every case has roots of its own
    return lambda case, environment: made(op, attrs(environment), tuple([o(case, environment) for o in operands]))


def _reader(attrs: tuple[Expr, ...]) -> Callable[[dict[str, Any]], tuple[AttrValue, ...]]:
    """What reads the attributes of an application from an environment; raises Undefined where one has no value."""
    names = [e.text for e in attrs]
    if not names:
        return lambda _: ()
    if not all(e.is_name for e in attrs):
        text = f"({''.join(f'({name}), ' for name in names)})"  # all of them as one expression
        return lambda environment: evaluate(text, environment)  # type: ignore[return-value]
    if len(names) == 1:
        return lambda environment: (environment[names[0]],)
    return itemgetter(*names)


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
    return operator(op).compute(attrs, operands)


def apply_prime(op: str, attrs: tuple[AttrValue, ...], operands: list[Value]) -> Value:
    """The operator table's semantics in the field of residues; ``Residues`` makes quotients itself."""
    if op in _MOVES:
        return apply_table(op, attrs, operands)
    if op == "Cast":  # to the type that it has
        return operands[0]
    if op == "Fill":
        shape, number, dtype = attrs
        return np.full(shape, residue(number), dtype)  # type: ignore[arg-type]
    if op == "Reciprocal":
        return inverse(operands[0])
    if op in _FIELD:
        return _mean(op, attrs, operands[0])
    declared = operator(op)
    if declared.ring != "exact":
        return _oracle(f"{op}{attrs!r}", operands[0])
    return declared.compute(attrs, operands) % PRIME  # type: ignore[operator]


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
    mean = np.asarray(operator(op).compute(attrs, [x.astype(np.float64)]))
    count = _COUNTS if op == "AveragePool" else max(x.size // max(mean.size, 1), 1)
    # a window of padding alone has no mean; any fixed number will do on both sides
    whole = np.rint(np.nan_to_num(mean) * count).astype(np.int64) % PRIME
    return whole * pow(count, -1, PRIME) % PRIME


def _oracle(name: str, x: Array) -> Array:
    first, *others = _coefficients(name)
    result = np.full_like(x, first)
    for coefficient in others:
        result = (result * x + coefficient) % PRIME
    return result


@cache
def _coefficients(name: str) -> list[int]:
    return np.random.default_rng(list(name.encode())).integers(1, PRIME, 4).tolist()


def same(a: Value, b: Value, *, exact: bool) -> bool:
    """Whether two values agree: in every bit, or up to rounding with infinities and NaNs in the same places."""
    if a.shape != b.shape:
        return False
    if a.dtype == b.dtype and a.tobytes() == b.tobytes():  # most are, and this takes a fifth of the time
        return True
    if (a == b).all():
        return True
    if exact:
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
        residues = rng.integers(0, PRIME, 1 << 17, dtype=np.int64)
        mixed = rng.integers(-9, 10, 1 << 17, dtype=np.int64)
        negative = -1 - np.abs(mixed)
        mostly = np.where(rng.random(1 << 17) < 0.9, negative, np.abs(mixed))
        normal = rng.normal(size=1 << 17)
        real = normal, np.abs(normal) + 0.1, -np.abs(normal) - 0.1
        self._long: dict[Method, tuple[Array, ...]] = {
            "prime": (residues,), "signed": (mixed, negative, mostly), "real": real,
        }  # fmt: skip
        self._at = 0

    def draws(self, how: Method) -> list[Draw]:
        """What draws tensors of a type: residues, or one function per pattern of signs, all negative and mostly
        negative ones too."""
        return [partial(self._cut, long) for long in self._long[how]]

    def _cut(self, long: Array, type_: TensorType) -> Array:
        shape = type_.numbers()
        count = math.prod(shape)
        if self._at + count > len(long):
            self._at = self._at % 97
        start, self._at = self._at, self._at + count
        return long[start : start + count].reshape(shape)


class Values:
    """Values of terms in tensors that ``draw`` makes.

    A tensor of one name and type has the same elements in every case, so that what is below the roots, of which cases
    that follow each other share most, is computed once.
    """

    def __init__(self, draw: Draw, apply: Apply, dtype: type[np.generic]) -> None:
        self._draw, self._apply, self._dtype = draw, apply, dtype
        self._tensors: dict[Term, Array] = {}
        self._inner: Callable[[Term], Value] = lru_cache(_KEPT)(self.value)

    def value(self, term: Term) -> Value:
        """The value of a term."""
        if term.operands:
            return self._apply(term.op, term.attrs, [self._inner(o) for o in term.operands])
        if term.attrs:  # a number, or a constant of some shape
            return value(term, {}, self._apply, self._dtype)
        if term not in self._tensors:
            assert isinstance(term.type, TensorType)
            self._tensors[term] = self._draw(term.type)
        return self._tensors[term]


class Residues(Values):
    """Values modulo the prime."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw, apply_prime, np.int64)
        self._inverse: Callable[[Term], Array] = lru_cache(_KEPT)(self._inverted)

    def value(self, term: Term) -> Value:
        """The value of a term; of a quotient the inverse, which takes long, is kept apart from what it multiplies."""
        if term.op != "Div":
            return super().value(term)
        above, below = term.operands
        return self._inner(above) * self._inverse(below) % PRIME

    def _inverted(self, term: Term) -> Array:
        return inverse(self._inner(term))


def values_of(how: Method, source: Source) -> list[Values]:
    """What gives terms their values, once per draw."""
    draws = source.draws(how)
    if how == "prime":
        return [Residues(draw) for draw in draws]
    return [Values(draw, apply_table, np.float64 if how == "real" else np.int64) for draw in draws]
