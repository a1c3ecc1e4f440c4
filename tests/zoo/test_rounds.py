"""What a run does when it is entered again: only what is missing, what failed, what changed, or all."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from egraph_opt.errors import UsageError
from egraph_opt.zoo import Journal, Outcome, Record, Rerun, Round, Settings, enter_round, read_records
from egraph_opt.zoo.batch import is_done
from tests.zoo.conftest import Run


def round_(number: int, rerun: Rerun, seed: int = 0) -> Round:
    return Round(number, rerun, "/zoo", Settings(target="analytic", seed=seed), "now", {}, "rules")


def record(made_in: Round, outcome: Outcome = Outcome.UNCHANGED) -> Record:
    return Record("m.onnx", "content", made_in.config, made_in.number, outcome, "", "now")


OLD = round_(1, "missing")


@pytest.mark.parametrize(
    ("rerun", "seed", "outcome", "stands"),
    [
        ("failed", 0, Outcome.UNCHANGED, True),
        ("failed", 1, Outcome.UNSUPPORTED, True),
        ("failed", 0, Outcome.TIMEOUT, False),
        ("failed", 0, Outcome.REJECTED, False),
        ("changed", 0, Outcome.TIMEOUT, True),
        ("changed", 1, Outcome.OPTIMIZED, False),
        ("all", 0, Outcome.OPTIMIZED, False),
    ],
)
def test_what_a_new_round_does_again(rerun: Rerun, seed: int, outcome: Outcome, stands: bool) -> None:
    assert is_done(record(OLD, outcome), "content", round_(2, rerun, seed)) == stands


@pytest.mark.parametrize(("rerun", "outcome"), list(itertools.product(get_args(Rerun), Outcome)))
def test_nothing_is_done_twice_in_a_round_unless_its_content_changed(rerun: Rerun, outcome: Outcome) -> None:
    now = round_(2, rerun)
    assert is_done(record(now, outcome), "content", now)
    assert not is_done(record(now, outcome), "other content", now)
    assert not is_done(None, "content", now)


def test_a_finished_run_is_left_alone(tmp_path: Path, folder: Path, jobs: ModuleType, run: Run) -> None:
    first = run(folder, jobs.copy)
    (folder / "relu.onnx").write_bytes(b"other content")
    second = run(folder, jobs.copy, resume=True)
    assert [name for name in first if first[name] != second[name]] == ["relu.onnx"]
    kept = {Path(r.output).parent.name for r in read_records(tmp_path / "run")}
    assert {path.name for path in (tmp_path / "run" / "models").iterdir()} == kept
    (tmp_path / "run" / "models" / ("0" * 64)).mkdir()  # as if killed before the record was written
    run(folder, jobs.copy, resume=True)
    assert {path.name for path in (tmp_path / "run" / "models").iterdir()} == kept
    assert len(read_records(tmp_path / "run")) == 5


def test_equal_results_are_stored_once(tmp_path: Path, jobs: ModuleType, run: Run) -> None:
    (tmp_path / "zoo").mkdir()
    for name in "ab":
        (tmp_path / "zoo" / f"{name}.onnx").write_bytes(b"the same")
    records = run(tmp_path / "zoo", jobs.copy, jobs=2)
    assert records["a.onnx"].output == records["b.onnx"].output
    assert (tmp_path / "run" / records["a.onnx"].output).read_bytes() == b"emas eht"


def test_a_run_is_not_entered_by_accident(tmp_path: Path, folder: Path) -> None:
    with Journal(tmp_path / "run") as journal:
        enter_round(journal, folder, {"target": "analytic", "skip_rules": ["a"]}, resume=True)
        with pytest.raises(UsageError, match="--resume"):
            enter_round(journal, folder, {})
        with pytest.raises(UsageError, match="target 'analytic', not 'ort-cpu'"):
            enter_round(journal, folder, {"target": "ort-cpu"}, resume=True)
        with pytest.raises(UsageError, match="another --out"):
            enter_round(journal, tmp_path, {}, resume=True)
        with pytest.raises(UsageError, match="--numerics"):
            enter_round(journal, folder, {"numerics": "loose"}, rerun="all")
        assert enter_round(journal, folder, {"skip_rules": ["a"]}, resume=True).number == 1
        again = enter_round(journal, folder, {"time_limit": 7.0}, rerun="failed")
        assert (again.number, again.settings.target, again.settings.time_limit) == (2, "analytic", 7.0)
        assert enter_round(journal, folder, {}, resume=True) == again


def test_other_rules_are_not_mixed_in(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path / "run") as journal:
        enter_round(journal, folder, {})
        monkeypatch.setattr("egraph_opt.zoo.rounds.rules_fingerprint", lambda _: "others")
        with pytest.raises(UsageError, match="the rules: --rerun changed"):
            enter_round(journal, folder, {}, resume=True)
        assert enter_round(journal, folder, {}, rerun="changed").rules == "others"
