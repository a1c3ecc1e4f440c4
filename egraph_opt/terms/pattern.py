"""Patterns of rules, written as Python call expressions: ``Add(Mul(x, a), 3)``, ``Conv(x, w, **c)``.

A name in an operand position is a tensor; a number there is a constant all of whose elements have that value. Keyword
arguments are attributes: on the left a name or a literal, on the right any expression of the closed grammar of
``egraph_opt.terms.expressions``. ``**c`` stands for every attribute of the operator that is not written out, and is
the same bundle wherever it appears.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from egraph_opt.ir import AttrValue
from egraph_opt.ops import operators


class PatternError(ValueError):
    """The text is no pattern; the message quotes it."""


@dataclass(frozen=True, slots=True)
class Var:
    """A tensor. (Patterns travel to other processes by the hundred: ``__reduce__`` halves the time that it takes.)"""

    name: str

    def __reduce__(self) -> tuple[type[Var], tuple[str]]:
        return Var, (self.name,)


@dataclass(frozen=True, slots=True)
class Number:
    """A constant tensor of any shape whose elements all equal ``value``, rounded to the tensor's dtype."""

    value: float

    def __reduce__(self) -> tuple[type[Number], tuple[float]]:
        return Number, (self.value,)


@dataclass(frozen=True, slots=True)
class Expr:
    """An attribute: ``text`` is a name, a literal or an expression."""

    text: str

    def __reduce__(self) -> tuple[type[Expr], tuple[str]]:
        return Expr, (self.text,)

    @property
    def is_name(self) -> bool:
        return self.text.isidentifier() and self.text not in ("None", "True", "False")

    @property
    def is_literal(self) -> bool:
        return _literal(self.text) is not _NOT_LITERAL

    @property
    def literal(self) -> AttrValue:
        """The value of a literal."""
        return _literal(self.text)


@dataclass(frozen=True, slots=True)
class App:
    """An operator applied to patterns; ``attrs`` in the operator's order."""

    op: str
    attrs: tuple[Expr, ...]
    operands: tuple[Pattern, ...]

    def __reduce__(self) -> tuple[type[App], tuple[str, tuple[Expr, ...], tuple[Pattern, ...]]]:
        return App, (self.op, self.attrs, self.operands)

    def __str__(self) -> str:
        params = operators()[self.op].params
        shown = [str(o.name if isinstance(o, Var) else o.value if isinstance(o, Number) else o) for o in self.operands]
        shown += [f"{p.name}={e.text}" for p, e in zip(params, self.attrs, strict=True)]
        return f"{self.op}({', '.join(shown)})"


Pattern = Var | Number | App
_NOT_LITERAL = object()


@cache
def _literal(text: str) -> AttrValue:
    """Asked for every term of every case, so remembered: expressions are few."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _NOT_LITERAL


def parse(text: str) -> Pattern:
    """The pattern that ``text`` writes.

    Raises:
        PatternError: it is not one; the message says where.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise PatternError(f"{text!r} is no pattern: {error.msg}") from None
    return _convert(tree, text)


def _convert(tree: ast.expr, text: str) -> Pattern:
    match tree:
        case ast.Name(id=name):
            return _variable(name)
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return Number(float(value))
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return Number(-float(value))
        case ast.Call(func=ast.Name(id=op), args=operands, keywords=keywords):
            if op not in operators():
                raise PatternError(f"{text!r}: there is no operator {op}")
            params = [p.name for p in operators()[op].params]
            given = {k.arg: _text(k.value) for k in keywords if k.arg is not None}
            bundle = next((_text(k.value) for k in keywords if k.arg is None), None)
            unknown = set(given) - set(params)
            if unknown or (bundle is None and set(params) != set(given)):
                raise PatternError(f"{text!r}: {op} takes the attributes {params}")
            attrs = tuple(_expression(given.get(p, f"{bundle}_{p}")) for p in params)
            return App(op, attrs, tuple(_convert(o, text) for o in operands))
        case _:
            raise PatternError(f"{text!r}: {ast.unparse(tree)} is neither a tensor, a number nor an operator")


def _text(tree: ast.expr) -> str:
    """What was written; nearly always a name, for which ``unparse`` would take as long as all else together."""
    return tree.id if isinstance(tree, ast.Name) else ast.unparse(tree)


_variable, _expression = cache(Var), cache(Expr)
"""One object for each text: few are different, and what is the same object is pickled once."""


def walk(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern and everything in it, operands first."""
    if isinstance(pattern, App):
        for operand in pattern.operands:
            if isinstance(operand, App):
                yield from walk(operand)
            else:
                yield operand
    yield pattern


def tensor_names(*patterns: Pattern) -> tuple[str, ...]:
    """Names of tensors, in order of first use."""
    return tuple(dict.fromkeys(p.name for q in patterns for p in walk(q) if isinstance(p, Var)))


def attribute_names(*patterns: Pattern) -> tuple[str, ...]:
    """Names of attributes that stand alone, in order of first use."""
    apps = [p for q in patterns for p in walk(q) if isinstance(p, App)]
    return tuple(dict.fromkeys(e.text for a in apps for e in a.attrs if e.is_name))
