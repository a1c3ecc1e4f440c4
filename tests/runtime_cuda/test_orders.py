"""Plans whose values lie in orders that are given, odd ones among them, without a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir
import pytest
from conftest import check_network, small_networks
from emulator import COMPILER, Emulator

from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.onnx_io import import_model
from egraph_opt.runtime import Orders
from egraph_opt.runtime.cuda import make_plan
from egraph_opt.runtime.cuda.costs import Cuda
from egraph_opt.runtime.cuda.plan import Draft, copy_step, plans_of
from egraph_opt.runtime.cuda.steps import Convolution, Product

emulated = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


def odd_orders(graph: TensorGraph, seed: int) -> Orders:
    """Any order for each tensor."""
    rng, ranks = np.random.default_rng(seed), dict[int, int]()
    for node in graph.live():
        type_ = graph.types[node]
        if isinstance(type_, TensorType):
            ranks[node] = type_.rank
    return {node: tuple(int(axis) for axis in rng.permutation(rank)) for node, rank in ranks.items()}


@emulated
@pytest.mark.parametrize(("name", "seed"), [("cells", 1), ("cells", 2), ("encoder", 1), ("nasrnn-batch", 1)])
def test_odd_orders(name: str, seed: int, tmp_path: Path) -> None:
    def run(graph: TensorGraph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        orders = odd_orders(graph, seed)
        draft = Draft.of(graph, exact=True)
        assert draft.kind(draft.orders(orders)) != draft.kind(draft.orders(None))
        return Emulator(make_plan(graph, exact=True, chosen=orders), tmp_path).run(feeds)

    check_network(run, name, "float32", 1e-5)


def products(rank: int, *, bias: bool, residual: bool) -> TensorGraph:
    """A product, with what is added to it, read by a kernel of its own."""
    graph, shape = TensorGraph(), (2, 3, 16, 32)[-rank:]
    x = graph.add("Input", ("x",), (), TensorType("float32", (*shape[:-1], 24)))
    weight = graph.constant(Constant.of(np.ones((24, 32), np.float32)))
    y = graph.add("MatMul", (), (x, weight), TensorType("float32", shape))
    if bias:
        added = graph.constant(Constant.of(np.ones(32, np.float32)))
        y = graph.add("Add", (), (y, added), TensorType("float32", shape))
    if residual:
        other = graph.add("Input", ("r",), (), TensorType("float32", shape))
        y = graph.add("Add", (), (y, graph.add("Relu", (), (other,), TensorType("float32", shape))),
                      TensorType("float32", shape))  # fmt: skip
    graph.outputs = (graph.add("Softmax", (0,), (y,), TensorType("float32", shape)),)
    return graph


@emulated
def test_a_product_that_is_written_as_its_transpose_needs_no_copy(tmp_path: Path) -> None:
    graph, rng = TensorGraph(), np.random.default_rng(0)
    shapes = {"x": (1, 4, 16, 24), "w": (4, 24, 8), "v": (32, 40)}
    x, w, v = (graph.add("Input", (n,), (), TensorType("float32", shape)) for n, shape in shapes.items())
    product = graph.add("MatMul", (), (x, w), TensorType("float32", (1, 4, 16, 8)))
    relu = graph.add("Relu", (), (product,), TensorType("float32", (1, 4, 16, 8)))
    turned = graph.add("Transpose", ((0, 2, 1, 3),), (relu,), TensorType("float32", (1, 16, 4, 8)))
    flat = graph.add("Reshape", ((1, 16, 32),), (turned,), TensorType("float32", (1, 16, 32)))
    graph.outputs = (graph.add("MatMul", (), (flat, v), TensorType("float32", (1, 16, 40))),)
    plans = [make_plan(graph, exact=True, chosen=orders) for orders in (None, {relu: (0, 2, 1, 3)})]
    assert [len(plan.steps) for plan in plans] == [3, 2]
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    inner = np.maximum(feeds["x"] @ feeds["w"], 0).transpose(0, 2, 1, 3).reshape(1, 16, 32)
    for plan in plans:
        (got,) = Emulator(plan, tmp_path).run(feeds)
        np.testing.assert_allclose(got, inner @ feeds["v"], rtol=1e-5, atol=1e-5)
    tried = plans_of(graph, exact=True, layouts=True, orders={relu: (0, 2, 1, 3)})
    assert [len(plan.steps) for plan in tried] == [3, 2]


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_a_library_writes_matrices_and_adds_along_their_rows(rank: int, bias: bool, residual: bool) -> None:
    graph = products(rank, bias=bias, residual=residual)
    for seed in range(30):
        for step in make_plan(graph, exact=True, chosen=odd_orders(graph, seed)).steps:
            if isinstance(step, Product):
                for view in (step.a, step.b, step.d):
                    assert 1 in view.strides[-2:]
                if step.bias or step.c:
                    assert step.d.strides[-1] == 1
                assert step.c is None or step.c.strides[-1] == 1


def test_a_convolution_of_a_library_reads_and_writes_the_channels_fastest() -> None:
    graph = import_model(onnx_ir.from_proto(small_networks("float32")["cells"])).graph
    for seed in range(20):
        steps = make_plan(graph, exact=True, chosen=odd_orders(graph, seed)).steps
        convolutions = [step for step in steps if isinstance(step, Convolution)]
        assert convolutions
        for step in convolutions:
            views = [step.x, step.y, *([step.residual] if step.residual else [])]
            assert all(view.strides[1] == 1 for view in views)


def test_orders_that_do_not_fit_are_left_out() -> None:
    graph = products(3, bias=True, residual=False)
    plain = make_plan(graph, exact=True, chosen={})
    wrong: Orders = {node: (0, 0, 1) for node in graph.live()} | {999: (1, 0)}
    assert make_plan(graph, exact=True, chosen=wrong).steps == plain.steps


def test_copies_have_a_price() -> None:
    type_, model = TensorType("float16", (1, 64, 56, 56)), Cuda("h100")
    there, back = (model.conversion(type_, *pair) for pair in (((), (0, 2, 3, 1)), ((0, 2, 3, 1), ())))
    assert 1e-6 < there < 1e-4
    assert 1e-6 < back < 1e-4
    step = copy_step(type_, (), (0, 2, 3, 1))
    assert step.reads[0].is_dense()
    assert step.writes[0].is_dense((0, 2, 3, 1))


def test_the_price_of_a_whole_graph_is_the_least_over_its_orders() -> None:
    graph = import_model(onnx_ir.from_proto(small_networks("float32")["cells"])).graph
    model, odd = Cuda("h100"), odd_orders(graph, 3)
    rule, strange = (model.whole(graph, {}, (orders,)) for orders in (None, odd))
    assert rule is not None
    assert strange is not None
    assert rule.seconds < strange.seconds
    assert strange.orders is odd
    assert model.whole(graph, {}, (odd, None)) == rule
    same = Draft.of(graph).orders(None)
    assert model.whole(graph, {}, (None, same)) == rule  # of equals the first
