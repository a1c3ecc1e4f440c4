"""Layouts as e-nodes, on random small e-graphs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from egraph_opt import Options, optimize_file
from egraph_opt.egraph import EGraph
from egraph_opt.extraction import NoExtractionError, Status, extract
from egraph_opt.ir import TensorType, TupleType, Type
from egraph_opt.onnx_io import import_model, load_model, to_ir
from egraph_opt.pipeline import Run
from egraph_opt.pipeline.candidates import Proposer
from egraph_opt.pipeline.expansion import Conversion, Expansion, Laid
from egraph_opt.pipeline.layouts import Strategy
from egraph_opt.runtime import ROW_MAJOR, Order, get_cost_model
from egraph_opt.runtime.registry import PricesWholes
from egraph_opt.runtime.side_file import beside, orders_of
from egraph_opt.saturation.enodes import ENode

SEEDS = range(60)
TENSOR = TensorType("float32", (3, 3, 3, 3))  # every permutation of its axes is of the same type
PAIR = TupleType((TENSOR, TENSOR))
CONVOLUTION = ((1, 1), (1, 1, 1, 1), (1, 1), 1)
WHOLE: list[tuple[str, tuple[object, ...], int]] = [
    ("Conv", CONVOLUTION, 2), ("MaxPool", (), 1), ("Relu", (), 1), ("Add", (), 2), ("Concat", (1,), 2),
    ("Softmax", (3,), 1), ("MatMul", (), 2), ("Reshape", (), 1),
]  # fmt: skip
TURNS: list[tuple[str, tuple[object, ...], int]] = [
    ("Transpose", (perm,), 1) for perm in ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2), (0, 2, 1, 3), (3, 1, 2, 0))
]
Case = tuple[EGraph, list[ENode], list[Type | None], NDArray[np.float64]]


def random_case(seed: int, *, turns: bool) -> Case:
    """E-nodes with costs, cycles among them; the first classes are an input and a constant, two are of a Split."""
    rng = random.Random(seed)
    count = rng.randint(5, 11)
    enodes = [ENode("Input", ("x",), (), 0), ENode("Const", (0,), (), 1), ENode("Split", (1, (3, 3)), (0,), 2)]
    enodes += [ENode("Get", (number,), (2,), 3 + number) for number in (0, 1)]
    tensors = [cls for cls in range(count) if cls != 2]
    for cls in range(5, count):
        for number in range(rng.randint(1, 3)):
            op, attrs, arity = rng.choice(WHOLE + TURNS if turns else WHOLE)
            latest = count if number and rng.random() < 0.3 else cls
            operands = [rng.choice([t for t in tensors if t < latest]) for _ in range(arity)]
            enodes.append(ENode(op, attrs, (operands[0], 1) if op == "Conv" else tuple(operands), cls))
    types: list[Type | None] = [PAIR if cls == 2 else TENSOR for cls in range(count)]
    roots = [count - 1, rng.choice(tensors)]
    egraph = EGraph.build([(e.op, e.cls, e.operands) for e in enodes], roots, count)
    return egraph, enodes, types, np.array([rng.randint(0, 9) for _ in enodes], float)


def cases(conversion: Conversion, *, turns: bool = True) -> Iterator[tuple[Case, Expansion]]:
    for seed in SEEDS:
        case = random_case(seed, turns=turns)
        expansion = Expansion.of(*case[:3], conversion)
        if expansion is not None:
            yield case, expansion


def cost_of(case: Case, laid: Laid, conversion: Conversion) -> float:
    """What each value costs in its way, and each copy that its readers or the outputs need."""
    egraph, enodes, types, seconds = case
    chosen = [(enodes[laid.selection.choice[cls]], way) for cls, way in laid.ways.items()]
    wanted = {(int(root), ROW_MAJOR) for root in egraph.roots}
    for enode, way in chosen:
        wanted |= set(zip(enode.operands, way.operands, strict=True))
    total = sum(float(seconds[laid.selection.choice[c]]) for c, way in laid.ways.items() if not way.is_view)
    for cls, order in wanted:
        type_ = types[cls]
        if order != laid.ways[cls].result:
            items = type_.items if isinstance(type_, TupleType) else [type_]
            total += sum(conversion(t, laid.ways[cls].result, order) for t in items if isinstance(t, TensorType))
    return total


@pytest.mark.parametrize("price", [0.0, 0.5, 3.0, 20.0])
def test_the_cost_is_that_of_what_is_selected(price: float) -> None:
    def conversion(type_: TensorType, source: Order, target: Order) -> float:
        return price + 0.125 * (len(source) + 2 * len(target))

    proven = 0
    for case, expansion in cases(conversion):
        costs = expansion.costs(case[3])
        found = extract(expansion.egraph, costs)
        answer, laid = expansion.answer(found, costs)
        needed = {case[1][n].cls for n in answer.selection.order(case[0])}  # a cycle or a gap would be an error
        assert needed == laid.ways.keys() == set(np.flatnonzero(answer.selection.choice >= 0).tolist())
        assert answer.cost == pytest.approx(cost_of(case, laid, conversion))
        assert answer.cost >= found.lower_bound - 1e-9
        assert expansion.project(expansion.laid(laid)).ways == laid.ways
        lifted = expansion.lift(extract(case[0], case[3]).selection)
        if answer.status is Status.OPTIMAL:
            proven += 1
            assert answer.cost <= cost_of(case, expansion.project(lifted), conversion) + 1e-9
    assert proven > len(SEEDS) / 2


def test_nothing_is_lost_where_copies_cost_nothing() -> None:
    compared = 0
    for case, expansion in cases(lambda *_: 0.0, turns=False):
        found = extract(expansion.egraph, expansion.costs(case[3]))
        assert found.cost == pytest.approx(extract(case[0], case[3]).cost)
        compared += 1
    assert compared > len(SEEDS) / 2


def test_a_transpose_may_be_a_view() -> None:
    gained = 0
    for case, expansion in cases(lambda *_: 0.0):
        found, plain = extract(expansion.egraph, expansion.costs(case[3])).cost, extract(case[0], case[3]).cost
        assert found <= plain + 1e-9
        gained += found < plain - 1e-9
    assert gained


def test_nothing_is_copied_where_copies_are_not_to_be_had() -> None:
    feasible = 0
    for case, expansion in cases(lambda *_: inf):
        try:
            found = extract(expansion.egraph, expansion.costs(case[3]))
        except NoExtractionError:
            continue
        feasible += 1
        selected = found.selection.order(expansion.egraph)
        assert all(expansion.base[number] >= 0 for number in selected)
        lies = {(case[1][expansion.base[n]].cls, way.result) for n in selected if (way := expansion.ways[n])}
        for number in selected:
            way, enode = expansion.ways[number], case[1][expansion.base[number]]
            assert way is not None
            assert set(zip(enode.operands, way.operands, strict=True)) <= lies
    assert feasible > 5


def test_values_that_all_lie_in_one_order_need_no_e_graph() -> None:
    enodes = [ENode("Input", ("x",), (), 0), ENode("Softmax", (3,), (0,), 1)]
    egraph = EGraph.build([(e.op, e.cls, e.operands) for e in enodes], [1], 2)
    assert Expansion.of(egraph, enodes, [TENSOR, TENSOR], lambda *_: 1.0) is None


TEXT = """m (float[1,28,28,64] x, float[64,64,3,3] w) => (float[1,28,28,64] y) {
        t = Transpose <perm=[0,3,1,2]> (x)
        c = Conv <pads=[1,1,1,1]> (t, w)
        s = Sigmoid (c)
        d = Conv <pads=[1,1,1,1]> (s, w)
        u = Transpose <perm=[0,2,3,1]> (d)
        y = Tanh (u)
    }"""


@pytest.fixture(scope="module")
def proposers(tools: Any) -> dict[str, Proposer]:
    model = tools.parse(TEXT)
    model.graph.initializer.append(numpy_helper.from_array(np.full((64, 64, 3, 3), 0.125, np.float32), "w"))
    del model.graph.input[1]

    def made(strategy: Strategy) -> Proposer:
        return Run(to_ir(model), Options(target="cuda:h100", layout=strategy)).chooser().proposer

    return {strategy: made(strategy) for strategy in get_args(Strategy)}


def best(proposer: Proposer) -> float:
    """The least estimate, that of the original among them."""
    return min([proposer.original(), *(p.estimated for p in proposer.proposals(20))])


def test_graph_and_layouts_at_once_are_the_cheapest(proposers: dict[str, Proposer]) -> None:
    found = {strategy: best(proposer) for strategy, proposer in proposers.items()}
    assert found["joint"] <= min(found.values())
    assert found["sequential"] <= found["layout"]
    assert found["joint"] < found["substitutions"]  # which copies what is between the convolutions


def test_layouts_alone_change_no_graph(proposers: dict[str, Proposer]) -> None:
    assert not list(proposers["layout"].proposals(20))


def test_what_reads_the_channels_fastest_gets_them_so(proposers: dict[str, Proposer]) -> None:
    proposer, alone = proposers["joint"], proposers["substitutions"]
    assert proposer.layouts is not None
    assert alone.layouts is not None
    graph, orders = proposer.frozen.graph, proposer.layouts.lay_original(proposer.prices)
    assert alone.layouts.lay_original(alone.prices) == {}
    assert {orders.get(i) for i, node in enumerate(graph.nodes) if node.op == "Conv"} == {(0, 2, 3, 1)}
    assert all(graph.nodes[i].op != "Transpose" for i in orders)  # views


TURNED = """m (float[1,16,64,64] x, float[16,64,64] w, float[1024,512] v) => (float[1,64,512] y)
    <int64[3] flat = {1, 64, 1024}> {
        p = MatMul (x, w)
        r = Relu (p)
        t = Transpose <perm=[0,2,1,3]> (r)
        f = Reshape (t, flat)
        y = MatMul (f, v)
    }"""


def test_orders_that_beat_the_rule_of_thumb_lie_beside_the_model(tools: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "made.onnx"
    onnx.save(tools.parse(TURNED), source)
    report = optimize_file(source, target, target="cuda:h100")
    graph, model = import_model(load_model(target)).graph, get_cost_model("cuda:h100")
    orders = orders_of(target, graph)
    assert orders is not None
    assert {graph.nodes[node].op: order for node, order in orders.items()}["Relu"] == (0, 2, 1, 3)
    assert isinstance(model, PricesWholes)
    priced = [model.whole(graph, {}, (some,)) for some in (orders, None)]
    assert priced[0] is not None
    assert priced[1] is not None
    assert priced[0].seconds < priced[1].seconds
    assert report.estimated_before == pytest.approx(priced[0].seconds)
    for place in (target, tmp_path / "copy.onnx"):  # what stays is the model, with what lies beside it
        assert optimize_file(target, place, target="analytic").outcome == "unchanged"
        assert orders_of(place, graph) == orders


def test_orders_of_another_model_go_when_the_original_stays(tools: Any, tmp_path: Path) -> None:
    path, place = tmp_path / "m.onnx", tmp_path / "copy.onnx"
    onnx.save(tools.parse("m (float[2,3] x) => (float[2,3] y) { y = Relu (x) }"), path)
    for source, target in ((path, path), (path, place)):
        for content in ('{"schema": 1, "orders": {"gone": [1, 0]}}', '{"schema": 1, "orders": {"y": [0, 2, 1]}}', "{"):
            beside(target).write_text(content)
            assert optimize_file(source, target, target="analytic").outcome == "unchanged"
            assert not beside(target).exists()
    beside(place).write_text('{"schema": 1, "orders": {"y": [1, 0]}}')  # it was of the file that is replaced
    assert optimize_file(path, place, target="analytic").outcome == "unchanged"
    assert not beside(place).exists()


def test_another_model_in_place_takes_the_orders_of_the_original_with_it(tools: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(tools.parse("m (float[2,3] x) => (float[2,3] y) { a = Relu (x) y = Relu (a) }"), path)
    beside(path).write_text('{"schema": 1, "orders": {"y": [1, 0]}}')  # there is a y in the result, too
    assert optimize_file(path, path, target="analytic").outcome == "optimized"
    assert not beside(path).exists()
