"""``egraph-opt zoo`` and ``report``: words on the command line, what is printed, and exit codes."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A model with something to gain, and a file that is none."""
    (tmp_path / "zoo" / "deep").mkdir(parents=True)
    shutil.copy(model, tmp_path / "zoo" / "deep" / "good.onnx")
    (tmp_path / "zoo" / "broken.onnx").write_bytes(b"\xff")
    return tmp_path / "zoo"


def test_a_run_its_report_and_its_end(cli: Cli, folder: Path, tmp_path: Path) -> None:
    out, summary = tmp_path / "run", tmp_path / "summary.json"
    first = cli("zoo", folder, "--out", out, "--target", "analytic", "--progress", "json", "--json", summary)
    assert first.code == 1, first.err
    events = [json.loads(line) for line in first.out.splitlines()]
    assert [e["model"] for e in events if e["event"] == "finished"] == ["broken.onnx", "deep/good.onnx"]
    assert events[-1]["summary"] == json.loads(summary.read_text())
    assert events[-1]["summary"]["outcomes"]["optimized"] == events[-1]["summary"]["failed"] == 1

    (folder / "broken.onnx").unlink()
    second = cli("zoo", folder, "--out", out, "--resume", "--fail-on", "regression", "--fail-on", "unsupported")
    assert second.code == 0, second.err
    assert "good.onnx: has its result" in second.err
    assert "estimated speed" in second.out

    for page in (out / "report.html", out / "results.csv"):
        page.unlink()
    third = cli("report", out, "--json", "-")
    assert third.code == 0
    assert json.loads(third.out)["models"] == 2
    with (out / "results.csv").open() as file:
        rows = {row["model"]: row for row in csv.DictReader(file)}
    assert rows["broken.onnx"]["outcome"] == "error"
    assert "deep/good.onnx" in (out / "report.html").read_text()

    worse = cli("zoo", folder, "--out", out, "--rerun", "all", "--only-rules", "relu-relu", "--fail-on", "regression")
    assert worse.code == 1
    assert "worse than before" in worse.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rerun", "some"], ["--rerun", "failed, changed, all"]),
        (["--fail-on", "rain"], ["--fail-on", "regression, unsupported"]),
        (["--progress", "loud"], ["--progress", "json"]),
        (["--shard", "3/2"], ["--shard", "i/n"]),
        (["--target", "abacus"], ["abacus"]),
        (["--time-limit", "-1"], ["--time-limit"]),
        (["--memory-limit", "0"], ["--memory-limit"]),
        (["--baseline", "nowhere"], ["holds no run"]),
    ],
)
def test_wrong_words_come_first(cli: Cli, folder: Path, tmp_path: Path, options: list[str], words: list[str]) -> None:
    cli("zoo", folder, "--out", tmp_path / "run", *options).complains(2, *words)
    assert not (tmp_path / "run" / "models").exists()


def test_no_models_no_run(cli: Cli, tmp_path: Path) -> None:
    cli("zoo", tmp_path / "absent", "--out", tmp_path / "run").complains(2, "no folder")
    (tmp_path / "empty").mkdir()
    cli("zoo", tmp_path / "empty", "--out", tmp_path / "run").complains(2, "no .onnx file")
    cli("report", tmp_path).complains(2, "holds no run")
    cli("report", tmp_path, tmp_path).complains(2, "--out")


def test_an_interrupt_keeps_what_is_finished(folder: Path, tmp_path: Path) -> None:
    code = "from egraph_opt.cli import main; main()"
    command = [sys.executable, "-c", code, "zoo", str(folder), "--out", str(tmp_path / "run"), "--progress", "json"]
    with subprocess.Popen(
        [*command, "--target", "analytic"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "started" and json.loads(line)["model"] == "deep/good.onnx":
                break
        process.send_signal(2)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"--resume does the rest" in said
    assert len((tmp_path / "run" / "results.jsonl").read_text().splitlines()) == 1
