"""Terms of proofs, and equations as schemas of such terms.

A term is an operator applied to terms; its attributes are texts of the closed grammar in which whole terms may stand
where a tensor may: ``size(Concat(x, y, axis=a), a)``. A literal of a pattern (a constant of any shape, all of whose
elements are one number) is the operator ``Number(value=..., shape=...)``: on the left side its shape is a hidden
attribute ``_n0``, ``_n1``..., on the right it is ``()``. Two zeros of different shapes are therefore different terms.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from egraph_opt.ops import operators
from egraph_opt.terms import App, Equation, Number, Pattern, Var

NUMBER = "Number"
_NUMBER_PARAMS = ("value", "shape")


@dataclass(frozen=True, slots=True)
class Term:
    """A variable (no operands: ``None``) or an operator with the texts of its attributes, in the operator's order."""

    head: str
    attrs: tuple[str, ...] = ()
    operands: tuple[Term, ...] | None = None
    text: str = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # terms are looked up and written far more often than made
        object.__setattr__(self, "text", self._written())
        object.__setattr__(self, "_hash", hash((self.head, self.attrs, self.operands)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Term], tuple[object, ...]]:
        return Term, (self.head, self.attrs, self.operands)  # hashes of texts differ between processes

    @property
    def is_variable(self) -> bool:
        return self.operands is None

    def __str__(self) -> str:
        return self.text

    def _written(self) -> str:
        if self.operands is None:
            return self.head
        shown = [o.text for o in self.operands]
        shown += [f"{name}={text}" for name, text in zip(params(self.head), self.attrs, strict=True)]
        return f"{self.head}({', '.join(shown)})"


@dataclass(frozen=True)
class Schema:
    """An equation over terms.

    Attributes:
        tensors: its tensor variables; ``attributes``: its attribute variables, shapes of literals included.
        given: its conditions, without ``const``, which says when to apply it and not where it is true.
    """

    lhs: tuple[Term, ...]
    rhs: tuple[Term, ...]
    tensors: tuple[str, ...]
    attributes: tuple[str, ...]
    given: tuple[str, ...]


@cache
def params(head: str) -> tuple[str, ...]:
    """Names of an operator's attributes."""
    return _NUMBER_PARAMS if head == NUMBER else tuple(p.name for p in operators()[head].params)


@cache
def schema(equation: Equation) -> Schema:
    """The equation over terms."""
    shapes: dict[int, str] = {}
    lhs = tuple(_term(p, shapes) for p in equation.lhs)
    rhs = tuple(_term(p, None) for p in equation.rhs)
    attributes = (*equation.attributes, *shapes.values())
    return Schema(lhs, rhs, equation.tensors, attributes, tuple(_canonical(c) for c in equation.conditions))


def number_names(equation: Equation) -> dict[int, str]:
    """The hidden attribute of each literal on the left, by the identity of the pattern."""
    shapes: dict[int, str] = {}
    for pattern in equation.lhs:
        _term(pattern, shapes)
    return shapes


def _term(pattern: Pattern, shapes: dict[int, str] | None) -> Term:
    match pattern:
        case Var(name):
            return Term(name)
        case Number(value):
            shape = "()" if shapes is None else shapes.setdefault(id(pattern), f"_n{len(shapes)}")
            return Term(NUMBER, (repr(value), shape), ())
        case App(op, attrs, operands):
            return Term(op, tuple(_canonical(e.text) for e in attrs), tuple(_term(o, shapes) for o in operands))


def subterms(term: Term) -> Iterator[Term]:
    """Everything in a term, operands first, the term last."""
    for operand in term.operands or ():
        yield from subterms(operand)
    yield term


def substitute(term: Term, binding: Mapping[str, str]) -> Term:
    """The term with terms and texts (both as text) in place of variables."""
    if term.operands is None:
        return parse_term(binding[term.head])
    attrs = tuple(substitute_text(text, binding) for text in term.attrs)
    return Term(term.head, attrs, tuple(substitute(o, binding) for o in term.operands))


def substitute_text(text: str, binding: Mapping[str, str]) -> str:
    """An expression with the texts of terms and expressions in place of its names."""
    if text in binding:
        return binding[text]
    used = names(text)
    if not used & binding.keys():
        return text
    return _substituted(text, tuple(sorted((n, binding[n]) for n in used & binding.keys())))


@cache
def _substituted(text: str, binding: tuple[tuple[str, str], ...]) -> str:
    return ast.unparse(_Substitution(dict(binding)).visit(ast.parse(text, mode="eval")))


class _Substitution(ast.NodeTransformer):
    def __init__(self, binding: Mapping[str, str]) -> None:
        self.binding = binding

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(self.binding[node.id], mode="eval").body if node.id in self.binding else node


@cache
def names(text: str) -> frozenset[str]:
    """Every name in a text, functions and operators included."""
    return frozenset(n.id for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name))


@cache
def parse_term(text: str) -> Term:
    """The term that ``str`` wrote.

    Raises:
        ValueError: it is none.
    """
    return term_of(ast.parse(text, mode="eval").body)


def term_of(tree: ast.expr) -> Term:
    """The term of a syntax tree; raises ValueError."""
    match tree:
        case ast.Name(id=name):
            return Term(name)
        case ast.Call(func=ast.Name(id=head), args=operands, keywords=keywords) if is_operator(head):
            given = {k.arg: ast.unparse(k.value) for k in keywords}
            if set(given) != set(params(head)):
                raise ValueError(f"{ast.unparse(tree)}: {head} takes the attributes {params(head)}")
            return Term(head, tuple(given[p] for p in params(head)), tuple(term_of(o) for o in operands))
        case _:
            raise ValueError(f"{ast.unparse(tree)} is no term")


def is_operator(name: str) -> bool:
    """Whether the name stands for an operator of terms."""
    return name == NUMBER or name in operators()


@cache
def _canonical(text: str) -> str:
    return ast.unparse(ast.parse(text, mode="eval"))
