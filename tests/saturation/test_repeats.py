"""E-nodes that extraction need not choose between: one of each kind is left, and the best graph stays as good."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from egraph_opt.rewrites.library import all_rules
from egraph_opt.saturation import saturate
from egraph_opt.saturation.enodes import ENode
from egraph_opt.saturation.repeats import without_repeats

RNG = np.random.default_rng(0)
ATTRS = dict(strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1)


def _kept(*enodes: ENode, own: tuple[int, ...] = (), stored: tuple[int, ...] = (1, 2, 3, 4)) -> list[int]:
    """Classes below 9 are of one type."""
    keys = [(e.op, repr(e.attrs), e.operands) for e in enodes]
    types = {cls: int(cls >= 9) for cls in range(12)}
    return without_repeats(enodes, keys, range(len(enodes)), own, set(stored), types)


def _conv(*operands: int, attrs: tuple[int, ...] = (), cls: int = 20) -> ENode:
    return ENode("Conv", attrs, operands, cls)


def test_of_stored_weights_of_one_type_the_first_is_left() -> None:
    assert _kept(_conv(0, 1, 2), _conv(0, 3, 2), _conv(0, 1, 4), _conv(5, 3, 2)) == [0, 3]


def test_what_differs_in_more_than_stored_weights_is_left() -> None:
    first = _conv(0, 1)
    others = (_conv(0, 9), _conv(0, 1, 2), _conv(0, 2, attrs=(1,)), _conv(0, 2, cls=21), _conv(6, 2))
    assert _kept(first, *others, stored=(1, 2, 9)) == [0, 1, 2, 3, 4, 5]


def test_weights_that_are_not_stored_take_no_place() -> None:
    assert _kept(_conv(0, 1), _conv(0, 2), _conv(0, 3), stored=(2, 3)) == [0, 1]


def test_the_graph_s_own_are_all_left() -> None:
    assert _kept(_conv(0, 1), _conv(0, 2), _conv(0, 3), own=(1, 2)) == [1, 2]
    swapped = (ENode("Add", (), (0, 5), 20), ENode("Add", (), (5, 0), 20))
    assert _kept(*swapped) == [0]
    assert _kept(*swapped, own=(0, 1)) == [0, 1]


def test_operands_of_other_operators_are_no_weights() -> None:
    assert _kept(ENode("Sub", (), (0, 1), 20), ENode("Sub", (), (0, 2), 20)) == [0, 1]


def test_factors_around_a_convolution_fold_into_one(tools: Any) -> None:
    g = tools.draft()
    x = g.input("x", 1, 4, 5, 5)
    for _ in range(2):
        x = g.op("Mul", x, g.constant(RNG.uniform(1, 2, size=(4, 1, 1))))
    x = g.op("Conv", x, g.constant(RNG.normal(size=(3, 4, 3, 3))), g.constant(RNG.normal(size=3)), **ATTRS)
    for _ in range(2):
        x = g.op("Mul", x, g.constant(RNG.uniform(1, 2, size=(3, 1, 1))))
        x = g.op("Add", x, g.constant(RNG.uniform(1, 2, size=(3, 1, 1))))
    graph = g.done(x)
    frozen = saturate(graph, all_rules()).frozen

    convs = [e for e in frozen.enodes if e.op == "Conv"]
    kinds = Counter((e.cls, e.attrs, e.operands[0], len(e.operands)) for e in convs)
    assert len(convs) > 5
    assert set(kinds.values()) == {1}
    used = {*frozen.original, *(cls for e in frozen.enodes for cls in e.operands)}
    assert {e.cls for e in frozen.enodes if e.op == "Const"} <= used
    best = tools.cheapest(frozen, {})
    assert tools.operators(best) == ["Conv"]
    feeds = {"x": RNG.normal(size=(1, 4, 5, 5)).astype(np.float32)}
    tools.same(tools.values(best, feeds), tools.values(graph, feeds), 1e-4)
