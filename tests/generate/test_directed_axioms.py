"""Axioms read as rules: which directions there are, what keeps one back, and when it is loaded."""

from __future__ import annotations

import dataclasses

import pytest

from egraph_opt.axioms import axiom
from egraph_opt.rewrites.generate.directed import admitted, directed_axioms, form
from egraph_opt.rewrites.generate.readings import backwards
from egraph_opt.rewrites.library import select_rules
from egraph_opt.rewrites.rule import Rule, rule

DIRECTIONS = {r.name: r for r in directed_axioms()}


def sure(name: str) -> Rule:
    found = admitted(DIRECTIONS[name])
    assert found is not None, name
    return found


def test_a_direction_that_removes_operators_is_for_every_run() -> None:
    assert sure("relu-idempotent").effort == "standard"
    assert sure("matmul-of-sum-right-reversed").effort == "standard"


@pytest.mark.parametrize("name", ["matmul-of-sum-right", "exp-of-sum", "add-associative", "relu-of-concat"])
def test_a_direction_that_enlarges_or_only_moves_is_for_thorough_runs(name: str) -> None:
    assert sure(name).effort == "thorough"


def test_read_backwards_what_is_joined_must_fit() -> None:
    """Forwards, both parts come out of one concatenation; backwards, nothing says that they have one height."""
    backwards = sure("maxpool-of-channels-reversed")
    assert set(backwards.when) > set(DIRECTIONS["maxpool-of-channels-reversed"].when)
    assert any("shape" in c for c in backwards.when)


def test_what_fails_a_gate_is_not_admitted() -> None:
    wrong = dataclasses.replace(DIRECTIONS["relu-idempotent"], rhs=rule("w", "Neg(x)", "Neg(x)").rhs)
    assert admitted(wrong) is None


def test_what_is_true_but_not_provable_is_not_admitted() -> None:
    """No axiom says this of a cosine."""
    true = rule("cosine-is-even", "Cos(Neg(x))", "Cos(x)", float_class="drops-nonfinite")
    assert admitted(dataclasses.replace(true, needs_order=True)) is None


def test_an_axiom_whose_other_side_lacks_a_name_has_one_direction() -> None:
    assert "sub-of-itself" in DIRECTIONS
    assert "sub-of-itself-reversed" not in DIRECTIONS


def test_what_the_other_side_computes_is_named_and_what_it_leaves_out_is_solved_for() -> None:
    law = axiom("l", "MatMul(x, Concat(y, z, axis=a))", "Concat(MatMul(x, y), MatMul(x, z), axis=rank(out) - 1)",
                "a == rank(y) - 1")  # fmt: skip
    read = backwards(law)
    assert [str(p) for p in (*read.lhs, *read.rhs)] == [
        "Concat(MatMul(x, y), MatMul(x, z), axis=axis0)",
        "MatMul(x, Concat(y, z, axis=rank(y) - 1))",
    ]
    assert read.when == ("axis0 == rank(out) - 1",)


def test_a_definition_may_read_another_and_conditions_see_both() -> None:
    law = axiom("l", "Pad(Transpose(x, perm=p), pads=q, mode='constant', value=0.0)", "Relu(x)",
                "q == p + p", "p == range(rank(x))", "length(q) > 2")  # fmt: skip
    read = backwards(law)
    assert "perm=range(rank(x)), pads" not in str(read.rhs[0])
    assert "pads=range(rank(x)) + range(rank(x))" in str(read.rhs[0])
    assert read.when == ("length(range(rank(x)) + range(rank(x))) > 2",)


def test_one_computed_attribute_has_one_name() -> None:
    read = backwards(axiom("l", "Neg(x)", "Add(Slice(x, axes=(1 + 1,), starts=(0,), ends=(size(x, 0),), steps=(1,)),"
                           " Slice(x, axes=(0,), starts=(0,), ends=(size(x, 0),), steps=(1,)))"))  # fmt: skip
    assert str(read.lhs[0]).count("ends=ends0") == 2
    assert "ends0 == (size(x, 0),)" in read.when


def test_products_that_are_joined_become_one() -> None:
    """The axis of the joined weights is not in the left side: the axiom's condition says what it is."""
    assert sure("matmul-of-column-blocks-reversed").effort == "standard"
    assert sure("matmul-of-inner-blocks-reversed").effort == "thorough"


def test_conditions_are_learned_where_nothing_is_joined() -> None:
    assert DIRECTIONS["mul-of-transposes-reversed"].when == ()
    assert sure("mul-of-transposes-reversed").when == ("rank(x) == rank(y)",)


def test_another_operator_in_reshapes_is_no_invention() -> None:
    assert sure("conv-is-matmul").effort == "thorough"
    assert "conv-halves-groups" not in DIRECTIONS


def test_rules_that_differ_in_names_have_one_form() -> None:
    one = rule("a", "Add(Transpose(x, perm=p), y)", "Add(y, Transpose(x, perm=p))")
    other = rule("b", "Add(Transpose(u, perm=q), v)", "Add(v, Transpose(u, perm=q))")
    swapped = rule("c", "Add(Transpose(u, perm=q), v)", "Add(Transpose(u, perm=q), v)")
    assert form(one) == form(other) != form(swapped)


def test_effort_chooses_what_loads() -> None:
    rules = (sure("relu-idempotent"), sure("relu-of-concat"))
    assert select_rules(rules) == rules[:1]
    assert select_rules(rules, effort="thorough") == rules
    assert select_rules(rules, only=["relu-of-concat"]) == rules[1:]
