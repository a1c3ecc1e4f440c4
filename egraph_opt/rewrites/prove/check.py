"""The checker of proofs: believes neither Z3 nor the search, only the axioms and what stands here.

A proof is accepted when

1. every instance is an instance of its axiom: a term for each tensor and an expression for each attribute of it;
2. every condition of every instance holds: it is a condition of the equation itself, or it reads no variables, or it
   is true in every one of the cases drawn here (other cases than those on which the proof was found);
3. both sides of every instance, and so every term of the chain, have one and the same type in every case, of a dtype
   for which the axiom is stated;
4. the two sides of the equation fall together in the congruence closure of the instances.

Attributes count as the same where they have the same value in every case. What is trusted: the axioms (validated
elsewhere), the operators' type rules, the evaluator of the closed grammar, ``terms``, ``world`` and ``closure``, and
that the cases are enough to tell different sizes apart (they differ on every axis).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from egraph_opt.ir import FLOATS, NUMERIC
from egraph_opt.ops import operator
from egraph_opt.rewrites.prove.closure import Closure
from egraph_opt.rewrites.prove.proof import Axioms, Instance, Justified, Proof, spell_out
from egraph_opt.rewrites.prove.terms import NUMBER, Term, schema, subterms
from egraph_opt.rewrites.prove.world import Untyped, World
from egraph_opt.terms import Equation

CASES = 16
SEED = 1
"""Cases on which proofs are checked; they are found on those of another seed."""
_BREADTH = {"float": 0, "numeric": 1, "any": 2}


class Rejected(Exception):  # noqa: N818 - an answer, not a failure
    """The proof does not show the equation; the message says where it breaks."""


@dataclass(frozen=True)
class Verified:
    """An accepted proof, with how its conditions were justified, and the cases that saw it."""

    proof: Proof
    cases: int


def check(equation: Equation, proof: Proof, axioms: Axioms, *, cases: int = CASES, seed: int = SEED) -> Verified:
    """Accepts a proof, or says why not.

    Raises:
        Rejected: with the step that fails.
    """
    try:
        world = World(equation, cases, seed)
        return _check(equation, proof, axioms, world)
    except Untyped as error:
        raise Rejected(str(error)) from None


def _check(equation: Equation, proof: Proof, axioms: Axioms, world: World) -> Verified:
    closure = Closure(world.key)
    made = schema(equation)
    goal = [(closure.add(a), closure.add(b)) for a, b in zip(made.lhs, made.rhs, strict=True)]
    reasons: list[str] = []
    for instance in proof.instances:
        equalities, found = check_instance(equation, instance, axioms, world)
        reasons += found
        for left, right in equalities:
            closure.merge(closure.add(left), closure.add(right))
    closure.close()
    for (a, b), left, right in zip(goal, made.lhs, made.rhs, strict=True):
        if closure.find(a) != closure.find(b):
            raise Rejected(f"{equation.name}: the instances do not show {left} = {right}")
    counted = Justified(reasons.count("given"), reasons.count("constant"), reasons.count("cases"))
    return Verified(replace(proof, justified=counted), len(world.environments))


def check_instance(
    equation: Equation, instance: Instance, axioms: Axioms, world: World
) -> tuple[tuple[tuple[Term, Term], ...], list[str]]:
    """The equalities of an instance and why each of its conditions holds.

    Raises:
        Rejected: it is no instance, a condition fails, or a term is ill-typed.
    """
    axiom = axioms.get(instance.axiom)
    if axiom is None:
        raise Rejected(f"there is no axiom {instance.axiom}")
    try:
        ground = spell_out(axiom, instance)
    except (ValueError, SyntaxError) as error:
        raise Rejected(str(error)) from None
    reasons = [world.justify(condition) for condition in ground.conditions]
    for condition, reason in zip(ground.conditions, reasons, strict=True):
        if not reason:
            raise Rejected(f"{instance.axiom}: its condition {condition} does not hold")
    for left, right in ground.equalities:
        if world.types(left) != world.types(right):
            raise Rejected(f"{instance.axiom}: {left} and {right} have different types")
    _check_dtypes(equation, axiom, ground.equalities[0][0], world)
    return ground.equalities, reasons


def _check_dtypes(equation: Equation, axiom: Equation, term: Term, world: World) -> None:
    """The axiom must be stated for every dtype for which the equation is: cases are drawn in one of them only."""
    stated = "numeric" if axiom.dtypes == "float" and _is_polynomial(axiom) else axiom.dtypes
    if _BREADTH[stated] < _BREADTH[equation.dtypes]:
        raise Rejected(f"{axiom.name} holds for {stated} dtypes, {equation.name} is for {equation.dtypes}")
    allowed = {"float": FLOATS, "numeric": NUMERIC}.get(stated)
    if allowed is not None and set(world.dtypes(term)) - allowed:
        raise Rejected(f"{axiom.name} holds for {stated} dtypes, {term} is {sorted(world.dtypes(term))}")


def _is_polynomial(axiom: Equation) -> bool:
    """Whether it is made of sums, products and moves alone, and so holds in every commutative ring, that is, for
    integers that wrap around too. ``Fill`` writes its number as a float."""
    heads = {t.head for side in (*schema(axiom).lhs, *schema(axiom).rhs) for t in subterms(side) if not t.is_variable}
    return not axiom.by_definition and all(h not in (NUMBER, "Fill") and operator(h).ring == "exact" for h in heads)
