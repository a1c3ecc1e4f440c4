"""The generator on small worlds: what it finds is true, general, minimal, and the same every time."""

from __future__ import annotations

import dataclasses

import pytest

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
from egraph_opt.rewrites.generate.worlds import ALGEBRA, DENSE_CONVOLUTION, MATRIX, World
from egraph_opt.terms import Equation, check_equation, parse, sides

SMALL = dataclasses.replace(DENSE_CONVOLUTION, operators=2)
MOVES = dataclasses.replace(
    ALGEBRA,
    forms=tuple(f for f in ALGEBRA.forms if f.text.split("(")[0] in ("Relu", "Transpose", "Concat", "Add")),
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


def test_raw_candidates_have_the_larger_side_left() -> None:
    found = Enumeration(SMALL).run()
    for candidate in raw_candidates(found):
        ((left, right),) = candidate.roots
        assert count_operators(left) >= count_operators(right)
        assert left != right
