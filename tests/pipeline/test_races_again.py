"""A candidate that is faster by little must win a second race, in sessions of its own."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx.parser
import pytest

import egraph_opt
from egraph_opt.pipeline import choose
from egraph_opt.pipeline.races import Races
from egraph_opt.runtime.timing import Lap, RaceResult

SPREAD = 0.02


def model() -> onnx.ModelProto:
    header = '<ir_version: 8, opset_import: ["" : 17]>'
    return onnx.parser.parse_model(
        f"{header} g (float[2,3] x) => (float[2,3] y) {{ a = Neg(x) b = Neg(a) y = Relu(b) }}"
    )


def optimized(
    monkeypatch: pytest.MonkeyPatch, *ratios: float, samples: int = 100
) -> tuple[egraph_opt.OptimizeResult, int]:
    """The result where every candidate has these ratios in one race after the other, and how many there were."""
    raced: list[Sequence[str]] = []

    def told(_: object, candidates: dict[str, object], *__: object) -> Races:
        ratio = ratios[len(raced)]
        raced.append(list(candidates))
        laps = [
            Lap(name, 1.0, 1.0, r, r, samples) for name, r in [("original", 1.0), *((n, ratio) for n in candidates)]
        ]
        return Races(({},), (RaceResult(tuple(laps), SPREAD, "thread", 1, 1.0),))

    monkeypatch.setattr(choose, "race_at_sizes", told)
    return egraph_opt.optimize(model()), len(raced)


@pytest.mark.parametrize(("ratios", "changed"), [
    ((1.5,), True),  # by far: once is enough
    ((1.03, 1.03), True),
    ((1.03, 1.01), False),
    ((1.05, 0.9), False),
    ((1.01,), False),
])  # fmt: skip
def test_a_narrow_win_is_repeated(monkeypatch: pytest.MonkeyPatch, ratios: tuple[float, ...], changed: bool) -> None:
    result, races = optimized(monkeypatch, *ratios)
    assert result.changed == changed
    assert races == len(ratios)


def test_few_samples_are_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    result, races = optimized(monkeypatch, 1.5, 1.01, samples=10)
    assert not result.changed
    assert races == 2


def test_the_report_has_the_figures_of_the_last_race(monkeypatch: pytest.MonkeyPatch) -> None:
    assert optimized(monkeypatch, 1.05, 1.03)[0].report.speedup == 1.03
    assert "1.01 x" in optimized(monkeypatch, 1.05, 1.01)[0].report.reason
