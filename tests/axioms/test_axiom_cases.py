"""The enumeration finds every case of the space, each once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from egraph_opt.axioms import all_axioms, axiom
from egraph_opt.axioms.choices import cases_of
from egraph_opt.axioms.space import FULL, TINY, Space


def test_a_matrix_product_has_every_size() -> None:
    three = axiom(
        "m", "MatMul(MatMul(x, y), z)", "MatMul(x, MatMul(y, z))", "rank(x) == 2", "rank(y) == 2", "rank(z) == 2"
    )
    shapes = {tuple(t.shape for t in case.tensors.values()) for case in cases_of(three, FULL)}
    expected = {((a, b), (b, c), (c, d)) for a, b, c, d in itertools.product(range(1, 5), repeat=4)}
    assert shapes == expected


def test_a_convolution_meets_the_whole_space() -> None:
    space = Space(kernels=((1,), (2,), (3,)))
    walk = cases_of(next(a for a in all_axioms() if a.name == "conv-of-sum-of-inputs"), space)
    cases = list(walk)
    assert walk.stacks
    assert {c.attributes["c_strides"] for c in cases} == {(1,), (2,)}
    assert {c.attributes["c_dilations"] for c in cases} == {(1,), (2,)}
    assert {c.attributes["c_group"] for c in cases} == {1, 2, 3, 4}
    assert {c.tensors["z"].shape[2] for c in cases} == {1, 2, 3}
    assert {c.tensors["x"].shape[1:] for c in cases} == set(itertools.product(range(1, 5), repeat=2))
    assert {c.tensors["x"].shape[0] for c in cases} == {1 + 2 + 3 + 4}
    assert len({c.attributes["c_pads"] for c in cases}) > len(space.pads)


@pytest.mark.parametrize(
    "name", ["conv-of-groups", "matmul-of-inner-blocks", "slice-of-concat-first", "add-commutative"]
)
def test_no_case_comes_twice(name: str) -> None:
    found = next(a for a in all_axioms() if a.name == name)
    cases = [str(case) for case in cases_of(found, TINY)]
    assert cases
    assert len(set(cases)) == len(cases)


def test_a_sample_is_part_of_the_space_and_repeats_for_a_seed() -> None:
    found = next(a for a in all_axioms() if a.name == "matmul-of-column-blocks")
    every = {str(case) for case in cases_of(found, TINY)}
    samples = [[str(c) for c in cases_of(found, TINY, np.random.default_rng(3)).sample(20)] for _ in range(2)]
    assert samples[0] == samples[1]
    assert set(samples[0]) <= every
    assert len(set(samples[0])) == len(samples[0])
