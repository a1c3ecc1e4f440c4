"""The normal form of exact numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from egraph_opt.axioms.polynomial import Polynomial, maximum, number

X, Y, Z = (Polynomial.variable(n) for n in "xyz")


def test_a_ring() -> None:
    assert (X + Y) * Z == Z * Y + X * Z
    assert X - X == 0
    assert (X + 1) * (X - 1) == X * X - 1
    assert X * Y != X + Y


def test_quotients() -> None:
    assert X / Y * Y == X
    assert 1 / (X * Y) == (1 / X) * (1 / Y)
    assert number(Fraction(1, 2)) / (X + Y) == 1 / (2 * X + 2 * Y)
    with pytest.raises(NotImplementedError):
        number(0).inverse()


def test_functions_are_names_and_exponentials_multiply() -> None:
    assert (X + Y).exp() == X.exp() * Y.exp()
    assert (-X).exp() == 1 / X.exp()
    assert number(0).exp() == 1
    assert (X + Y).sqrt() == (Y + X).sqrt()
    assert X.sqrt() != X.log()


def test_maxima() -> None:
    assert maximum(X, maximum(Y, Z)) == maximum(maximum(Z, X), Y)
    assert maximum(X, X) == X
    assert maximum(X, Y) + Z == maximum(X + Z, Y + Z)
    assert maximum(maximum(X, 0), 0) == maximum(X, 0)
    assert maximum(X, 0) + maximum(Y, 0) != maximum(X + Y, 0)
    assert maximum(number(1), number(2)) == 2


def test_decimals_are_simple_fractions() -> None:
    assert number(1 / 9) * 9 == 1
    assert number(0.044715) == Fraction(0.044715)
