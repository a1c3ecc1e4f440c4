"""The shipped rules and their recorded proofs: made again with Z3, or checked without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites.prove.check import Rejected, check
from egraph_opt.rewrites.prove.find import Attempt, attempt
from egraph_opt.rewrites.prove.proof import by_name
from egraph_opt.rewrites.prove.steps import Chains, Step
from egraph_opt.rewrites.rule import Rule
from egraph_opt.rewrites.validation import proof_of


def attempts(rules: Sequence[Rule]) -> Iterator[tuple[Rule, Attempt]]:
    """Tries to prove each rule, with Z3. Definitions are tried as well: many follow from simpler definitions."""
    for rule in rules:
        yield rule, attempt(rule, all_axioms())


def recheck(rule: Rule) -> str:
    """Why the recorded proof of a rule does not hold; empty if it does, or if there is none. No Z3."""
    proof = proof_of(rule)
    if proof is None:
        return ""
    try:
        check(rule, proof, by_name(all_axioms()))
    except Rejected as error:
        return str(error)
    return ""


def chains(rule: Rule) -> list[list[Step]]:
    """The recorded proof of a rule in steps, one chain a root."""
    proof = proof_of(rule)
    return Chains(rule, proof, by_name(all_axioms())).roots() if proof is not None else []
