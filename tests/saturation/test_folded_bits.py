"""Folding gives the same bits however a constant came about: NumPy adds up views in another order than copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egraph_opt.ir import TensorGraph
from egraph_opt.saturation import fold_constants, freeze
from egraph_opt.saturation.engine import Engine
from egraph_opt.saturation.saturate import problem_of

RNG = np.random.default_rng(5)
WEIGHT = RNG.normal(size=(7, 6, 5, 4)).astype(np.float32)
SUMS: dict[str, dict[str, Any]] = {
    "ReduceMean": {"axes": (0, 2, 3), "keepdims": 0},
    "ReduceSum": {"axes": (1, 3), "keepdims": 1},
    "Softmax": {"axis": 1},
}


def turned_then_summed(tools: Any, op: str, source: np.ndarray, perm: tuple[int, ...] | None) -> TensorGraph:
    g = tools.draft()
    x = g.constant(source)
    return g.done(g.op(op, x if perm is None else g.op("Transpose", x, perm=perm), **SUMS[op]))


def in_egraph(graph: TensorGraph) -> np.ndarray:
    frozen = freeze(graph, Engine(problem_of(graph, ())).snapshot(), ())
    return np.asarray(frozen.folder.constant(int(frozen.egraph.roots[0])).load())


def before_saturation(graph: TensorGraph) -> np.ndarray:
    after = fold_constants(graph, everything=True)
    value = after.value(after.outputs[0])
    assert value is not None
    return value


@pytest.mark.parametrize("op", SUMS)
@pytest.mark.parametrize("perm", [(3, 1, 2, 0), (0, 2, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("fold", [in_egraph, before_saturation])
def test_of_a_transposed_weight(tools: Any, op: str, perm: tuple[int, ...], fold: Any) -> None:
    stored = np.ascontiguousarray(WEIGHT.transpose(perm))
    wanted = fold(turned_then_summed(tools, op, stored, None))
    assert fold(turned_then_summed(tools, op, WEIGHT, perm)).tobytes() == wanted.tobytes()
