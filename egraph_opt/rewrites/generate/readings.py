"""An equation read from right to left: what its right side computes is named, what it leaves out is solved for.

``MatMul(x, Concat(y, z, axis=a)) = Concat(MatMul(x, y), MatMul(x, z), axis=rank(out) - 1)`` when
``a == rank(y) - 1``
reads, from right to left,
``Concat(MatMul(x, y), MatMul(x, z), axis=axis0) => MatMul(x, Concat(y, z, axis=rank(y) - 1))``
when ``axis0 == rank(out) - 1``: a left side holds names and literals only, and nothing else says what ``a`` is.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from egraph_opt.ops import operators
from egraph_opt.rewrites.prove.terms import substitute_text
from egraph_opt.terms import App, Equation, Expr, Pattern, attribute_names, walk
from egraph_opt.terms.expressions import names_in


@dataclass(frozen=True)
class Reading:
    """A direction of an equation: the sides and conditions of a rule, if its left side binds all that it needs."""

    lhs: tuple[Pattern, ...]
    rhs: tuple[Pattern, ...]
    when: tuple[str, ...]


def forwards(equation: Equation) -> Reading:
    """The equation as it is written."""
    return Reading(equation.lhs, equation.rhs, equation.when)


def backwards(equation: Equation) -> Reading:
    """The equation from right to left."""
    bound = {*equation.tensors, *attribute_names(*equation.rhs), "out"}
    defined = {c: d for c in equation.when if (d := _definition(c)) is not None}
    solved: dict[str, str] = {}
    used: set[str] = set()
    for _ in defined:  # a definition may read what another one defines
        for condition, (name, text) in defined.items():
            if name in equation.attributes and name not in bound and names_in(text) <= bound:
                solved[name] = substitute_text(text, solved)
                bound.add(name)
                used.add(condition)
    lhs = tuple(_substituted(p, solved) for p in equation.rhs)
    rhs = tuple(_substituted(p, solved) for p in equation.lhs)
    when = tuple(substitute_text(c, solved) for c in equation.when if c not in used)
    named = dict(_computed(lhs, {*bound, *equation.attributes}))
    return Reading(
        tuple(_named(p, named) for p in lhs), rhs, (*when, *(f"{name} == {text}" for text, name in named.items()))
    )


def _definition(condition: str) -> tuple[str, str] | None:
    """The name and the expression of a condition ``name == expression``."""
    match ast.parse(condition, mode="eval").body:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()], comparators=[right]):
            return name, ast.unparse(right)
        case _:
            return None


def _computed(patterns: tuple[Pattern, ...], taken: set[str]) -> Iterator[tuple[str, str]]:
    """Each expression among the attributes, with a new name after the attribute that it is."""
    seen: set[str] = set()
    for app in (p for pattern in patterns for p in walk(pattern) if isinstance(p, App)):
        for param, attr in zip(operators()[app.op].params, app.attrs, strict=True):
            if not (attr.is_name or attr.is_literal) and attr.text not in seen:
                seen.add(attr.text)
                names = (f"{param.name}{i}" for i in itertools.count())
                name = next(n for n in names if n not in taken)
                taken.add(name)
                yield attr.text, name


def _substituted(pattern: Pattern, solved: Mapping[str, str]) -> Pattern:
    if not isinstance(pattern, App):
        return pattern
    attrs = tuple(e if e.is_literal else Expr(substitute_text(e.text, solved)) for e in pattern.attrs)
    return App(pattern.op, attrs, tuple(_substituted(o, solved) for o in pattern.operands))


def _named(pattern: Pattern, names: Mapping[str, str]) -> Pattern:
    if not isinstance(pattern, App):
        return pattern
    attrs = tuple(Expr(names.get(e.text, e.text)) for e in pattern.attrs)
    return App(pattern.op, attrs, tuple(_named(o, names) for o in pattern.operands))
