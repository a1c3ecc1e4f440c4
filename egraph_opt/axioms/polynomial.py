"""Exact numbers in normal form: polynomials over named values, where functions of polynomials are names too.

Two numbers are equal for every value of the variables, and for every function, if their normal forms are. A maximum is
the set of what it is taken over: nested maxima are flattened and a common term is taken out, so that order enters only
by laws that hold for all numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

Monomial = tuple[tuple[int, Fraction], ...]
"""Names and their exponents, in order."""
_names: dict[Any, int] = {}
_meaning: dict[int, Any] = {}


def name(key: Any) -> int:
    """The number of a variable or of a function of polynomials; the same key always has the same one."""
    found = _names.setdefault(key, len(_names))
    _meaning[found] = key
    return found


class Polynomial:
    """A sum of monomials with rational coefficients; exponents may be negative or fractions."""

    __slots__ = ("_key", "terms")

    def __init__(self, terms: dict[Monomial, Fraction]) -> None:
        self.terms = {m: c for m, c in terms.items() if c}
        self._key: frozenset[tuple[Monomial, Fraction]] | None = None

    @staticmethod
    def variable(key: Any) -> Polynomial:
        """The polynomial that is one name."""
        return Polynomial({((name(key), Fraction(1)),): Fraction(1)})

    @property
    def key(self) -> frozenset[tuple[Monomial, Fraction]]:
        """What equality compares."""
        if self._key is None:
            self._key = frozenset(self.terms.items())
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial | int | float | Fraction) and self.key == number(other).key

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Any) -> Polynomial:
        terms = dict(self.terms)
        for monomial, coefficient in number(other).terms.items():
            terms[monomial] = terms.get(monomial, Fraction(0)) + coefficient
        return Polynomial(terms)

    __radd__ = __add__

    def __neg__(self) -> Polynomial:
        return Polynomial({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Any) -> Polynomial:
        return self + -number(other)

    def __rsub__(self, other: Any) -> Polynomial:
        return number(other) + -self

    def __mul__(self, other: Any) -> Polynomial:
        terms: dict[Monomial, Fraction] = {}
        for m, c in self.terms.items():
            for n, d in number(other).terms.items():
                monomial = _product(m, n)
                terms[monomial] = terms.get(monomial, Fraction(0)) + c * d
        return Polynomial(terms)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Polynomial:
        return self * number(other).inverse()

    def __rtruediv__(self, other: Any) -> Polynomial:
        return number(other) * self.inverse()

    def inverse(self) -> Polynomial:
        """``1 / self``: of a monomial by its exponents, of a sum as a name."""
        if len(self.terms) == 1:
            ((monomial, coefficient),) = self.terms.items()
            return Polynomial({tuple((n, -e) for n, e in monomial): 1 / coefficient})
        if not self.terms:
            raise NotImplementedError("a quotient by zero")
        leading = self.terms[min(self.terms)]
        return self.function("inverse", self * (1 / leading)) * (1 / leading)

    @staticmethod
    def function(label: Any, *arguments: Polynomial) -> Polynomial:
        """Some function of the arguments, of which nothing is known but its name."""
        return Polynomial.variable((label, tuple(a.key for a in arguments)))

    def exp(self) -> Polynomial:
        """A product of the exponentials of the terms."""
        factors = [(name(("exp", m)), c) for m, c in self.terms.items()]
        return Polynomial({tuple(sorted(factors)): Fraction(1)})

    def sqrt(self) -> Polynomial:
        """A name; NumPy asks the elements of object arrays for it, and for the functions below."""
        return self.function("Sqrt()", self)

    def log(self) -> Polynomial:
        """A name."""
        return self.function("Log()", self)

    def tanh(self) -> Polynomial:
        """A name."""
        return self.function("Tanh()", self)


def number(value: Any) -> Polynomial:
    """A number as a polynomial; decimals of simple fractions are those fractions."""
    if isinstance(value, Polynomial):
        return value
    exact = Fraction(value)
    simple = exact.limit_denominator(10_000)
    return Polynomial({(): simple if abs(simple - exact) < Fraction(1, 10**12) else exact})


def maximum(*values: Any) -> Polynomial:
    """The largest of some numbers."""
    members: set[Polynomial] = set()
    for value in values:
        members |= _members(number(value))
    constants = [m.terms.get((), Fraction(0)) for m in members if not m.terms.keys() - {()}]
    members = {m for m in members if m.terms.keys() - {()}}
    if constants:
        members.add(number(max(constants)))
    if len(members) == 1:
        return members.pop()
    first = next(iter(members))
    common = Polynomial({m: c for m, c in first.terms.items() if all(o.terms.get(m) == c for o in members)})
    rest = frozenset((m - common).key for m in members)
    return Polynomial.variable(("max", rest)) + common


def _members(value: Polynomial) -> set[Polynomial]:
    """What a maximum is taken over, with a term that was taken out put back."""
    for monomial, coefficient in value.terms.items():
        if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
            key = _meaning[monomial[0][0]]
            if isinstance(key, tuple) and cast("tuple[Any, ...]", key)[0] == "max":
                others = Polynomial({m: c for m, c in value.terms.items() if m != monomial})
                inner = [Polynomial(dict(k)) + others for k in cast("tuple[str, Any]", key)[1]]
                return {m for i in inner for m in _members(i)}
    return {value}


def _product(m: Monomial, n: Monomial) -> Monomial:
    if not m or not n:
        return m or n
    exponents = dict(m)
    for key, exponent in n:
        exponents[key] = exponents.get(key, Fraction(0)) + exponent
    return tuple(sorted((k, e) for k, e in exponents.items() if e))
