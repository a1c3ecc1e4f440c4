"""Several sizes: a verdict for each, and nothing is taken that is slower at one of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_ir
import pytest

from egraph_opt import Options, Outcome
from egraph_opt.cli.console import parse_shape_sets
from egraph_opt.errors import UsageError
from egraph_opt.pipeline.races import LARGEST_LOSS, AtSize, Races, race_at_sizes
from egraph_opt.runtime import RaceResult
from egraph_opt.runtime.timing import Lap

MAX_FOR_SMALL = '''
from dataclasses import dataclass
from egraph_opt.runtime.costs import Cost, Quote, work

@dataclass(frozen=True)
class Sized:
    """Relu takes 1 us whatever its size; Max is nearly free up to 100 bytes, and dear above."""

    name = "sized"
    description = "by size"

    def price(self, signatures, *, reference=(), on_progress=None, deadline=None):
        return [self.one(s) for s in signatures]

    def quote(self, signatures, *, reference=()):
        return [Quote.known(s, self.one(s)) for s in signatures]

    def one(self, s):
        todo = work(s)
        seconds = {"Max": 1e-9 if todo.bytes < 100 else 1e-3}.get(s.op, 1e-6)
        return Cost(seconds, todo.flops, todo.bytes, 0.0, "model")
'''
SMALL, LARGE = {"x": (1, 4)}, {"x": (1000, 4)}


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "sized.py"
    path.write_text(MAX_FOR_SMALL)
    return path


def test_what_gains_at_one_size_and_loses_at_another_is_not_taken(tools: Any, prices: Path) -> None:
    model = tools.parse("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    options = {"cost_model": prices, "only_rules": ["relu-to-max"]}
    assert tools.optimize(model, measure_shapes=SMALL, **options).changed
    assert not tools.optimize(model, measure_shapes=LARGE, **options).changed
    both = tools.optimize(model, measure_shapes=[SMALL, LARGE], **options).report
    assert both.outcome == Outcome.UNCHANGED
    assert "at every size" in both.reason


def test_each_size_has_its_estimate(tools: Any) -> None:
    model = tools.parse("g (float[N,4] x) => (float[N,4] y) { a = Relu(x) b = Relu(a) y = Exp(b) }")
    report = tools.optimize(model, measure_shapes=[SMALL, LARGE]).report
    assert report.outcome == Outcome.OPTIMIZED
    assert [at.sizes["x:0"] if "x:0" in at.sizes else at.sizes["N"] for at in report.at_sizes] == [1, 1000]
    assert [at.verdict for at in report.at_sizes] == ["faster", "faster"]
    assert report.at_sizes[0].ratio == pytest.approx(report.estimated_before / report.estimated_after)
    assert not any(at.measured for at in report.at_sizes)


def chain(op: str, count: int) -> onnx_ir.Model:
    steps = " ".join(f"v{i + 1} = {op.format(f'v{i}')}" for i in range(count))
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[N,N] v0) => (float[N,N] y) {{ {steps} y = Relu(v{count}) }}'
    )
    return onnx_ir.from_proto(onnx.parser.parse_model(text))


def test_a_race_at_each_size() -> None:
    """Each candidate has a ratio, an interval and a verdict at each size; which wins is the machine's to say."""
    candidates = {"products": chain("MatMul({0}, {0})", 3), "short": chain("Erf({0})", 1)}
    sizes = [{"N": 2}, {"N": 700}]
    races = race_at_sizes(chain("Erf({0})", 40), candidates, sizes, Options(), time.monotonic() + 12)
    assert races is not None
    assert set(races.names) == set(candidates)
    for name in races.names:
        every = races.at_sizes(name)
        assert [dict(at.sizes) for at in every] == sizes
        assert races.is_faster(name) == (any(at.verdict == "faster" for at in every) and all(at.holds for at in every))
        for at in every:
            assert at.low < at.ratio < at.high
            assert at.before / at.after == pytest.approx(at.ratio)
            assert (at.verdict == "faster") <= (at.ratio > 1)
            assert (at.verdict == "slower") <= (at.ratio < 1)
    assert races.ratio("short") ** 2 == pytest.approx(
        races.at_sizes("short")[0].ratio * races.at_sizes("short")[1].ratio
    )


def test_sizes_at_which_the_original_does_not_run_are_left_out() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,4] x) => (float[M,2] y)'
    text += " <int64[2] shape = {-1, 2}, float[3,1] w = {1, 2, 3}> { y = Reshape(z, shape) z = Add(x, w) }"
    text = text.replace("y = Reshape(z, shape) z = Add(x, w)", "z = Add(x, w) y = Reshape(z, shape)")
    model = onnx_ir.from_proto(onnx.parser.parse_model(text))
    races = race_at_sizes(model, {"same": model.clone()}, [{"N": 3}, {"N": 5}], Options(), time.monotonic() + 3)
    assert races is not None
    assert races.sizes == ({"N": 3},)
    assert races.skipped == ({"N": 5},)
    assert race_at_sizes(model, {"same": model.clone()}, [{"N": 5}, {"N": 3}], Options(), time.monotonic() + 3) is None


def result(ratio: float, spread: float) -> RaceResult:
    laps = (Lap("original", 1.0, 1.0, 1.0, 1.0, 9), Lap("other", 1 / ratio, 1 / ratio, ratio, ratio, 9))
    return RaceResult(laps, spread, "thread", 1, 1.0)


@pytest.mark.parametrize(
    ("ratios", "spread", "taken"),
    [
        ((1.1, 1.1), 0.01, True),
        ((1.1, 1.0), 0.01, True),
        ((1.1, 0.9), 0.01, False),
        ((1.0, 1.0), 0.01, False),
        ((1.3, 0.97), 0.2, False),  # noise may explain the loss, and may not
        ((1.3, 0.99), 0.2, True),
    ],
)
def test_which_is_taken(ratios: tuple[float, ...], spread: float, taken: bool) -> None:
    races = Races(tuple({"N": i} for i in range(len(ratios))), tuple(result(r, spread) for r in ratios))
    assert races.is_faster("other") is taken
    assert not taken or min(ratios) >= 1 - LARGEST_LOSS


def test_estimates_have_no_interval() -> None:
    assert AtSize.estimated({}, 2.0, 1.0).verdict == "faster"
    assert AtSize.estimated({}, 1.0, 1.0).verdict == "equal"
    assert not AtSize.estimated({}, 1.0, 2.0).holds


def test_names_given_again_start_another_size() -> None:
    given = ["ids:1,8", "mask:1,8", "ids:2,16", "mask:2,16", "scale:3"]
    assert parse_shape_sets("--measure-shape", given) == [
        {"ids": (1, 8), "mask": (1, 8), "scale": (3,)},
        {"ids": (2, 16), "mask": (2, 16), "scale": (3,)},
    ]
    assert parse_shape_sets("--measure-shape", []) == [{}]
    with pytest.raises(UsageError, match="ids is given 2 times: give it once or 3 times"):
        parse_shape_sets("--measure-shape", ["ids:1", "ids:2", "m:1", "m:2", "m:3"])


@pytest.fixture
def show() -> Callable[..., None]:
    from egraph_opt.cli.show import show_report

    return show_report


def test_the_screen_has_a_line_for_each(tools: Any, show: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = tools.parse("g (float[N,4] x) => (float[N,4] y) { a = Relu(x) b = Relu(a) y = Exp(b) }")
    report = tools.optimize(model, measure_shapes=[SMALL, LARGE]).report
    show(report, Path("in.onnx"), None, verbose=False)
    printed = capsys.readouterr().out
    assert printed.count("estimated  faster") == 2
