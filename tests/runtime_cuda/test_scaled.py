"""Scales and offsets that go into a convolution's weight."""

from __future__ import annotations

import numpy as np
import pytest

from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import operator
from egraph_opt.runtime.cuda.lower import lowered

CHANNELS = 6


def normalized(scale: np.ndarray, *, bias: bool = False, used: bool = False) -> TensorGraph:
    """A convolution and a BatchNormalization with this scale; ``used``: the convolution is an output too."""
    rng, graph = np.random.default_rng(0), TensorGraph()
    kind = scale.dtype.name
    x = graph.add("Input", ("x",), (), TensorType(kind, (2, 4, 5, 5)))
    given = [rng.standard_normal((CHANNELS, 4, 3, 3)), *([rng.standard_normal(CHANNELS)] if bias else [])]
    weights = [graph.constant(Constant.of(v.astype(kind))) for v in given]
    attrs = ((1, 1), (1, 1, 1, 1), (1, 1), 1)
    y = _add(graph, "Conv", attrs, [x, *weights])
    rest = [rng.standard_normal(CHANNELS), rng.standard_normal(CHANNELS) * 5, rng.uniform(0.5, 2.0, CHANNELS)]
    parameters = [graph.constant(Constant.of(v.astype(kind))) for v in (scale, *rest)]
    z = _add(graph, "BatchNormalization", (1e-5,), [y, *parameters])
    graph.outputs = (z, y) if used else (z,)
    return graph


def _add(graph: TensorGraph, op: str, attrs: tuple[object, ...], operands: list[int]) -> int:
    types = [graph.types[i] for i in operands]
    return graph.add(op, attrs, operands, operator(op).infer(attrs, types))  # type: ignore[arg-type]


def evaluated(graph: TensorGraph, x: np.ndarray, dtype: type) -> np.ndarray:
    """The first output, its weights as they are and every operator in ``dtype``."""
    values: dict[int, np.ndarray] = {}
    for index in graph.live():
        node = graph.nodes[index]
        if node.op in ("Input", "Const"):
            stored = x if node.op == "Input" else graph.value(index)
            values[index] = np.asarray(stored).astype(dtype)
        else:
            found = operator(node.op).evaluate(node.attrs, [values[i] for i in node.operands])
            assert not isinstance(found, tuple)
            values[index] = found
    return values[graph.outputs[0]]


def ops(graph: TensorGraph) -> list[str]:
    return [graph.nodes[i].op for i in graph.live() if graph.nodes[i].op not in ("Input", "Const")]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_normalization_goes_into_the_weight(dtype: str, bias: bool) -> None:
    graph = normalized(np.linspace(-2, 2, CHANNELS).astype(dtype), bias=bias)
    folded = lowered(graph)
    assert ops(folded) == ["Conv"]
    x = np.random.default_rng(1).standard_normal((2, 4, 5, 5)).astype(dtype)
    wanted = evaluated(graph, x, np.float64)
    np.testing.assert_allclose(
        evaluated(folded, x, np.float64), wanted, rtol=4 * np.finfo(dtype).eps, atol=50 * np.finfo(dtype).eps
    )


def test_a_product_per_channel_goes_into_the_weight() -> None:
    graph = normalized(np.ones(CHANNELS, np.float32))
    scale = graph.constant(Constant.of(np.arange(CHANNELS, dtype=np.float32).reshape(CHANNELS, 1, 1) - 2))
    rows = graph.constant(Constant.of(np.arange(5, dtype=np.float32).reshape(5, 1)))
    (z,) = graph.outputs
    graph.outputs = (_add(graph, "Mul", (), [scale, z]),)
    assert ops(lowered(graph)) == ["Conv"]
    x = np.random.default_rng(1).standard_normal((2, 4, 5, 5)).astype(np.float32)
    np.testing.assert_allclose(
        evaluated(lowered(graph), x, np.float64), evaluated(graph, x, np.float64), rtol=0, atol=1e-5
    )
    graph.outputs = (_add(graph, "Mul", (), [z, rows]),)  # a number per row is none per channel
    assert ops(lowered(graph)) == ["Conv", "Mul"]


def test_a_convolution_that_others_read_stays() -> None:
    assert ops(lowered(normalized(np.ones(CHANNELS, np.float32), used=True))) == ["Conv", "BatchNormalization"]


@pytest.mark.parametrize("scale", [1e-6, 6e4, np.nan])
def test_a_weight_that_its_dtype_cannot_hold_stays(scale: float) -> None:
    scales = np.ones(CHANNELS, np.float16)
    scales[2] = scale
    assert ops(lowered(normalized(scales))) == ["Conv", "BatchNormalization"]
    scales[2] = 0  # a channel that is switched off
    assert ops(lowered(normalized(scales))) == ["Conv"]
