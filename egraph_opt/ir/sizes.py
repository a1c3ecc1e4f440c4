"""Sizes of tensor axes: a number, or a polynomial over named symbols in normal form.

Two sizes are equal exactly when their normal forms are: sums and products are expanded, and a floor
division keeps only what it cannot divide. That is all the algebra that shape rules of tensor operators
need, it is cheap, and it hashes, so a size can be interned and compared by identity of its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import gcd


@dataclass(frozen=True, slots=True, order=True)
class Floor:
    """``floor(numerator / denominator)`` that does not simplify; ``denominator`` is not zero."""

    numerator: SizeExpr
    denominator: SizeExpr | int

    def __str__(self) -> str:
        return f"floor(({self.numerator})/({self.denominator}))"


Atom = str | Floor
Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class SizeExpr:
    """An integer polynomial; ``terms`` maps sorted monomials to non-zero coefficients, in a fixed order."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Size) -> Size:
        return _build(_merge(self.terms, _terms(other)))

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + other * -1

    def __rsub__(self, other: Size) -> Size:
        return self * -1 + other

    def __mul__(self, other: Size) -> Size:
        products: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other):
                monomial = tuple(sorted(left + right, key=str))
                products[monomial] = products.get(monomial, 0) + a * b
        return _build(products)

    __rmul__ = __mul__

    def __str__(self) -> str:
        parts = [
            "*".join(([str(c)] if c != 1 or not monomial else []) + [str(a) for a in monomial])
            for monomial, c in self.terms
        ]
        return " + ".join(parts)

    __repr__ = __str__

    def __lt__(self, other: SizeExpr) -> bool:
        return str(self) < str(other)

    def symbols(self) -> frozenset[str]:
        """Names that this size depends on."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    found |= symbols(atom.numerator) | symbols(atom.denominator)
        return frozenset(found)


Size = int | SizeExpr


def symbol(name: str) -> SizeExpr:
    """The size called ``name``."""
    return SizeExpr((((name,), 1),))


def symbols(size: Size) -> frozenset[str]:
    """Names that ``size`` depends on; none for a number."""
    return frozenset() if isinstance(size, int) else size.symbols()


def floordiv(numerator: Size, denominator: Size) -> Size:
    """``floor(numerator / denominator)``, simplified as far as exact division goes.

    Raises:
        ZeroDivisionError: the denominator is the number 0.
    """
    if isinstance(numerator, int) and isinstance(denominator, int):
        return numerator // denominator
    if denominator == 1:
        return numerator
    if isinstance(denominator, int):
        return _divide_by_number(_terms(numerator), denominator)
    exact = _divide_exactly(_terms(numerator), denominator)
    if exact is not None:
        return exact
    top = numerator if isinstance(numerator, SizeExpr) else SizeExpr((((), numerator),))
    return SizeExpr((((Floor(top, denominator),), 1),))


def product(sizes: Iterable[Size]) -> Size:
    """The number of elements of a tensor with these sizes."""
    return reduce(lambda a, b: a * b, sizes, 1)


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The number that ``size`` is under ``values``.

    Raises:
        KeyError: a symbol has no value.
    """
    if isinstance(size, int):
        return size
    total = 0
    for monomial, coefficient in size.terms:
        for atom in monomial:
            coefficient *= (
                values[atom]
                if isinstance(atom, str)
                else evaluate(atom.numerator, values) // evaluate(atom.denominator, values)
            )
        total += coefficient
    return total


def substitute(size: Size, values: Mapping[str, Size]) -> Size:
    """``size`` with the symbols that ``values`` names replaced."""
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, coefficient in size.terms:
        part: Size = coefficient
        for atom in monomial:
            if isinstance(atom, str):
                part = part * values.get(atom, symbol(atom))
            else:
                part = part * floordiv(substitute(atom.numerator, values), substitute(atom.denominator, values))
        total = total + part
    return total


def _terms(size: Size) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(size, SizeExpr):
        return size.terms
    return (((), size),) if size else ()


def _merge(*parts: Iterable[tuple[Monomial, int]]) -> dict[Monomial, int]:
    merged: dict[Monomial, int] = {}
    for part in parts:
        for monomial, coefficient in part:
            merged[monomial] = merged.get(monomial, 0) + coefficient
    return merged


def _build(terms: Mapping[Monomial, int]) -> Size:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if set(kept) == {()}:
        return kept[()]
    return SizeExpr(tuple(sorted(kept.items(), key=lambda t: (-len(t[0]), [str(a) for a in t[0]]))))


def _divide_by_number(terms: tuple[tuple[Monomial, int], ...], denominator: int) -> Size:
    """Takes out every multiple of the denominator, so that equal quotients get one form."""
    if denominator < 0:
        return _divide_by_number(tuple((m, -c) for m, c in terms), -denominator)
    whole = _build({m: c // denominator for m, c in terms})
    rest = {m: c % denominator for m, c in terms if c % denominator}
    if set(rest) <= {()}:  # a constant remainder in [0, denominator) never reaches the next integer
        return whole
    common = reduce(gcd, [c for m, c in rest.items() if m], denominator)
    reduced = _build({m: c // common for m, c in rest.items()})
    remaining = denominator // common
    if remaining == 1 or isinstance(reduced, int):
        return whole + reduced
    return SizeExpr((((Floor(reduced, remaining),), 1),)) + whole


def _divide_exactly(terms: tuple[tuple[Monomial, int], ...], denominator: SizeExpr) -> Size | None:
    """Polynomial division by one term; ``None`` when it leaves a remainder."""
    if SizeExpr(terms) == denominator:
        return 1
    if len(denominator.terms) != 1:
        return None
    (divisor, scale), quotient = denominator.terms[0], {}
    for monomial, coefficient in terms:
        left = list(monomial)
        for atom in divisor:
            if atom not in left:
                return None
            left.remove(atom)
        if coefficient % scale:
            return None
        quotient[tuple(left)] = coefficient // scale
    return _build(quotient)
