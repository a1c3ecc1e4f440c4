"""The attention kernels, without a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulator import COMPILER, Emulator

from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import numpy_dtype, operator
from egraph_opt.runtime.cuda import make_plan
from egraph_opt.runtime.cuda.steps import Generated, Product

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
BOUND = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


def attention_graph(dtype: str, sizes: tuple[int, int, int, int, int], *, turned: bool) -> TensorGraph:
    """softmax(q k / 4 + mask) v over (heads, rows, depth, keys, columns). The mask hides the first 70 keys of row 0;
    ``turned``: k lies with the keys slowest."""
    heads, m, depth, length, wide = sizes
    graph = TensorGraph()

    def add(op: str, attrs: tuple[object, ...], operands: list[int]) -> int:
        types = [graph.types[i] for i in operands]
        return graph.add(op, attrs, operands, operator(op).infer(attrs, types))  # type: ignore[arg-type]

    def given(name: str, *shape: int) -> int:
        return graph.add("Input", (name,), (), TensorType(dtype, shape))

    q, v = given("q", heads, m, depth), given("v", heads, length, wide)
    k = (
        add("Transpose", ((0, 2, 1),), [given("k", heads, length, depth)])
        if turned
        else given("k", heads, depth, length)
    )
    kind = np.dtype(numpy_dtype(dtype))
    quarter = graph.constant(Constant.of(np.asarray(0.25, kind), dtype))
    hidden = np.zeros((m, length), kind)
    hidden[0, :70] = -np.inf
    scores = add(
        "Add", (), [add("Mul", (), [add("MatMul", (), [q, k]), quarter]), graph.constant(Constant.of(hidden, dtype))]
    )
    graph.outputs = (add("MatMul", (), [add("Softmax", (2,), [scores]), v]),)
    return graph


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("sizes", "turned"),
    [((2, 5, 16, 75, 24), True), ((1, 33, 20, 72, 13), False), ((1, 16, 64, 128, 64), True)],
)
def test_the_kernel_computes_attention(
    dtype: str, sizes: tuple[int, int, int, int, int], turned: bool, tmp_path: Path
) -> None:
    graph = attention_graph(dtype, sizes, turned=turned)
    plan = make_plan(graph, exact=True)
    assert [type(step) for step in plan.steps] == [Generated]
    rng, feeds = np.random.default_rng(0), dict[str, np.ndarray]()
    for name, view in plan.inputs.items():
        feeds[name] = rng.standard_normal(view.shape).astype(numpy_dtype(dtype))
    q, k, v = (feeds[name].astype(np.float64) for name in "qkv")
    scores = q @ (k.swapaxes(1, 2) if turned else k) / 4
    scores[:, 0, :70] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    wanted = weights / weights.sum(axis=2, keepdims=True) @ v
    (got,) = Emulator(plan, tmp_path).run(feeds)
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=BOUND[dtype], atol=BOUND[dtype])


def projected_graph(dtype: str, heads: int, rows: int, width: int) -> tuple[TensorGraph, dict[str, np.ndarray]]:
    """Attention over three projections of x with biases, and its weights by name."""
    graph, rng, kind = TensorGraph(), np.random.default_rng(1), np.dtype(numpy_dtype(dtype))
    weights = {name: (rng.standard_normal((width, width)) * 0.5 * width**-0.5).astype(kind) for name in "qkv"}
    weights |= {f"{name} bias": (0.5 * rng.standard_normal(width)).astype(kind) for name in "qkv"}

    def add(op: str, attrs: tuple[object, ...], *operands: int) -> int:
        types = [graph.types[i] for i in operands]
        return graph.add(op, attrs, operands, operator(op).infer(attrs, types))  # type: ignore[arg-type]

    def constant(name: str) -> int:
        return graph.constant(Constant.of(weights[name], dtype))

    x = graph.add("Input", ("x",), (), TensorType(dtype, (1, rows, width)))

    def projected(name: str, perm: tuple[int, ...]) -> int:
        y = add("Add", (), add("MatMul", (), x, constant(name)), constant(f"{name} bias"))
        return add("Transpose", (perm,), add("Reshape", ((1, rows, heads, width // heads),), y))

    scores = add("MatMul", (), projected("q", (0, 2, 1, 3)), projected("k", (0, 2, 3, 1)))
    mixed = add("MatMul", (), add("Softmax", (3,), scores), projected("v", (0, 2, 1, 3)))
    graph.outputs = (add("Reshape", ((1, rows, width),), add("Transpose", ((0, 2, 1, 3),), mixed)),)
    return graph, weights


@pytest.mark.parametrize(("dtype", "width"), [("float16", 1024), ("float32", 512)])
def test_attention_adds_up_parts_and_biases(dtype: str, width: int, tmp_path: Path) -> None:
    heads, rows = 8, 16
    graph, weights = projected_graph(dtype, heads, rows, width)
    x = np.random.default_rng(2).standard_normal((1, rows, width)).astype(numpy_dtype(dtype))

    def heads_of(name: str) -> np.ndarray:
        y = x[0].astype(np.float64) @ weights[name] + weights[f"{name} bias"]
        return y.reshape(rows, heads, -1).transpose(1, 0, 2)

    q, k, v = map(heads_of, "qkv")
    scores = np.exp(q @ k.swapaxes(1, 2) - (q @ k.swapaxes(1, 2)).max(axis=2, keepdims=True))
    wanted = (scores / scores.sum(axis=2, keepdims=True) @ v).transpose(1, 0, 2).reshape(1, rows, width)
    for adding in (False, True):
        plan = make_plan(graph, adding=adding)
        cut = [step.title for step in plan.steps if isinstance(step, Product) and " parts" in step.title]
        assert len(cut) == 3 * adding
        (got,) = Emulator(plan, tmp_path).run({"x": x})
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=BOUND[dtype], atol=4 * BOUND[dtype])
    exact = [step.title for step in make_plan(graph, adding=True, exact=True).steps]
    assert sum(" parts" in title for title in exact) == (3 if dtype == "float16" else 0)
