"""Holding an axiom against the operator table, three ways.

Exactly, as polynomials, on small shapes; modulo a prime on every case of the space; and, where order or real functions
matter, on every case too, on signed integers or floats (mixed, all negative, mostly negative; or mixed, positive,
negative).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from egraph_opt.axioms.choices import cases_of
from egraph_opt.axioms.evaluate import (
    Method,
    NoType,
    Resolve,
    Source,
    Term,
    Terms,
    Values,
    method,
    resolver,
    same,
    values_of,
)
from egraph_opt.axioms.exact import applies, exact_inputs, exact_value
from egraph_opt.axioms.record import Axiom
from egraph_opt.axioms.space import FULL, TINY, Kernel, Space
from egraph_opt.terms import App, Case
from egraph_opt.terms.expressions import Undefined
from egraph_opt.terms.pattern import walk

SPATIAL = frozenset({"Conv", "MaxPool", "AveragePool"})
EXACT_CASES = 40
"""Small shapes per axiom that are compared as polynomials."""


@dataclass(frozen=True)
class Report:
    """What was found about one axiom.

    Attributes:
        method: how it was tried on every case: ``prime``, ``signed`` or ``real``.
        exact: small cases compared as polynomials (0 where a function has no normal form).
        combinations: cases that were evaluated; stacked batch sizes count one by one.
        skipped: combinations that unification reached and types or conditions then ruled out.
        seconds: of processor time.
        counterexample: empty, or the first shapes and attributes on which the sides differ, and how.
    """

    axiom: str
    family: str
    method: Method
    exact: int
    combinations: int
    skipped: int
    counterexample: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether it may be used: tried at least once, and never wrong."""
        return not self.counterexample and self.combinations > 0


class _Counterexample(Exception):  # noqa: N818 - an answer
    pass


def validate(axiom: Axiom, *, sample: int | None = None, seed: int = 0, space: Space = FULL) -> Report:
    """Tries an axiom on every case of ``space``, or on ``sample`` random ones."""
    started, how = time.process_time(), method(axiom)
    exact = combinations = 0
    rng = np.random.default_rng([seed, *axiom.name.encode()])
    space = dataclasses.replace(space, kernels=_kernels(axiom, space))
    enumerated = cases_of(axiom, space, rng if sample is not None else None)
    weight = len(space.batch) if enumerated.stacks else 1
    found = ""
    try:
        exact = _exactly(axiom, EXACT_CASES if sample is None else min(sample, EXACT_CASES), rng)
        sides, draws = _Sides(axiom), values_of(how, Source(seed))
        cases: Iterable[Case] = enumerated if sample is None else enumerated.sample(sample)
        with np.errstate(all="ignore"):
            for case in cases:
                if _evaluated(sides, case, draws, how):
                    combinations += weight
                else:
                    enumerated.skipped += 1
    except _Counterexample as refused:
        found = str(refused)
    seconds = time.process_time() - started
    if not found and not combinations:
        found = "no shapes fit its left side and conditions"
    return Report(axiom.name, axiom.family, how, exact, combinations, enumerated.skipped, found, seconds)


def _kernels(axiom: Axiom, space: Space) -> tuple[Kernel, ...]:
    """The kernels that an axiom is tried with."""
    used = [p.op for side in (*axiom.lhs, *axiom.rhs) for p in walk(side) if isinstance(p, App)]
    if "FusedConv" in used:
        return space.carried
    return space.few if sum(op in SPATIAL for op in used) >= 3 else space.kernels


class _Sides:
    """Both sides of an axiom, ready for cases."""

    def __init__(self, axiom: Axiom) -> None:
        terms = Terms()
        self._left: Resolve = resolver(axiom.lhs[0], terms)
        self._right: Resolve = resolver(axiom.rhs[0], terms)

    def terms(self, case: Case) -> tuple[Term, Term] | None:
        """Both sides under a case; ``None`` where the right side's attributes are undefined."""
        environment = case.environment
        left = self._left(case, environment)
        try:
            right = self._right(case, environment)
        except Undefined:
            return None
        except NoType as error:
            raise _Counterexample(f"{error}, for {case}") from None
        if right.type != left.type:
            raise _Counterexample(f"the right side is {right.type} instead of {left.type} for {case}")
        return left, right


def _evaluated(sides: _Sides, case: Case, draws: list[Values], how: Method) -> bool:
    terms = sides.terms(case)
    if terms is None:
        return False
    left, right = terms
    for values in draws:
        if not same(values.value(left), values.value(right), exact=how != "real"):
            words = {"prime": "modulo a prime", "signed": "on signed integers", "real": "in float64"}[how]
            raise _Counterexample(f"the sides differ {words} for {case}")
    return True


def _exactly(axiom: Axiom, count: int, rng: np.random.Generator) -> int:
    """Compares polynomials on small shapes; returns on how many."""
    if not applies(axiom):
        return 0
    done, sides = 0, _Sides(axiom)
    for case in cases_of(axiom, TINY, rng).sample(count):
        terms = sides.terms(case)
        if terms is None:
            continue
        inputs = exact_inputs(case.tensors)
        try:
            left, right = (exact_value(t, inputs) for t in terms)
        except NotImplementedError:
            continue
        if left.shape != right.shape or any(a != b for a, b in zip(left.reshape(-1), right.reshape(-1), strict=True)):
            raise _Counterexample(f"the sides are different polynomials for {case}")
        done += 1
    return done
