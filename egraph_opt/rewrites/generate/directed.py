"""Axioms as rules: each read in both directions, under the conditions that it is validated for.

Enumeration finds what holds among the operators of its worlds; axioms speak of every operator, and of attributes that
no world varies. A direction that removes operators ships for every run; the others only for a ``thorough`` one, since
they enlarge e-graphs. The gates and the proof (one instance of the axiom) are those of every other rule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import pairwise

from egraph_opt.axioms import Axiom, all_axioms
from egraph_opt.rewrites.generate.conditions import learn_conditions
from egraph_opt.rewrites.generate.readings import Reading, backwards, forwards
from egraph_opt.rewrites.generate.ship import family, grows, withheld
from egraph_opt.rewrites.prove.find import prove
from egraph_opt.rewrites.rule import Rule
from egraph_opt.terms import FLOAT_CLASSES, App, Equation, Pattern, PatternError, Var, check_equation, holds, walk

BACKWARDS = "-reversed"
MORE = 100
"""Further cases for an axiom that is read backwards: its validation began with shapes that fit the other side."""
CASES = 40
"""Cases of the gates; the axiom itself has been tried on every small shape."""
LEARNING = 80
"""Cases from which missing conditions are learned."""
SKIPPED = frozenset({"FusedConv"})
"""Operators that only exist for their cost: laws about them are definitions of the optimizer's own."""
RESHAPES = frozenset({"Reshape"})
"""Operators that cost nothing: those around another one do not make an invention of it."""


def directed_axioms() -> Iterator[Rule]:
    """Every axiom in each direction in which it can be a rule, before any gate."""
    for axiom in all_axioms():
        for suffix, read in (("", forwards), (BACKWARDS, backwards)):
            rule = _rule(axiom, f"{axiom.name}{suffix}", read(axiom))
            if rule is not None and not _operators(*rule.lhs, *rule.rhs) & SKIPPED and not _invents(rule):
                yield rule


def admitted(rule: Rule) -> Rule | None:
    """The rule with its effort and its float class (the axiom's, or a worse one that shows), or ``None`` where a gate
    or the prover says no."""
    stated, loose = rule.float_class, dataclasses.replace(rule, float_class="drops-nonfinite")
    for seed, sure in enumerate(_conditioned(loose)):
        verdict = check_equation(sure, seed=seed, cases=CASES)
        if verdict.passed and _holds_out(sure) and prove(sure, all_axioms()) is not None:
            effort = "thorough" if withheld(sure) or not _removes(sure) else "standard"
            worst = max(stated, verdict.float_class, key=FLOAT_CLASSES.index)
            return dataclasses.replace(sure, float_class=worst, status="proved", effort=effort)
    return None


def _conditioned(rule: Rule) -> Iterator[Rule]:
    """The rule; and, read backwards, when shapes agree that the forward reading made so: those of what it joins, those
    and their ranks, or what cases teach."""
    yield rule
    if rule.name.endswith(BACKWARDS):
        pairs = tuple(dict.fromkeys(_joined(rule)))
        shapes = tuple(dict.fromkeys(c for pair in pairs for c in _agreeing(*pair)))
        ranks = tuple(dict.fromkeys(f"rank({x}) == rank({y})" for x, y, _ in pairs))
        for more in (shapes, (*ranks, *shapes)) if pairs else ():
            yield dataclasses.replace(rule, when=tuple(dict.fromkeys((*rule.when, *more))))
        learned = learn_conditions(rule, cases=LEARNING).when
        if learned is not None and learned != rule.when:
            yield dataclasses.replace(rule, when=learned)


def _holds_out(rule: Rule) -> bool:
    return not rule.name.endswith(BACKWARDS) or holds(rule, seed=MORE, cases=MORE)


def _joined(rule: Equation) -> Iterator[tuple[str, str, str]]:
    """Tensors that the right side concatenates, in pairs, and the axis."""
    for part in (p for side in rule.rhs for p in walk(side) if isinstance(p, App) and p.op == "Concat"):
        for first, second in pairwise(part.operands):
            if isinstance(first, Var) and isinstance(second, Var):
                yield first.name, second.name, part.attrs[0].text


def _agreeing(first: str, second: str, axis: str) -> Iterator[str]:
    """Conditions under which two tensors agree on every axis but one."""
    yield f"shape({first})[:{axis}] == shape({second})[:{axis}]"
    yield f"shape({first})[{axis} + 1:] == shape({second})[{axis} + 1:]"


def form(rule: Equation) -> str:
    """The equation with names in order of appearance: equal for rules that differ in names alone."""
    names: dict[str, str] = {}
    for side in (*rule.lhs, *rule.rhs):
        for part in _preorder(side):
            if isinstance(part, Var):
                names.setdefault(part.name, f"t{len(names)}")
            elif isinstance(part, App):
                for e in part.attrs:
                    if e.is_name:
                        names.setdefault(e.text, f"a{len(names)}")
    return repr(tuple(_renamed(p, names) for p in (*rule.lhs, *rule.rhs)))


def _rule(axiom: Axiom, name: str, reading: Reading) -> Rule | None:
    if "Fill" in _operators(*reading.lhs):  # the constants of a model are no Fill: it would never apply
        return None
    try:
        return Rule(
            name,
            reading.lhs,
            reading.rhs,
            reading.when,
            axiom.dtypes,
            axiom.float_class,
            f"axiom {axiom.name} ({axiom.source})",
            status="unproved",
            family=family(reading.lhs, reading.rhs),
            needs_order=axiom.by_definition,
        )
    except PatternError:  # the other side does not say all that this one needs
        return None


def _operators(*patterns: Pattern) -> set[str]:
    return {p.op for side in patterns for p in walk(side) if isinstance(p, App)}


def _invents(rule: Equation) -> bool:
    """Whether it applies to every application of an operator and only wraps it: x, then f(g(x))..."""
    return grows(rule, free=RESHAPES) > 2


def _removes(rule: Rule) -> bool:
    """Whether fewer operators are left. Backwards, a Reshape fewer is not enough: most are of weights that laws folded,
    and taking them apart again only makes rounds longer."""
    return grows(rule, free=RESHAPES if rule.name.endswith(BACKWARDS) else frozenset()) < 0


def _preorder(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    if isinstance(pattern, App):
        for operand in pattern.operands:
            yield from _preorder(operand)


def _renamed(pattern: Pattern, names: dict[str, str]) -> object:
    if isinstance(pattern, Var):
        return names[pattern.name]
    if isinstance(pattern, App):
        attrs = tuple(names.get(e.text, e.text) for e in pattern.attrs)
        return pattern.op, attrs, tuple(_renamed(o, names) for o in pattern.operands)
    return pattern
