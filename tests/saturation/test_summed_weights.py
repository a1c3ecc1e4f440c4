"""Sums of weights that cancel: held against the largest of what a product adds up, and not element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egraph_opt.rewrites.library import all_rules
from egraph_opt.saturation import saturate

RNG = np.random.default_rng(0)
ATTRS = dict(strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), group=1)


def _folds(graph: Any, op: str, tools: Any) -> bool:
    """Whether the two products of the graph become one."""
    rules = [
        r for r in all_rules() if r.name == "sum-of-convs" or "sum-of-weights" in r.name or r.family == "add-matmul"
    ]
    best = tools.cheapest(saturate(graph, rules).frozen, {op: 10.0})
    return tools.operators(best).count(op) == 1


def _convs(tools: Any, first: Any, second: Any) -> Any:
    g = tools.draft()
    x = g.input("x", 1, 4, 5, 5)
    return g.done(g.op("Add", *(g.op("Conv", x, g.constant(w), **ATTRS) for w in (first, second))))


def _products(tools: Any, first: Any, second: Any) -> Any:
    g = tools.draft()
    x = g.input("x", 2, 4)
    return g.done(g.op("Add", *(g.op("MatMul", x, g.constant(w)) for w in (first, second))))


@pytest.mark.parametrize(("build", "op", "shape"), [(_convs, "Conv", (3, 4, 3, 3)), (_products, "MatMul", (4, 3))])
def test_one_weight_that_cancels_is_no_loss(build: Any, op: str, shape: tuple[int, ...], tools: Any) -> None:
    first, second = RNG.normal(size=shape), RNG.normal(size=shape)
    second.flat[0] = -first.flat[0]
    assert _folds(build(tools, first, second), op, tools)


@pytest.mark.parametrize(
    ("build", "op", "shape", "place"),
    [(_convs, "Conv", (3, 4, 3, 3), np.s_[1]), (_products, "MatMul", (4, 3), np.s_[:, 1])],
)
def test_all_weights_of_one_output_are(build: Any, op: str, shape: tuple[int, ...], place: Any, tools: Any) -> None:
    first, second = RNG.normal(size=shape), RNG.normal(size=shape)
    second[place] = -first[place] * (1 + 1e-5)
    assert not _folds(build(tools, first, second), op, tools)


def test_a_sum_that_is_an_output_as_well_counts_by_element(tools: Any) -> None:
    first, second = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
    second[0, 0] = -first[0, 0]
    g = tools.draft()
    x, z = g.input("x", 2, 4), g.input("z", 4, 3)
    a, b = g.constant(first), g.constant(second)
    product = g.op("Add", g.op("MatMul", x, a), g.op("MatMul", x, b))
    frozen = saturate(g.done(product, g.op("Add", g.op("Add", z, a), b)), all_rules()).frozen
    assert frozen.folder.refused
