"""The generator on small worlds: what it finds is true, general, minimal, and the same every time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites.artefact import rules_from_text, rules_to_text
from egraph_opt.rewrites.generate.candidates import (
    Candidate,
    count_operators,
    raw_candidates,
    renamed,
    shares_a_subterm,
)
from egraph_opt.rewrites.generate.conditions import learn_conditions
from egraph_opt.rewrites.generate.enumerate import Enumeration
from egraph_opt.rewrites.generate.generate import Generation, generate
from egraph_opt.rewrites.generate.prune import is_instance
from egraph_opt.rewrites.generate.ship import withheld
from egraph_opt.rewrites.generate.worlds import ALGEBRA, DENSE_CONVOLUTION, MATRIX, PARTS, World
from egraph_opt.rewrites.prove import prove
from egraph_opt.terms import Equation, check_equation, parse, sides

SMALL = dataclasses.replace(DENSE_CONVOLUTION, operators=2)
MOVES = dataclasses.replace(
    ALGEBRA,
    forms=tuple(f for f in ALGEBRA.forms if f.text.split("(")[0] in ("Relu", "Transpose", "Concat")),
)


@pytest.fixture(scope="module")
def moves() -> Generation:
    return generate([MOVES])


def test_what_is_generated_passes_the_gates_with_another_seed(moves: Generation) -> None:
    assert moves.rules
    for rule in moves.rules:
        verdict = check_equation(rule, seed=11, cases=25)
        assert verdict.passed, verdict.reason


def test_known_laws_are_found(moves: Generation) -> None:
    equations = {r.equation for r in moves.rules}
    assert "Transpose(Relu(x), perm=p) => Relu(Transpose(x, perm=p))" in equations
    assert "Concat(Relu(x), Relu(y), axis=a) => Relu(Concat(x, y, axis=a))" in equations
    assert any(e.startswith("Concat(x, Concat(y, z, axis=a), axis=a) => ") for e in equations)


def test_the_same_seed_gives_the_same_text(moves: Generation) -> None:
    text = rules_to_text(moves.rules)
    assert rules_to_text(generate([MOVES]).rules) == text
    assert rules_to_text(rules_from_text(text, "itself")) == text


def test_stages_only_shrink(moves: Generation) -> None:
    (counts,) = moves.stages
    order = [counts.equal, counts.renamed, counts.independent, counts.general, counts.conditions]
    order += [counts.underivable, counts.gated, counts.minimal]
    assert order == sorted(order, reverse=True)
    assert counts.minimal == len(moves.rules)


def test_one_representative_per_value() -> None:
    found = Enumeration(SMALL).run()
    terms = [t for level in found.levels for t in level]
    assert len({t.key for t in terms}) == len(terms) == len(found.classes)
    for known, other in found.equal:
        assert known.key == other.key
        assert known.pattern != other.pattern


def _candidate(world: World, left: str, right: str) -> Candidate:
    return Candidate(world.name, ((parse(left), parse(right)),))


def test_an_instance_needs_the_conditions_of_the_general_law() -> None:
    general = Equation("g", sides("Transpose(Transpose(x, perm=p), perm=p)"), sides("x"), ("p == (1, 0)",))
    special = _candidate(MATRIX, "Transpose(Transpose(Add(x, y), perm=p), perm=p)", "Add(x, y)")
    assert not is_instance(special, MATRIX, [general])  # the second assignment has three axes
    always = dataclasses.replace(general, when=("shape(out) == shape(x)",))
    assert is_instance(special, MATRIX, [always])
    assert not is_instance(_candidate(MATRIX, "Transpose(x, perm=p)", "x"), MATRIX, [always])


def test_renaming_and_common_subterms() -> None:
    one, two = (_candidate(MATRIX, f"Add({a}, {b})", f"Add({b}, {a})") for a, b in ("zy", "xu"))
    assert renamed(one, MATRIX) == renamed(two, MATRIX)
    assert shares_a_subterm(_candidate(MATRIX, "Add(Relu(x), y)", "Add(y, Relu(x))"))
    assert not shares_a_subterm(one)


@pytest.mark.parametrize(
    ("left", "right", "needed"),
    [
        (
            "Concat(Conv(x, w, **c), Conv(x, v, **c), axis=1)",
            "Conv(x, Concat(w, v, axis=0), **c)",
            {"c_group == 1", "shape(w)[1:] == shape(v)[1:]"},
        ),
        ("Add(MatMul(x, y), MatMul(x, z))", "MatMul(x, Add(y, z))", None),
        ("Transpose(Relu(x), perm=p)", "Relu(Transpose(x, perm=p))", set()),
    ],
)
def test_conditions_are_learned(left: str, right: str, needed: set[str] | None) -> None:
    equation = Equation("e", sides(left), sides(right), float_class="drops-nonfinite")
    learned = learn_conditions(equation)
    assert learned.when is not None
    if needed is not None:
        assert set(learned.when) == needed
    assert check_equation(dataclasses.replace(equation, when=learned.when), seed=3).passed


def test_an_equation_that_never_holds_has_no_conditions() -> None:
    wrong = Equation("w", sides("Add(x, Add(x, x))"), sides("Add(x, x)"))
    learned = learn_conditions(wrong, cases=40)
    assert learned.when is None
    assert learned.positive == 0


def test_what_ships_is_proved_and_tidy(moves: Generation) -> None:
    assert moves.shipped
    for rule in moves.shipped:
        assert rule.status == "proved"
        assert prove(rule, all_axioms(), z3=False) is not None, rule.equation
        assert withheld(rule) == ""
    assert {r.equation for r in moves.unproved}.isdisjoint(r.equation for r in moves.shipped)


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        ("Add(Add(x, y), z)", "Add(x, Add(y, z))", "it reorders"),
        ("Sub(x, Add(y, z))", "Sub(Sub(x, y), z)", "it regroups arithmetic"),
        ("MatMul(MatMul(x, y), z)", "MatMul(x, MatMul(y, z))", ""),
        ("Relu(Transpose(x, perm=p))", "Transpose(Relu(x), perm=p)", ""),
        ("Relu(Concat(x, y, axis=a))", "Concat(Relu(x), Relu(y), axis=a)", "it adds operators"),
        ("Concat(Add(x, y), Add(z, u), axis=a)", "Add(Concat(x, z, axis=a), Concat(y, u, axis=a))", "it adds a Concat"),
        ("MatMul(x, Add(y, y))", "MatMul(Add(x, x), y)", "it is a special case"),
    ],
)
def test_the_policy(left: str, right: str, reason: str) -> None:
    assert withheld(Equation("e", sides(left), sides(right))) == reason


def test_a_run_that_was_killed_goes_on_and_processes_do_not_change_the_rules(tmp_path: Path) -> None:
    small = dataclasses.replace(MOVES, operators=2)
    worlds = [small, dataclasses.replace(SMALL, after=(), operators=1)]
    whole = generate([small], work=tmp_path)
    kept = {p: p.stat().st_mtime_ns for p in tmp_path.iterdir()}
    assert len(kept) == 1
    again = generate(worlds, work=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert all(p.stat().st_mtime_ns == changed for p, changed in kept.items())
    assert [r.equation for r in again.rules][: len(whole.rules)] == [r.equation for r in whole.rules]
    assert rules_to_text(generate(worlds, jobs=2).rules) == rules_to_text(again.rules)


def test_parts_of_a_join_are_found() -> None:
    forms = tuple(f for f in PARTS.forms if f.text.split("(")[0] in ("Get", "Concat"))
    small = dataclasses.replace(PARTS, operators=2, forms=forms)
    equations = {r.equation for r in generate([small]).shipped}
    assert "Get(Split(Concat(x, y, axis=a), axis=a, sizes=s), index=1) => y" in equations


def test_raw_candidates_have_the_larger_side_left() -> None:
    found = Enumeration(SMALL).run()
    for candidate in raw_candidates(found):
        ((left, right),) = candidate.roots
        assert count_operators(left) >= count_operators(right)
        assert left != right
