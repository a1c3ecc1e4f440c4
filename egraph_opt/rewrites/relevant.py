"""Which rules can matter to a graph: those whose operators are there, or are brought in by rules that matter.

A least fixed point, as for the predicates of a Datalog program that stay empty. A rule whose left side has an operator
that the e-graph will never have can never match: to leave it out changes nothing but the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from egraph_opt.rewrites.emit import Constructor
from egraph_opt.rewrites.rule import Rule
from egraph_opt.terms.pattern import App, Number, Pattern, walk


def relevant(rules: Sequence[Rule], present: Iterable[Constructor]) -> tuple[Rule, ...]:
    """The rules, in their order, that may match in an e-graph that begins with the operators ``present``.

    Numbers in patterns are taken to be there. Rules with several roots merge any number of operators at once, so what
    joins them is taken to have any number of operands.
    """
    needs = [constructors(rule.lhs) for rule in rules]
    every = set[Constructor]().union(*needs)
    waiting: dict[Constructor, list[int]] = {}
    missing = [len(need) for need in needs]
    for number, need in enumerate(needs):
        for constructor in need:
            waiting.setdefault(constructor, []).append(number)
    found: set[int] = set()
    reached = set(present) & every
    pending = sorted(reached)
    while pending:
        for number in waiting.get(pending.pop(), ()):
            missing[number] -= 1
            if not missing[number]:
                found.add(number)
                made = _made(rules[number], every) - reached
                reached |= made
                pending += made
    return tuple(rules[number] for number in sorted(found))


def constructors(patterns: Iterable[Pattern]) -> set[Constructor]:
    """Operators of patterns with their numbers of operands."""
    found: set[Constructor] = set()
    stack = list(patterns)  # for walk takes twice as long, and this is asked of every rule for every graph
    for pattern in stack:
        if isinstance(pattern, App):
            found.add((pattern.op, len(pattern.operands)))
            stack += pattern.operands
    return found


def _made(rule: Rule, every: Collection[Constructor]) -> set[Constructor]:
    """What the right side brings in, as far as it is in ``every``."""
    made = constructors(rule.rhs)
    if any(isinstance(p, Number) for q in rule.rhs for p in walk(q)):
        made.add(("Fill", 0))
    if len(rule.rhs) > 1:
        joins = {op for op, _ in made}
        made |= {(op, arity) for op, arity in every if op in joins}
    return made & set(every)
