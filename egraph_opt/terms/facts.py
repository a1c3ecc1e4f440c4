"""What conditions say outright of a shape or an attribute, so that it need not be drawn until it happens to fit.

``shape(x)[1:] == shape(y)[1:]`` gives all sizes of y but the first, once x is known. A draw that breaks such a
condition is thrown away in the end; here it is mended instead. One that meets it stays as it is, so no case is lost.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from egraph_opt.ir import Size
from egraph_opt.ops.draws import integers
from egraph_opt.terms.equation import Equation
from egraph_opt.terms.expressions import Environment, Undefined, evaluate, names_in

Shape = tuple[Size, ...]
MISSING = (1, 5)
"""Bounds of a size that a larger rank asks for."""
LARGEST = 8
"""The largest rank that is drawn."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A condition ``part == value``, where ``part`` is an attribute, or the rank, an axis or axes of a tensor.

    Attributes:
        name: the tensor or attribute.
        part: ``value`` (of an attribute), ``rank``, ``axis`` or ``axes``.
        places: the axis, or the first axis and the one after the last (empty where it is left out), as expressions.
        value: the other side.
        reads: what must be known before the fact is of use.
    """

    name: str
    part: str
    places: tuple[str, ...]
    value: str
    reads: frozenset[str]


def facts_of(rule: Equation) -> dict[str, tuple[Fact, ...]]:
    """The facts about each tensor and attribute of a rule, those about ranks first."""
    found = [f for condition in rule.conditions for f in _facts(condition, rule)]
    found.sort(key=lambda f: f.part != "rank")
    return {name: tuple(f for f in found if f.name == name) for name in {f.name for f in found}}


def fitted(shape: Shape, facts: Sequence[Fact], known: Environment, rng: np.random.Generator) -> Shape:
    """The shape, as far as facts about it do not say otherwise; ``known`` holds everything that has been drawn."""
    for fact in facts:
        if fact.reads <= known.keys():
            try:
                changed = _changed(shape, fact, known, rng)
            except Undefined:  # whether the condition holds is asked later on
                continue
            if all(isinstance(size, int) and size > 0 for size in changed):
                shape = changed
    return shape


def _changed(shape: Shape, fact: Fact, known: Environment, rng: np.random.Generator) -> Shape:
    value = evaluate(fact.value, known)
    places = [evaluate(text, known) if text else None for text in fact.places]
    match fact.part, value, places:
        case "rank", int(), _ if 0 <= value <= LARGEST:
            more = integers(rng, *MISSING, max(value - len(shape), 0))
            return (*more, *shape[max(len(shape) - value, 0) :])
        case "axis", _, [int(axis)] if -len(shape) <= axis < len(shape):
            axis %= len(shape)
            return (*shape[:axis], value, *shape[axis + 1 :])  # type: ignore[return-value]
        case "axes", tuple(), [first, last]:
            changed = list(shape)
            changed[first:last] = value  # type: ignore[misc]
            return tuple(changed)  # type: ignore[return-value]
        case _:
            return shape


def _facts(condition: str, rule: Equation) -> Iterator[Fact]:
    match ast.parse(condition, mode="eval").body:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            yield from _fact(left, right, rule)
            yield from _fact(right, left, rule)


def _fact(side: ast.expr, other: ast.expr, rule: Equation) -> Iterator[Fact]:
    """What an equation says of its one side, if that is something that is drawn."""
    match side:
        case ast.Name(id=name) if name in rule.attributes:
            part, places = "value", ()
        case ast.Call(func=ast.Name(id="rank"), args=[ast.Name(id=name)]):
            part, places = "rank", ()
        case ast.Call(func=ast.Name(id="shape"), args=[ast.Name(id=name)]):
            part, places = "axes", ("", "")
        case ast.Call(func=ast.Name(id="size"), args=[ast.Name(id=name), axis]):
            part, places = "axis", (ast.unparse(axis),)
        case ast.Subscript(value=ast.Call(func=ast.Name(id="shape"), args=[ast.Name(id=name)]), slice=where):
            ends = (where.lower, where.upper) if isinstance(where, ast.Slice) else (where,)
            part, places = "axes" if len(ends) == 2 else "axis", tuple(ast.unparse(e) if e else "" for e in ends)
            if isinstance(where, ast.Slice) and where.step is not None:
                return
        case _:
            return
    if name in rule.tensors or part == "value":
        value = ast.unparse(other)
        reads = names_in(value).union(*(names_in(text) for text in places if text))
        yield Fact(name, part, places, value, reads)
