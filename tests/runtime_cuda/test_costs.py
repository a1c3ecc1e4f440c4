"""The shipped measurements and the model fitted to them; no GPU."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from conftest import small_networks

import egraph_opt
from egraph_opt.errors import UsageError
from egraph_opt.ir import Constant, Node, TensorGraph, TensorType
from egraph_opt.runtime import Signature, get_cost_model
from egraph_opt.runtime.cuda import make_plan
from egraph_opt.runtime.cuda.costs import Cuda, shipped
from egraph_opt.runtime.cuda.fitted import Neighbours, Point, held_out_error
from egraph_opt.runtime.cuda.prices import key_of, read_steps, room_of, shipped_steps, write_steps
from egraph_opt.runtime.cuda.steps import Buffer


def test_held_out_error_is_small() -> None:
    measured = [(s, e.seconds) for s, e in shipped("h100").items() if e.seconds]
    assert len(measured) > 800
    assert held_out_error(measured) < 0.25


def test_measured_and_estimated_prices() -> None:
    known = next(s for s in shipped("h100") if s.op == "Conv")
    wide = Signature(
        "MatMul", (), (TensorType("float16", (96, 1024)), TensorType("float16", (1024, 2048))), (False, True)
    )
    costs = get_cost_model("cuda:h100").price([known, wide, known])
    assert costs[0] == costs[2]
    assert costs[0].origin == "measured"
    assert costs[0].seconds == shipped("h100")[known].seconds
    assert costs[1].origin == "estimated"
    assert all(0 <= c.lower_bound <= c.seconds for c in costs)


def test_unknown_card_is_refused() -> None:
    with pytest.raises(UsageError, match="h100"):
        get_cost_model("cuda:h9000")


def conv_graph(last: str) -> TensorGraph:
    """A convolution and a Relu, or a Max with 0."""
    graph, type_ = TensorGraph(), TensorType("float16", (1, 64, 14, 14))
    x = graph.add("Input", ("x",), (), type_)
    weight = graph.constant(Constant.of(np.ones((64, 64, 3, 3), np.float16)))
    y = graph.add("Conv", ((1, 1), (1, 1, 1, 1), (1, 1), 1), (x, weight), type_)
    zero = graph.constant(Constant.of(np.zeros((), np.float16)))
    graph.outputs = (graph.add(last, (), (y,) if last == "Relu" else (zero, y), type_),)
    return graph


def test_a_maximum_with_zero_is_computed_by_the_convolution() -> None:
    steps = [make_plan(conv_graph(last), lay_inputs=True).steps for last in ("Relu", "Max")]
    assert [s.kind for s in steps[0]] == [s.kind for s in steps[1]]
    assert key_of(steps[0][0], False) == key_of(steps[1][0], False)


def test_whole_graphs_have_a_price() -> None:
    relu, most = (Cuda("h100").whole(conv_graph(last), {}) for last in ("Relu", "Max"))
    assert relu is not None
    assert relu == most
    assert 2e-6 < relu.seconds < 5e-5
    unknown = TensorGraph([Node("Input", ("x",), ())], [TensorType("string", (2,))], (0,))
    assert Cuda("h100").whole(unknown, {}) is None


def test_steps_survive_a_file(tmp_path: Path) -> None:
    steps = make_plan(conv_graph("Relu"), lay_inputs=True).steps
    cold = [(s, False, 0, 1e-6 * (i + 1)) for i, s in enumerate(steps)]
    cached = [(steps[0], False, 8, 5e-7)]
    assert write_steps(tmp_path / "s.jsonl", ("card", "versions"), cold + cached) == len(steps) + 1
    found = read_steps((tmp_path / "s.jsonl").read_text())
    assert [found.seconds(s, False) for s in steps] == pytest.approx([1e-6 * (i + 1) for i in range(len(steps))])
    assert found.seconds(steps[0], False, 8) == pytest.approx(5e-7)
    assert found.seconds(steps[0], False, 16) == pytest.approx(1e-6)  # nobody has timed it so: the cold one


def test_weights_that_stay_in_the_cache_have_a_room() -> None:
    weights = [Buffer("weight", "float16", 2**20) for _ in range(24)]
    assert [room_of(weights[:count]) for count in (0, 2, 3, 24)] == [4, 4, 8, 48]
    assert room_of([*weights, Buffer("weight", "float16", 1)]) == 0
    assert room_of([Buffer("work", "float16", 2**30)]) == 4


def test_estimates_of_steps_that_are_held_out() -> None:
    prices = shipped_steps("h100")
    text = (files("egraph_opt.runtime.cuda") / "h100.steps.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()[1:]]
    assert len(rows) == len(prices.known) > 1000
    points = [(Point(kind, features, roof), seconds) for _, seconds, kind, features, roof in rows]
    errors: list[float] = []
    for fold in range(5):
        model = Neighbours.of([p for i, p in enumerate(points) if i % 5 != fold])
        guesses = [(model.seconds(point), seconds) for point, seconds in points[fold::5]]
        errors += [abs(guess / seconds - 1) for guess, seconds in guesses if guess is not None]
    assert float(np.median(errors)) < 0.15


@pytest.mark.parametrize("name", ["cells", "nasrnn", "encoder"])
def test_what_is_not_estimated_to_be_faster_stays(name: str) -> None:
    found = egraph_opt.optimize(small_networks("float32")[name], target="cuda:h100", time_limit=60.0)
    report = found.report
    if report.outcome == "optimized":
        assert report.estimated_after is not None
        assert report.estimated_before is not None
        assert report.estimated_after < 0.99 * report.estimated_before
    else:
        assert report.outcome == "unchanged"
