"""What of the true rules ships: those that are proved, and that do not only blow up e-graphs.

The policy:

1. A rule ships if it has a proof from the axioms that the checker accepts, for the widest dtypes for which it has one.
2. A rule may apply as many operators as it removes, or fewer. Where both sides have the same number, both directions
   ship. What needs larger graphs first is left to the laws written by hand.
3. A rule that keeps the number of operators does not only reorder (the same operators under the same root, unless those
   are products, whose cost depends on the order), nor only regroup element-wise arithmetic, which costs the same.
4. A rule with one root does not add a ``Concat``: joins are made by rules with several roots, and there are few.
5. A rule in which one tensor stands where two might is the special case of another.
6. Rules with several roots share their first operand (the input); saturation merges those many at once. Joining inputs
   that share a weight would copy activations.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence, Set

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites.generate.conditions import learn_conditions
from egraph_opt.rewrites.prove import Proof, Rejected, check
from egraph_opt.rewrites.prove.find import prove
from egraph_opt.rewrites.prove.proof import by_name
from egraph_opt.rewrites.rule import Rule
from egraph_opt.terms import App, Dtypes, Equation, Pattern, PatternError, Var, check_equation, holds, walk

MANY = 150
"""Cases on which a rule is tried before it ships; rare shapes break what holds on dozens."""
FEW = 40
"""Cases for another direction, or other dtypes, of a rule that has passed so many."""
PRODUCTS = frozenset({"MatMul", "Conv"})
"""Operators whose order and grouping decide what they cost."""
ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Neg", "Max", "Min"})
"""Element-wise operators that cost about the same."""
_WIDEST: tuple[Dtypes, Dtypes] = ("any", "numeric")


def confirmed(rule: Rule, seed: int = 0, cases: int = MANY) -> Rule | None:
    """The rule with the float class that many cases show, under conditions learned from many where it needs more;
    ``None`` if it does not hold."""
    for learn in (False, True):
        if learn:
            learned = learn_conditions(dataclasses.replace(rule, when=()), seed=seed, cases=cases)
            if learned.when is None:
                return None
            rule = dataclasses.replace(rule, when=learned.when)
        loose = dataclasses.replace(rule, float_class="drops-nonfinite")
        verdict = check_equation(loose, seed=seed, cases=cases)
        if verdict.passed and holds(loose, seed=seed + 17, cases=cases):
            return dataclasses.replace(rule, float_class=verdict.float_class)
    return None


def proved(rule: Rule) -> Rule | None:
    """The rule, for the widest dtypes for which its proof holds and it passes the gates; ``None`` if it is not
    proved."""
    proof = prove(rule, all_axioms())
    if proof is None:
        return None
    for dtypes in _WIDEST:
        wide = dataclasses.replace(rule, dtypes=dtypes)
        if _shows(proof, wide) and check_equation(wide, cases=FEW).passed:
            return dataclasses.replace(wide, status="proved")
    return dataclasses.replace(rule, status="proved")


def _shows(proof: Proof, rule: Rule) -> bool:
    """Whether the proof shows the rule for its dtypes too: the search for one would go the same way again."""
    try:
        check(rule, proof, by_name(all_axioms()))
    except Rejected:
        return False
    return True


def withheld(rule: Equation) -> str:
    """Why the policy keeps a true rule back; empty if it ships."""
    roots = len(rule.lhs)
    if roots > 1:
        return "" if _shares_input(rule) else "it joins inputs"
    left, right = (_operators(side[0]) for side in (rule.lhs, rule.rhs))
    if _is_special(rule):
        return "it is a special case"
    if right.total() > left.total():
        return "it adds operators"
    if right["Concat"] > left["Concat"]:
        return "it adds a Concat"
    if is_reordering(rule):
        return "it reorders"
    return "it regroups arithmetic" if left.total() == right.total() and left.keys() <= ARITHMETIC else ""


def _is_special(rule: Equation) -> bool:
    """Whether one tensor stands where two might: it does so on both sides, or on the left and nothing is removed."""
    left, right = (Counter(p.name for p in walk(side[0]) if isinstance(p, Var)) for side in (rule.lhs, rule.rhs))
    return any(count > 1 and (right[name] > 1 or grows(rule) == 0) for name, count in left.items())


def grows(rule: Equation, free: Set[str] = frozenset()) -> int:
    """Operators that the right side has more than the left, ``Get`` and those that are ``free`` aside."""
    left, right = (
        sum(count for p in side for op, count in _operators(p).items() if op not in free)
        for side in (rule.lhs, rule.rhs)
    )
    return right - left


def is_reordering(rule: Equation) -> bool:
    """Whether a rule only reorders operands: true, and useless to apply without a reason."""
    left, right = (_operators(side[0]) for side in (rule.lhs, rule.rhs))
    roots = {getattr(side[0], "op", "") for side in (rule.lhs, rule.rhs)}
    return left == right and len(roots) == 1 and not roots & PRODUCTS


def settled(rule: Rule) -> list[tuple[Rule, Rule | None]]:
    """The rule, and from right to left as well where both sides are of one size; each with its proved form, if any.

    The second one is called ``""``.
    """
    ways = [rule]
    sizes = [_operators(side[0]).total() for side in (rule.lhs, rule.rhs)]
    if len(rule.lhs) == 1 and sizes[0] == sizes[1]:
        back = _reversed(rule)
        if back is not None and back.when == rule.when:
            ways.append(back)
    return [(way, proved(way)) for way in ways]


def family(lhs: Sequence[Pattern], rhs: Sequence[Pattern]) -> str:
    """Rules that are switched on and off together: ``merge``, or those about the same operators."""
    if len(lhs) > 1:
        return "merge"
    return "-".join(sorted({p.op.lower() for side in (*lhs, *rhs) for p in walk(side) if isinstance(p, App)}))


def _reversed(rule: Rule) -> Rule | None:
    try:
        back = dataclasses.replace(rule, name="", lhs=rule.rhs, rhs=rule.lhs, float_class="drops-nonfinite")
    except PatternError:  # the right side does not say everything that the left side needs
        return None
    return confirmed(back, cases=FEW)


def _operators(pattern: Pattern) -> Counter[str]:
    return Counter(p.op for p in walk(pattern) if isinstance(p, App) and p.op != "Get")


def _shares_input(rule: Equation) -> bool:
    first = [p.operands[0] for p in rule.lhs if isinstance(p, App)]
    others = [set(p.operands[1:]) for p in rule.lhs if isinstance(p, App)]
    return isinstance(first[0], Var) and len(set(first)) == 1 and not set.intersection(*others)
