"""Where an equation holds: conditions of the closed grammar, learned from cases and checked to be exact on them.

Cases of the left side are drawn without conditions; each is positive (the right side has the same type and value) or
negative. A condition may be used if it holds in every positive case. Conditions are added, the one that excludes most
negatives first, until none is left. Where that fails it is tried again among tensors that are at least matrices; an
equation for which that fails too needs a condition that the grammar does not have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from egraph_opt.terms import Equation
from egraph_opt.terms.expressions import Environment, Undefined, evaluate
from egraph_opt.terms.gates import Gate
from egraph_opt.terms.sampling import Sampler

CASES = 240
"""Cases that conditions are learned from."""
ENOUGH = 8
"""Positive cases without which nothing is learned."""
HOPELESS = 16
"""Draws without a case after which no more are made."""


@dataclass(frozen=True)
class Learned:
    """Conditions, and how many cases they were learned from; ``when`` is None where no conditions are exact."""

    when: tuple[str, ...] | None
    positive: int
    negative: int


def hypotheses(equation: Equation) -> Iterator[tuple[str, ...]]:
    """Conditions that may be taken for granted where random cases hardly ever meet them, or seldom break them: none;
    the sizes of a split are those of what was joined; every window of a pool holds an element of its input."""
    yield ()
    names = equation.attributes
    for s in (n for n in names if n == "s" and "a" in names):
        for x, y in itertools.combinations(equation.tensors, 2):
            yield (f"{s} == (size({x}, a), size({y}, a))",)
        yield (f"length({s}) == 2",)
    for p in (n.removesuffix("_kernel") for n in names if n.endswith("_kernel")):
        yield (f"{p}_ceil_mode == 0", f"max({p}_dilations) == 1", f"max({p}_pads) < min({p}_kernel)")


def learn_conditions(equation: Equation, *, seed: int = 0, cases: int = CASES) -> Learned:
    """Conditions under which the equation holds in every case that was drawn, and without which it fails.

    Conditions that the equation has already are taken for granted.
    """
    rng = np.random.default_rng([seed, *equation.name.encode()])
    sampler, gate = Sampler(equation), Gate(equation)
    positive: list[Environment] = []
    negative: list[Environment] = []
    for number in range(cases):
        if number == HOPELESS and not positive and not negative:
            break
        case = sampler.draw(rng, attempts=300)
        if case is not None:
            (positive if gate.holds(case, rng) else negative).append(case.environment)
    for restriction in ((), tuple(f"rank({x}) >= 2" for x in equation.tensors)):
        inside = [[c for c in side if all(_true(r, c) for r in restriction)] for side in (positive, negative)]
        chosen = _exact(equation, *inside) if len(inside[0]) >= ENOUGH else None
        if chosen is not None:
            return Learned((*equation.when, *restriction, *chosen), len(positive), len(negative))
    return Learned(None, len(positive), len(negative))


def _exact(
    equation: Equation, positive: Sequence[Environment], negative: Sequence[Environment]
) -> tuple[str, ...] | None:
    """Conditions that hold in every positive case, and of which one fails in every negative case."""
    if not negative:
        return ()
    usable = [c for c in _conditions(equation) if all(_true(c, case) for case in positive)]
    excludes = {c: frozenset(i for i, case in enumerate(negative) if not _true(c, case)) for c in usable}
    chosen: list[str] = []
    left = frozenset(range(len(negative)))
    while left:
        best = max(excludes, key=lambda c: len(excludes[c] & left), default=None)
        if best is None or not excludes[best] & left:
            return None
        chosen.append(best)
        left -= excludes[best]
    return tuple(chosen)


def _true(condition: str, environment: Environment) -> bool:
    try:
        return bool(evaluate(condition, environment))
    except Undefined:
        return False


def _conditions(equation: Equation) -> Iterator[str]:
    """Conditions of the grammar over the equation's names, simple ones first (the first of equals is chosen)."""
    yield from _attribute_conditions(equation.attributes)
    tensors = equation.tensors
    for x, y in itertools.combinations(tensors, 2):
        yield f"shape({x}) == shape({y})"
        yield f"rank({x}) == rank({y})"
        yield f"shape({x})[1:] == shape({y})[1:]"
        yield f"shape({x})[:1] == shape({y})[:1]"
        yield f"shape({x})[-2:] == shape({y})[-2:]"
        yield f"shape(out) == broadcast({x}, {y})"
    for x in tensors:
        yield f"shape(out) == shape({x})"
        yield f"rank({x}) == rank(out)"
        yield f"rank({x}) == 2"
        yield f"rank({x}) >= 2"
        for axis in equation.attributes:
            if _may_be_axis(axis):
                yield f"{axis} == rank({x}) - 1"
                yield f"{axis} == rank({x}) - 2"
                yield f"{axis} < rank({x}) - 2"
    for x, y in itertools.permutations(tensors, 2):
        for i, j in itertools.product((0, 1, -1, -2), repeat=2):
            yield f"size({x}, {i}) == size({y}, {j})"
        for axis in equation.attributes:
            if _may_be_axis(axis):
                yield f"size({x}, {axis}) == size({y}, {axis})"
    yield from _pairs(equation.attributes)


def _attribute_conditions(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name.endswith("_group"):
            yield f"{name} == 1"
        elif name.endswith(("_strides", "_dilations")):
            yield f"max({name}) == 1"
        elif name.endswith("_pads"):
            yield f"{name} == (0,) * length({name})"
        elif _may_be_axis(name):
            yield f"{name} == 0"
            yield f"{name} == 1"
            yield f"{name} >= 1"
        elif len(name) == 1:
            yield f"swaps_last_two({name})"


def _pairs(names: Sequence[str]) -> Iterator[str]:
    for a, b in itertools.combinations(names, 2):
        yield f"{a} == {b}"
        yield f"{a} != {b}"


def _may_be_axis(name: str) -> bool:
    return name in ("a", "k", "r", "axis")
