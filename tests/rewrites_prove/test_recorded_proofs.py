"""Recorded proofs hold without Z3; a proof that was tampered with does not; nothing false is provable."""

from __future__ import annotations

import dataclasses

import pytest

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.library import all_rules, generated_rules
from egraph_opt.rewrites.prove import Rejected, check, prove
from egraph_opt.rewrites.prove.canaries import CANARIES
from egraph_opt.rewrites.prove.proof import by_name
from egraph_opt.rewrites.prove.shipped import recheck
from egraph_opt.rewrites.validation import effective_status, proof_of
from egraph_opt.terms import Equation

PROVED = [rule for rule in all_rules("thorough") if proof_of(rule) is not None]


def test_every_generated_rule_is_proved() -> None:
    assert generated_rules()
    for rule in generated_rules():
        assert effective_status(rule) == "proved", rule.name
        assert not rule.by_definition or rule.needs_order


def test_a_generated_rule_that_only_says_so_is_not_proved() -> None:
    rule = generated_rules()[0]
    assert effective_status(dataclasses.replace(rule, when=("rank(out) == 2",))) == "unproved"


def test_most_rules_are_proved() -> None:
    assert len(PROVED) >= 0.8 * len(all_rules("thorough"))


@pytest.mark.parametrize("rule", PROVED, ids=lambda r: r.name)
def test_recorded_proof_holds(rule: Rule) -> None:
    assert recheck(rule) == ""


@pytest.mark.parametrize("rule", PROVED[::12], ids=lambda r: r.name)
def test_a_proof_without_its_first_instance_is_rejected(rule: Rule) -> None:
    proof = proof_of(rule)
    assert proof is not None
    short = dataclasses.replace(proof, instances=proof.instances[1:])
    with pytest.raises(Rejected):
        check(rule, short, by_name(all_axioms()))


def test_a_proof_of_another_rule_is_rejected() -> None:
    first, second = (next(r for r in PROVED if r.name == n) for n in ("mul-constants", "transpose-of-transpose"))
    proof = proof_of(second)
    assert proof is not None
    with pytest.raises(Rejected):
        check(first, proof, by_name(all_axioms()))


@pytest.mark.parametrize("canary", CANARIES[:6], ids=lambda c: c.name)
def test_canaries_are_not_provable(canary: Equation) -> None:
    assert prove(canary, all_axioms()) is None
