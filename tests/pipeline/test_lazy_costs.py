"""Lazy costs on real models, measured in real ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from egraph_opt import Options
from egraph_opt.cli.app import program
from egraph_opt.egraph.serialize import read_egraph
from egraph_opt.extraction import Ended, LazyExtraction, extract_lazily
from egraph_opt.onnx_io import to_ir
from egraph_opt.pipeline import Run
from egraph_opt.pipeline.pricing import Prices, price
from egraph_opt.pipeline.run import Explored
from egraph_opt.runtime import Cost, CostDatabase, OnProgress, OrtCpu, Quote, Signature, get_cost_model


def fire() -> onnx.ModelProto:
    """Two convolutions of one input, side by side, and what follows; each may be fused with its activation."""
    rng = np.random.default_rng(0)
    shapes = {"squeeze": (16, 32, 1, 1), "one": (24, 16, 1, 1), "three": (24, 16, 3, 3)}
    weights = [onnx.numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in shapes.items()]
    graph = onnx.parser.parse_graph(
        """fire (float[1,32,28,28] x) => (float[1,48,28,28] y) {
            s = Conv <kernel_shape=[1,1]> (x, squeeze)
            r = Relu (s)
            a = Conv <kernel_shape=[1,1]> (r, one)
            b = Conv <kernel_shape=[3,3], pads=[1,1,1,1]> (r, three)
            c = Relu (a)
            d = Relu (b)
            y = Concat <axis=1> (c, d)
        }"""
    )
    graph.initializer.extend(weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def found() -> Explored:
    return Run(to_ir(fire()), Options(target="analytic")).explore()


def asked(prices: Prices) -> list[tuple[Signature, bool]]:
    """Each signature, and whether its e-nodes have an exact cost."""
    places = prices.wanted.place
    return [(s, bool(prices.exact[places == i].all())) for i, s in enumerate(prices.wanted.signatures)]


def cheapest(found: Explored, prices: Prices) -> LazyExtraction:
    start = found.frozen.selection_of_original()
    return extract_lazily(found.frozen.egraph, prices, warm_start=start)


def test_the_cheapest_graph_costs_the_same_as_with_everything_measured(found: Explored) -> None:
    model = OrtCpu(budget_seconds=0.003, database=CostDatabase.in_memory())
    lazy = price(found.frozen, model, found.sizes, lazy=True)
    assert lazy.exact[found.frozen.original_enodes()].all()
    assert not lazy.exact.all()
    answer = cheapest(found, lazy)
    assert lazy.saved > 0
    assert lazy.origins["measured"] < len(lazy.wanted.signatures)
    left = ~lazy.exact
    bounds = lazy.seconds[left].copy()
    full = price(found.frozen, model, found.sizes)  # measures the rest; what is measured stays as it is
    assert full.exact.all()
    assert (full.seconds[~left] == lazy.seconds[~left]).all()
    assert lazy.bounds_hold == (answer.ended is not Ended.FALSE_BOUND)
    if (full.seconds[left] >= bounds).all():  # what the proof needs
        assert answer.extraction.cost == pytest.approx(cheapest(found, full).extraction.cost, rel=1e-8)


def test_a_full_database_leaves_nothing_to_ask(found: Explored) -> None:
    model = OrtCpu(budget_seconds=0.002, database=CostDatabase.in_memory())
    full = price(found.frozen, model, found.sizes)
    again = price(found.frozen, model, found.sizes, lazy=True)
    assert again.asked == again.saved == 0
    assert again.exact.all()
    assert (again.seconds == full.seconds).all()
    assert cheapest(found, again).rounds == 1


class Boastful(OrtCpu):
    """Says that nothing can be as fast as it is."""

    def quote(self, signatures: Sequence[Signature], *, reference: Sequence[Signature] = ()) -> list[Quote]:
        return [Quote(q.key, q.cost, 100.0) for q in super().quote(signatures, reference=reference)]


def test_false_bounds_are_seen_and_everything_is_measured(found: Explored) -> None:
    wrong = Boastful(budget_seconds=0.002, database=CostDatabase.in_memory())
    prices = price(found.frozen, wrong, found.sizes, lazy=True)
    prices.settle(np.flatnonzero(~prices.exact)[:1])
    assert not prices.bounds_hold
    assert cheapest(found, prices).extraction.cost > 0


class Late(OrtCpu):
    """Is asked when the time for measuring is over."""

    def price(
        self,
        signatures: Sequence[Signature],
        *,
        reference: Sequence[Signature] = (),
        on_progress: OnProgress | None = None,
        deadline: float | None = None,
    ) -> list[Cost]:
        return super().price(signatures, reference=reference, on_progress=on_progress, deadline=0.0)


def test_what_time_is_short_for_is_estimated_and_is_no_false_bound(found: Explored) -> None:
    late = Late(budget_seconds=0.002, database=CostDatabase.in_memory())
    prices = price(found.frozen, late, found.sizes, lazy=True, deadline=0.0)
    answer = cheapest(found, prices)
    assert prices.exact[answer.extraction.selection.order(found.frozen.egraph)].all()
    assert prices.bounds_hold
    assert set(prices.origins) <= {"estimated", "free"}


def test_models_that_measure_nothing_are_known_at_once(found: Explored) -> None:
    for target in ("analytic", "analytic:h100", "cuda:h100"):
        model = get_cost_model(target)
        lazy, full = (price(found.frozen, model, found.sizes, lazy=lazy) for lazy in (True, False))
        assert lazy.exact.all()
        assert lazy.asked == 0
        assert (lazy.seconds == full.seconds).all()


def test_bounds_stay_below_what_is_measured_later(found: Explored) -> None:
    model = OrtCpu(budget_seconds=0.003, database=CostDatabase.in_memory())
    lazy = price(found.frozen, model, found.sizes, lazy=True)
    quotes = model.quote(lazy.wanted.signatures)
    costs = model.price(lazy.wanted.signatures)
    false = [q.key for q, c in zip(quotes, costs, strict=True) if c.seconds < q.lower_bound * (1 - 1e-9)]
    assert len(false) <= 0.02 * len(quotes), false  # a disturbed machine may make a probe look slow


def test_the_report_says_what_was_saved_and_a_saved_egraph_holds_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGRAPH_OPT_CACHE", str(tmp_path / "cache"))
    onnx.save(fire(), tmp_path / "fire.onnx")
    run = Run(to_ir(fire()), Options(lazy_costs=True, measure=False))
    run.run()
    told = run.report.to_json()["lazy_costs"]
    assert told["wanted"] > 0
    assert told["measured"] + told["saved"] == told["wanted"]
    assert told["false bounds"] == 0 or told["saved"] == 0
    assert run.prices is not None
    assert told["saved"] == len({s.key for s, known in asked(run.prices) if not known})
    arguments = ["optimize", str(tmp_path / "fire.onnx"), "--lazy-costs", "--no-measure", "--save-egraph"]
    result = CliRunner().invoke(program(), [*arguments, str(tmp_path / "e.json")])
    assert result.exit_code == 0, result.output
    assert "could not change the answer" in result.output
    stored = read_egraph(tmp_path / "e.json")
    warm = CliRunner().invoke(program(), [*arguments[:2], "--no-measure", "--save-egraph", str(tmp_path / "f.json")])
    assert warm.exit_code == 0
    assert (read_egraph(tmp_path / "f.json").costs == stored.costs).all()
