"""Constants made by rules stay finite: what overflows in advance need not while the model runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egraph_opt.ir import TensorGraph
from egraph_opt.rewrites.library import all_rules
from egraph_opt.saturation import Frozen, freeze
from egraph_opt.saturation.engine import Engine
from egraph_opt.saturation.saturate import problem_of

MANY = np.array([1e-30, 1.0, -2.0], np.float32)


def grown(graph: TensorGraph) -> Frozen:
    engine = Engine(problem_of(graph, all_rules()))
    for number in range(5):
        engine.iterate(merge=number == 0)
    return freeze(graph, engine.snapshot(), all_rules())


def made(frozen: Frozen) -> list[np.ndarray]:
    """Values of all constants that extraction may store."""
    return [np.asarray(frozen.folder.constant(e.cls).load()) for e in frozen.enodes if e.op == "Const"]


def root_operators(frozen: Frozen) -> list[str]:
    return sorted({e.op for e in frozen.enodes if e.cls in frozen.egraph.roots})


def scaled_twice(tools: Any, first: Any, second: Any) -> TensorGraph:
    g = tools.draft()
    inner = g.op("Mul", g.input("x", 3), g.constant(first))
    return g.done(g.op("Mul", inner, g.constant(second)))


@pytest.mark.parametrize(("first", "second"), [(1e30, 1e30), (np.inf, 0.0), (0.0, np.nan), (MANY * 1e30, 1e20)])
def test_products_that_are_no_numbers_are_not_made(tools: Any, first: Any, second: Any) -> None:
    frozen = grown(scaled_twice(tools, first, second))
    given = [np.asarray(first, np.float32), np.asarray(second, np.float32)]
    for value in made(frozen):
        known = any(v.shape == value.shape and np.array_equal(v, value, equal_nan=True) for v in given)
        assert known or np.isfinite(value).all(), value
    # and they are not computed while the model runs either
    constant = {e.cls for e in frozen.enodes if e.op == "Const"}
    assert not [e for e in frozen.enodes if e.op == "Mul" and constant.issuperset(e.operands)]


def test_ordinary_products_still_are(tools: Any) -> None:
    frozen = grown(scaled_twice(tools, 3.0, MANY))
    assert any(np.array_equal(value, MANY * 3) for value in made(frozen))


@pytest.mark.parametrize("spoiled", ["scale", "bias", "mean", "variance"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_batch_normalization_with_such_a_weight_stays_as_it_is(tools: Any, spoiled: str, value: float) -> None:
    rng = np.random.default_rng(0)
    weights = {n: rng.random(2).astype(np.float32) + 1 for n in ("scale", "bias", "mean", "variance")}
    weights[spoiled][0] = value
    filters = rng.random((2, 3, 1)).astype(np.float32)
    filters[0] = 0
    g = tools.draft()
    strided = dict(strides=(1,), pads=(0, 0), dilations=(1,), group=1)
    y = g.op("Conv", g.input("x", 1, 3, 4), g.constant(filters), **strided)
    graph = g.done(g.op("BatchNormalization", y, *(g.constant(w) for w in weights.values()), epsilon=1e-5))
    frozen = grown(graph)
    assert root_operators(frozen) == ["BatchNormalization"]


def test_a_mask_of_infinities_still_moves(tools: Any) -> None:
    mask = np.where(np.arange(6).reshape(2, 3) % 2, -np.inf, 0).astype(np.float32)
    g = tools.draft()
    turned = g.op("Transpose", g.op("Add", g.input("x", 2, 3), g.constant(mask)), perm=(1, 0))
    frozen = grown(g.done(turned))
    assert any(value.shape == (3, 2) and np.array_equal(value, mask.T) for value in made(frozen))
    assert "Add" in root_operators(frozen)


def test_sums_that_cancel_are_not_computed_while_the_model_runs_either(tools: Any) -> None:
    g = tools.draft()
    inner = g.op("Add", g.input("x", 4, 3), g.constant(np.float32(1e8)))
    frozen = grown(g.done(g.op("Add", inner, g.constant(np.full(3, -1e8, np.float32)))))
    constant = {e.cls for e in frozen.enodes if e.op == "Const"}
    assert not [e for e in frozen.enodes if e.op == "Add" and constant.issuperset(e.operands)]
