"""Attention and rotary embeddings as one operator are, for the executor, operators that it has kernels for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egraph_opt.ir import TensorGraph
from egraph_opt.ops import operator
from egraph_opt.runtime.cuda.lower import lowered


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("op", "attrs"), [
    ("Attention", [None, None, 0, None]), ("Attention", [None, None, 1, None]), ("RotaryEmbedding", [None, 0]),
    ("RotaryEmbedding", [None, 1]),
])  # fmt: skip
def test_it_is_spelled_out(seed: int, op: str, attrs: list[Any]) -> None:
    declared, rng = operator(op), np.random.default_rng(seed)
    sample = next(s for _ in range(50) if (s := declared.complete(rng, attrs, [None] * 3)))
    graph = TensorGraph()
    inputs = [graph.add("Input", (n,), (), t) for n, t in zip("qkv", sample.types, strict=True)]
    graph.outputs = (graph.add(op, sample.attrs, inputs, declared.infer(sample.attrs, sample.types)),)
    feeds = {n: rng.standard_normal(t.numbers()) for n, t in zip("qkv", sample.types, strict=True)}
    new = lowered(graph)
    assert op not in {node.op for node in new.nodes}
    assert new.types[new.outputs[0]] == graph.types[graph.outputs[0]]
    np.testing.assert_allclose(value(new, feeds), value(graph, feeds), rtol=1e-9, atol=1e-12)


def value(graph: TensorGraph, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The first output."""
    values: dict[int, np.ndarray] = {}
    for index in graph.live():
        node = graph.nodes[index]
        if node.op == "Const":
            values[index] = np.asarray(graph.value(index))
        elif node.op == "Input":
            values[index] = feeds[str(node.attrs[0])]
        else:
            found = operator(node.op).evaluate(node.attrs, [values[i] for i in node.operands])
            assert not isinstance(found, tuple)
            values[index] = found
    return values[graph.outputs[0]]
