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
from egraph_opt.rewrites.generate.ship import family, grows, withheld
from egraph_opt.rewrites.prove.find import prove
from egraph_opt.rewrites.rule import Rule
from egraph_opt.terms import FLOAT_CLASSES, App, Equation, Pattern, PatternError, Var, check_equation, walk

BACKWARDS = "-reversed"
MORE = 100
"""Further cases for an axiom that is read backwards: its validation began with shapes that fit the other side."""
CASES = 40
"""Cases of the gates; the axiom itself has been tried on every small shape."""
SKIPPED = frozenset({"FusedConv"})
"""Operators that only exist for their cost: laws about them are definitions of the optimizer's own."""


def directed_axioms() -> Iterator[Rule]:
    """Every axiom in each direction in which it can be a rule, before any gate."""
    for axiom in all_axioms():
        for suffix, lhs, rhs in (("", axiom.lhs, axiom.rhs), (BACKWARDS, axiom.rhs, axiom.lhs)):
            rule = _rule(axiom, f"{axiom.name}{suffix}", lhs, rhs)
            if rule is not None and not _operators(rule) & SKIPPED and not _invents(rule):
                yield rule


def admitted(rule: Rule) -> Rule | None:
    """The rule with its effort and its float class (the axiom's, or a worse one that shows), or ``None`` where a gate
    or the prover says no."""
    stated, rule = rule.float_class, dataclasses.replace(rule, float_class="drops-nonfinite")
    verdict = check_equation(rule, cases=CASES)
    if not verdict.passed:  # read backwards, shapes may have to agree that the forward reading made so
        rule = dataclasses.replace(rule, when=tuple(dict.fromkeys((*rule.when, *_joinable(rule)))))
        verdict = check_equation(rule, seed=1, cases=CASES)
    sure = verdict.passed
    if rule.name.endswith(BACKWARDS):
        sure = sure and check_equation(rule, seed=2, cases=MORE).passed
    if not sure or prove(rule, all_axioms()) is None:
        return None
    effort = "thorough" if withheld(rule) or not _removes(rule) else "standard"
    worst = max(stated, verdict.float_class, key=FLOAT_CLASSES.index)
    return dataclasses.replace(rule, float_class=worst, status="proved", effort=effort)


def _joinable(rule: Equation) -> Iterator[str]:
    """Conditions under which tensors that the right side concatenates agree on every other axis."""
    for part in (p for side in rule.rhs for p in walk(side) if isinstance(p, App) and p.op == "Concat"):
        axis = part.attrs[0].text
        for first, second in pairwise(part.operands):
            if isinstance(first, Var) and isinstance(second, Var):
                yield f"shape({first.name})[:{axis}] == shape({second.name})[:{axis}]"
                yield f"shape({first.name})[{axis} + 1:] == shape({second.name})[{axis} + 1:]"


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


def _rule(axiom: Axiom, name: str, lhs: tuple[Pattern, ...], rhs: tuple[Pattern, ...]) -> Rule | None:
    try:
        return Rule(
            name,
            lhs,
            rhs,
            axiom.when,
            axiom.dtypes,
            axiom.float_class,
            f"axiom {axiom.name} ({axiom.source})",
            status="unproved",
            family=family(lhs, rhs),
            needs_order=axiom.by_definition,
        )
    except PatternError:  # the other side does not say all that this one needs
        return None


def _operators(rule: Equation) -> set[str]:
    return {p.op for side in (*rule.lhs, *rule.rhs) for p in walk(side) if isinstance(p, App)}


def _invents(rule: Equation) -> bool:
    """Whether it applies to every application of an operator and only wraps it: x, then f(g(x))..."""
    return grows(rule) > 2


def _removes(rule: Equation) -> bool:
    """Whether fewer operators are left."""
    return grows(rule) < 0


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
