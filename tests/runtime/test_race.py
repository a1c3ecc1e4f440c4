"""Races of whole models. Nothing here asserts seconds; the variants differ by two orders of magnitude."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from egraph_opt.errors import UsageError
from egraph_opt.runtime import BaselineError, halving, race, timing
from egraph_opt.runtime.session import Array, run_session
from egraph_opt.runtime.timing import CONTROL


def products(count: int) -> bytes:
    """A chain of matrix products of 96 x 96."""
    text = "<ir_version: 10, opset_import: ['' : 21]> g (float[96,96] v0) => (float[96,96] out) { %s }"
    body = " ".join(f"v{i + 1} = MatMul(v{i}, v0)" for i in range(count))
    return onnx.parser.parse_model((text % f"{body} out = Relu(v{count})").replace("'", '"')).SerializeToString()


FEEDS = {"v0": np.random.default_rng(0).standard_normal((96, 96)).astype(np.float32) / 10}


def test_faster_model_wins_and_the_control_is_run() -> None:
    result = race({"slow": products(100), "fast": products(1), "same": products(100)}, FEEDS, samples=12)
    assert [lap.name for lap in result.laps] == ["slow", "fast", "same"]
    assert result.winner == "fast"
    assert result.is_faster("fast")
    assert result.lap("fast").ratio > 5
    assert not result.is_faster("slow")
    assert result.lap("slow").samples == 24
    assert result.lap("fast").samples == 12
    assert result.spread >= 0
    assert result.clock == "thread"
    assert 0 < result.lap("fast").b10 <= result.lap("fast").median
    with pytest.raises(KeyError):
        result.lap(CONTROL)


def test_slower_model_never_wins() -> None:
    result = race({"original": products(1), "worse": products(100)}, FEEDS, samples=8)
    assert result.winner == "original"
    assert result.lap("worse").ratio < 1


def test_budget_leaves_at_least_three_samples(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(products(2))
    result = race({"a": path, "b": products(2)}, FEEDS, threads=2, budget_seconds=1e-6, samples=1000, sessions=1)
    assert result.clock == "wall"
    assert result.lap("b").samples == 3


def test_halving_drops_the_slow_and_keeps_the_baseline() -> None:
    models = {"base": products(40), **{f"slow{i}": products(80) for i in range(3)}, "fast": products(1)}
    result = halving(models, FEEDS, samples=20)
    assert result.winner == "fast"
    assert result.lap("fast").samples == 20
    assert result.lap("base").samples == 40
    dropped = [lap.name for lap in result.laps if lap.samples < 20]
    assert dropped
    assert all(name.startswith("slow") for name in dropped)


@pytest.mark.parametrize(
    ("seconds", "ends"),
    [((0.5, 0.4), True), ((2.0, 2.1), True), ((0.5, 0.96), False), ((0.99, 1.01), False), ((0.99,), False)],
)
def test_it_ends_where_all_that_are_left_are_far_from_the_baseline(
    seconds: tuple[float, ...], ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"m{i}" for i in range(len(seconds))]
    takes = {"base": 1.0, CONTROL: 1.0, **dict(zip(names, seconds, strict=True))}
    monkeypatch.setattr(timing, "_sample", lambda runner, *_: takes[runner.name])
    monkeypatch.setattr(timing, "_keep", lambda active: active)
    result = halving(dict.fromkeys(["base", *names], products(1)), FEEDS, samples=100, budget_seconds=60.0)
    counts = {result.lap(name).samples for name in names}
    assert counts == ({32} if ends else {100})
    assert race(dict.fromkeys(["base", *names], products(1)), FEEDS, samples=100).lap(names[0]).samples == 100


@pytest.mark.parametrize(("cached", "untimed"), [(0.0, 1), (60.0, 2)])
def test_short_runs_have_two_untimed_ones(cached: float, untimed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def run(session: ort.InferenceSession, feeds: Mapping[str, Array]) -> list[Any]:
        runs.append(id(session))
        return run_session(session, feeds)

    monkeypatch.setattr(timing, "run_session", run)
    monkeypatch.setattr(timing, "_CACHED", cached)
    monkeypatch.setattr(timing, "_SHORTEST_SAMPLE", 0.0)
    race({"a": products(1), "b": products(2)}, FEEDS, samples=10, sessions=1)
    opened, once, sampled = 1, 2, 10 * (untimed + 1)
    assert list(Counter(runs).values()) == [opened + once + sampled] * 3


def test_what_does_not_run_is_left_out_unless_it_is_the_baseline() -> None:
    wrong = b"no model"
    fails = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[96,96] v0) => (float[?] out)'
        " <int64[1] shape = {7}> { out = Reshape(v0, shape) }"
    ).SerializeToString()
    models = {"base": products(2), "wrong": wrong, "fails": fails, "right": products(1)}
    assert [lap.name for lap in halving(models, FEEDS, samples=4).laps] == ["base", "right"]
    for baseline in (wrong, fails):
        with pytest.raises(BaselineError):
            halving({"base": baseline, "right": products(1)}, FEEDS, samples=4)


def test_nothing_to_race_and_bad_numbers_are_usage_errors() -> None:
    with pytest.raises(UsageError):
        race({}, FEEDS)
    with pytest.raises(UsageError):
        race({"a": products(1)}, FEEDS, samples=0)
    assert race({"a": products(1)}, FEEDS, samples=3).winner == "a"
