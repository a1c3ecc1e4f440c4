"""Small tensor graphs, their values, and the cheapest graph of an e-graph under plain costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from egraph_opt.extraction import extract
from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import operator
from egraph_opt.saturation import Frozen, rebuild


@dataclass
class Draft:
    """A tensor graph in the making."""

    graph: TensorGraph = field(default_factory=TensorGraph)

    def input(self, name: str, *shape: Any, dtype: str = "float32") -> int:
        return self.graph.add("Input", (name,), (), TensorType(dtype, shape))

    def constant(self, array: Any, dtype: str = "float32") -> int:
        return self.graph.constant(Constant.of(np.asarray(array, dtype)))

    def op(self, name: str, *operands: int, **attrs: Any) -> int:
        declared = operator(name)
        values = tuple(attrs[p.name] for p in declared.params)
        types: list[Any] = [self.graph.types[i] for i in operands]
        return self.graph.add(name, values, operands, declared.infer(values, types))

    def done(self, *outputs: int) -> TensorGraph:
        self.graph.outputs = outputs
        return self.graph


class Tools:
    """The tools of the tests, as one fixture."""

    draft = Draft

    @staticmethod
    def values(graph: TensorGraph, feeds: Mapping[str, Any]) -> list[Any]:
        """What the outputs of a graph are, by the operators' own semantics."""
        found: dict[int, Any] = {}
        for index in graph.live():
            node = graph.nodes[index]
            if node.op == "Input":
                found[index] = feeds[str(node.attrs[0])]
            elif node.op == "Const":
                found[index] = graph.value(index)
            else:
                found[index] = operator(node.op).evaluate(node.attrs, [found[i] for i in node.operands])
        return [found[i] for i in graph.outputs]

    @staticmethod
    def cheapest(frozen: Frozen, costs: Mapping[str, float], other: float = 1.0) -> TensorGraph:
        """The graph that is cheapest by cost per operator; leaves and parts are free."""
        free = {"Input": 0.0, "Const": 0.0, "Get": 0.0}
        prices = np.array([{**free, **costs}.get(e.op, other) for e in frozen.enodes])
        return rebuild(frozen, extract(frozen.egraph, prices, extractor="ilp").selection)

    @staticmethod
    def operators(graph: TensorGraph) -> list[str]:
        """Operators that the outputs need, leaves left out, in order."""
        nodes = [graph.nodes[i] for i in graph.live()]
        return [n.op for n in nodes if n.op not in ("Input", "Const", "Get")]

    @staticmethod
    def same(first: Sequence[Any], second: Sequence[Any], tolerance: float = 1e-5) -> None:
        for a, b in zip(first, second, strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)

    def chain(self, length: int) -> TensorGraph:
        """A sum of many inputs, from left to right."""
        draft = Draft()
        total = draft.input("x0", 2)
        for i in range(1, length):
            total = draft.op("Add", total, draft.input(f"x{i}", 2))
        return draft.done(total)


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools()
