"""Cases are drawn as conditions say: none is lost that fits, and what conditions leave open still varies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from egraph_opt.ir import TensorType
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.rule import rule
from egraph_opt.terms import Case, check_equation
from egraph_opt.terms.expressions import Environment, Undefined, evaluate
from egraph_opt.terms.facts import facts_of, fitted
from egraph_opt.terms.gates import Gate
from egraph_opt.terms.sampling import Sampler

RULES = {r.name: r for r in all_rules("thorough")}
RARE = (
    "conv-of-groups",
    "gemm-of-column-blocks",
    "matmul-of-inner-blocks-reversed",
    "maxpool-of-max-reversed",
    "conv-and-its-input",
)
"""Rules whose tensors agree in so many sizes that blind draws hardly ever fit."""


def mended(shape: Sequence[int], *when: str, known: Environment | None = None) -> tuple[object, ...]:
    """What becomes of a shape of y under conditions on x, y and an axis."""
    law = rule("r", "Concat(x, y, axis=a)", "Concat(x, y, axis=a)", *when)
    return fitted(tuple(shape), facts_of(law).get("y", ()), known or {}, np.random.default_rng(0))


def cases(name: str, count: int, attempts: int) -> list[Case]:
    """Cases of a rule, those aside that did not come up."""
    sampler, rng = Sampler(RULES[name]), np.random.default_rng(3)
    return [case for case in (sampler.draw(rng, attempts) for _ in range(count)) if case is not None]


def test_a_condition_mends_what_it_speaks_of_and_leaves_the_rest() -> None:
    known: Environment = {"x": TensorType("float64", (2, 3, 5)), "a": 1}
    assert mended((7, 8, 9), "shape(x) == shape(y)", known=known) == (2, 3, 5)
    assert mended((7, 8, 9), "shape(y)[:a] == shape(x)[:a]", known=known) == (2, 8, 9)
    assert mended((7, 8, 9), "shape(x)[a + 1:] == shape(y)[a + 1:]", known=known) == (7, 8, 5)
    assert mended((7, 8, 9), "size(y, -1) == size(x, 0)", known=known) == (7, 8, 2)
    assert mended((7, 8, 9), "rank(y) == 2", known=known) == (8, 9)
    assert mended((7, 8, 9), "shape(y)[2] == 4", known=known) == (7, 8, 4)


def test_a_larger_rank_gets_new_sizes_in_front() -> None:
    made = mended((7,), "rank(y) == 3")
    assert len(made) == 3
    assert made[-1] == 7


def test_what_is_not_known_yet_or_no_size_mends_nothing() -> None:
    assert mended((7, 8), "shape(x) == shape(y)") == (7, 8)
    assert mended((7, 8), "size(y, 0) == a", known={"a": 0}) == (7, 8)
    assert mended((7, 8), "size(y, 5) == 3") == (7, 8)
    assert mended((7, 8), "size(y, 0) >= 3") == (7, 8)
    assert mended((7, 8), "rank(y) == 99") == (7, 8)


@pytest.mark.parametrize("name", ["mul-of-transposes-reversed", "add-of-concats", "conv-beside-larger-kernel"])
def test_what_meets_the_conditions_is_left_as_it_is(name: str) -> None:
    """Blind draws that fit are drawn by the sampler too: mending them changes nothing."""
    law = RULES[name]
    blind, rng = Sampler(dataclasses.replace(law, when=())), np.random.default_rng(5)
    drawn = (blind.draw(rng, 50) for _ in range(1500))
    met = [c for c in drawn if c and all(_holds(condition, c) for condition in law.conditions)]
    assert len(met) > 5
    for case in met:
        for tensor, facts in facts_of(law).items():
            if tensor in case.tensors:
                shape = case.tensors[tensor].shape
                assert fitted(shape, facts, case.environment, rng) == shape


def _holds(condition: str, case: Case) -> bool:
    try:
        return bool(evaluate(condition, case.environment))
    except Undefined:
        return False


@pytest.mark.parametrize("name", RARE)
def test_shapes_that_must_agree_are_found(name: str) -> None:
    found = cases(name, 20, 200)
    assert len(found) > 15
    assert all(_holds(condition, case) for case in found for condition in RULES[name].conditions)


def test_what_conditions_leave_open_varies() -> None:
    found = cases("conv-of-groups", 60, 400)
    assert any(c.tensors["x"].shape[1] != c.tensors["z"].shape[1] for c in found)
    assert any(c.attributes["g"] != c.attributes["h"] for c in found)
    assert len({c.tensors["x"].rank for c in found}) > 1
    products = cases("matmul-of-inner-blocks-reversed", 60, 400)
    assert any(c.tensors["x"].shape[-1] != c.tensors["z"].shape[-1] for c in products)


@pytest.mark.parametrize("name", RARE)
def test_a_rule_that_lacks_a_condition_is_still_refused(name: str) -> None:
    """Mended draws must show what is wrong: without any of its conditions no such rule holds."""
    loose = dataclasses.replace(RULES[name], when=(), float_class="drops-nonfinite")
    assert not check_equation(loose).passed


def test_parts_of_two_ranks_are_drawn_where_only_slices_of_shapes_agree() -> None:
    """Two slices of shapes agree for (2, 2, n) and (2, 2) too; nothing but a condition on ranks keeps those apart."""
    law = RULES["matmul-of-column-blocks-reversed"]
    assert "rank(y) == rank(z)" in law.when
    loose = dataclasses.replace(law, when=tuple(c for c in law.when if c != "rank(y) == rank(z)"))
    types = {
        "x": TensorType("float64", (2, 3, 2)),
        "y": TensorType("float64", (2, 2, 5)),
        "z": TensorType("float64", (2, 2)),
    }
    rng = np.random.default_rng(0)
    case = Sampler(loose, types.keys()).draw(rng, 100, types)
    assert case is not None
    assert not Gate(loose).holds(case, rng)
    assert Sampler(law, types.keys()).draw(rng, 100, types) is None


BESIDE = (
    "matmul-of-batches-reversed",
    "matmul-of-batches-shared-reversed",
    "reducemax-past-blocks-reversed",
    "softmax-of-concat-reversed",
    "slice-of-concat-other-axis-reversed",
)
"""Rules that join what operators of one kind give: blind draws of both sides agree once in hundreds to thousands."""


@pytest.mark.parametrize("name", BESIDE)
def test_operands_that_must_be_alike_are_found(name: str) -> None:
    found = cases(name, 20, 400)
    assert len(found) > 15
    assert all(_holds(condition, case) for case in found for condition in RULES[name].conditions)
    first, *others = RULES[name].tensors
    assert any(case.tensors[first] != case.tensors[other] for case in found for other in others)


@pytest.mark.parametrize("name", [n for n in BESIDE if RULES[n].when])
def test_a_rule_that_joins_too_much_is_still_refused(name: str) -> None:
    """What is drawn alike must also show what is wrong, for each condition that is not said by the types alone."""
    loose = dataclasses.replace(RULES[name], when=(), float_class="drops-nonfinite")
    assert not check_equation(loose).passed


def test_sides_drawn_alike_differ_where_nothing_makes_them_agree() -> None:
    law = rule("r", "Concat(ReduceMax(x, axes=s, keepdims=1), ReduceMax(y, axes=s, keepdims=1), axis=a)", "Relu(x)")
    sampler, rng = Sampler(law), np.random.default_rng(0)
    found = [case for _ in range(60) if (case := sampler.draw(rng)) is not None]
    assert len(found) == 60
    apart = [
        case
        for case in found
        if any(case.tensors["x"].shape[i] != case.tensors["y"].shape[i] for i in case.attributes["s"])  # type: ignore[union-attr]
    ]
    assert 5 < len(apart) < 60
