"""The checker of proofs believes nothing: tampered proofs are rejected, and it says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from egraph_opt.axioms import all_axioms, axiom
from egraph_opt.rewrites.prove import Instance, Proof, Rejected, attempt, check
from egraph_opt.rewrites.prove.canaries import goal, sung, trap_works
from egraph_opt.rewrites.prove.proof import by_name
from egraph_opt.rewrites.prove.records import Recorded, read, write
from egraph_opt.rewrites.prove.steps import Chains
from egraph_opt.rewrites.prove.terms import parse_term

AXIOMS = (
    axiom("add-turns", "Add(x, y)", "Add(y, x)"),
    axiom("add-zero", "Add(x, 0)", "x", "shape(out) == shape(x)"),
    axiom("relu-of-concat", "Relu(Concat(x, y, axis=a))", "Concat(Relu(x), Relu(y), axis=a)"),
    axiom("linear", "MatMul(x, Add(y, z))", "Add(MatMul(x, y), MatMul(x, z))", "shape(y) == shape(z)"),
    axiom("cast-nothing", "Cast(x, to=t)", "x", "dtype(x) == t", dtypes="any"),
)
TABLE = by_name(AXIOMS)
GOAL = goal("linear-backwards", "Add(MatMul(x, z), MatMul(x, y))", "MatMul(x, Add(y, z))", "shape(y) == shape(z)")
ZERO = goal("zero-first", "Relu(Add(0, x))", "Relu(x)", "shape(out) == shape(x)")


def proof_of_goal() -> Proof:
    found = attempt(GOAL, AXIOMS).proof
    assert found is not None
    return found


def changed(proof: Proof, index: int, **binding: str) -> Proof:
    """The proof with other terms in one of its instances."""
    old = proof.instances[index]
    new = Instance(old.axiom, tuple(sorted({**dict(old.binding), **binding}.items())))
    return replace(proof, instances=(*proof.instances[:index], new, *proof.instances[index + 1 :]))


def test_what_was_found_is_accepted_and_says_how_conditions_hold() -> None:
    verified = check(GOAL, proof_of_goal(), TABLE)
    assert verified.proof.axioms == ("add-turns", "linear")
    assert verified.proof.justified.given == 1
    assert verified.cases > 8


def test_a_missing_instance_is_noticed() -> None:
    proof = proof_of_goal()
    for index in range(len(proof.instances)):
        fewer = replace(proof, instances=(*proof.instances[:index], *proof.instances[index + 1 :]))
        with pytest.raises(Rejected, match="do not show"):
            check(GOAL, fewer, TABLE)


def test_another_term_in_an_instance_is_noticed() -> None:
    proof = proof_of_goal()
    index = next(i for i, instance in enumerate(proof.instances) if instance.axiom == "linear")
    with pytest.raises(Rejected):
        check(GOAL, changed(proof, index, z="x"), TABLE)


def test_a_goal_without_its_condition_is_not_shown_by_the_same_proof() -> None:
    bare = goal("linear-anywhere", "Add(MatMul(x, z), MatMul(x, y))", "MatMul(x, Add(y, z))")
    with pytest.raises(Rejected):
        check(bare, proof_of_goal(), TABLE)
    assert attempt(bare, AXIOMS).proof is None


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        (Instance("no-such-axiom", (("x", "x"),)), "there is no axiom"),
        (Instance("add-turns", (("x", "x"),)), "has the variables"),
        (Instance("add-turns", (("x", "x"), ("y", "y"), ("z", "z"))), "has the variables"),
        (Instance("add-turns", (("x", "x"), ("y", "x + y"))), "no term"),
        (Instance("add-turns", (("x", "x"), ("y", "("))), "was never closed"),
        (Instance("add-turns", (("x", "x"), ("y", "nowhere"))), "no tensor"),
        (Instance("linear", (("x", "x"), ("y", "y"), ("z", "x"))), "does not hold"),
    ],
    ids=str,
)
def test_what_is_no_instance_is_rejected(instance: Instance, message: str) -> None:
    proof = proof_of_goal()
    with pytest.raises(Rejected, match=message):
        check(GOAL, replace(proof, instances=(*proof.instances, instance)), TABLE)


def test_a_wrong_axiom_by_the_right_name_is_noticed() -> None:
    other = {**TABLE, "add-turns": axiom("add-turns", "Mul(x, y)", "Mul(y, x)")}
    with pytest.raises(Rejected):
        check(GOAL, proof_of_goal(), other)


def test_an_axiom_of_floats_shows_nothing_for_every_dtype() -> None:
    wide = replace(goal("relu-joined", "Relu(Concat(x, y, axis=a))", "Concat(Relu(x), Relu(y), axis=a)"), dtypes="any")
    instance = Instance("relu-of-concat", (("a", "a"), ("x", "x"), ("y", "y")))
    with pytest.raises(Rejected, match="dtypes"):
        check(wide, Proof(wide.name, (instance,)), TABLE)


def test_literals_of_different_shapes_are_different() -> None:
    proof = attempt(ZERO, AXIOMS).proof
    assert proof is not None
    index = next(i for i, instance in enumerate(proof.instances) if instance.axiom == "add-zero")
    scalar = changed(proof, index, _n0="()")
    with pytest.raises(Rejected):  # a zero without axes in place of one of any shape
        check(ZERO, scalar, TABLE)


def test_the_same_proof_twice(tmp_path: Path) -> None:
    for name in ("first", "second"):
        result = attempt(GOAL, AXIOMS)
        assert result.proof is not None
        write([Recorded("f", result.proof, result.core)], tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert read(tmp_path / "first")["f"].proof == proof_of_goal()


def test_steps_lead_from_left_to_right() -> None:
    (chain,) = Chains(GOAL, proof_of_goal(), TABLE).roots()
    assert str(chain[0]) == "Add(MatMul(x, z), MatMul(x, y))"
    assert str(chain[-1].term) == "MatMul(x, Add(y, z))"
    assert [step.axiom for step in chain[1:]].count("linear") == 1


def test_terms_survive_writing() -> None:
    text = "Get(Split(Concat(x, y, axis=size(x, 0)), axis=a, sizes=(size(Relu(x), a), 2)), index=0)"
    assert str(parse_term(text)) == text
    with pytest.raises(ValueError, match="takes the attributes"):
        parse_term("Concat(x, y)")


def test_canaries_stay_silent_and_the_trap_is_seen() -> None:
    axioms = tuple(a for a in all_axioms() if a.family in ("joining", "products", "elementwise"))
    names = ("Relu", "Clip", "Neg", "Exp", "Log", "Sqrt", "Abs", "Erf", "Tanh")
    few = tuple(a for a in axioms if not any(n in a.equation for n in names))
    assert sung(few) == []
    assert trap_works(few)
