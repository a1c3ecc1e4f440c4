"""A run that is killed at random moments, and resumed each time, ends as one that was left alone."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

from egraph_opt.zoo import Outcome, Record, read_records

KILLS = 5  # `bench/zoo_killed.py` kills ten times, on any folder


def start(folder: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    code = "from egraph_opt.cli import main; main()"
    command = [sys.executable, "-c", code, "zoo", str(folder), "--out", str(out), "--progress", "json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[dict[str, object]]:
    """The events of a run that must succeed."""
    out, _ = process.communicate(timeout=500)
    assert process.returncode == 0
    return [json.loads(line) for line in out.splitlines()]


def result(record: Record) -> tuple[object, ...]:
    return record.model, record.digest, record.config, record.outcome, record.reason, record.output


def test_killed_again_and_again(tmp_path: Path, folder: Path) -> None:
    (folder / "scale.onnx").unlink()
    begin = time.monotonic()
    finish(start(folder, tmp_path / "whole", "--target", "analytic"))
    took = time.monotonic() - begin
    whole = {record.model: record for record in read_records(tmp_path / "whole")}
    assert sum(record.outcome is Outcome.OPTIMIZED for record in whole.values()) == 2

    rng = random.Random(0)
    counts: list[int] = []
    out = tmp_path / "killed"
    for _ in range(KILLS):
        process = start(folder, out, "--target", "analytic", "--resume")
        time.sleep(rng.uniform(0, took * 0.5))
        process.kill()
        process.communicate()
        counts.append(len(read_records(out)))
    events = finish(start(folder, out, "--resume"))
    left = sum(event["event"] == "finished" for event in events)

    records = read_records(out)
    assert counts == sorted(counts)
    assert left == len(whole) - counts[-1]
    assert len(records) == len(whole), "a model was done twice"
    assert {r.model: result(r) for r in records} == {r.model: result(r) for r in whole.values()}
    files = [
        {path.relative_to(run): path.read_bytes() for path in (run / "models").rglob("*") if path.is_file()}
        for run in (out, tmp_path / "whole")
    ]
    assert files[0] == files[1]
    assert not any((out / "work").iterdir())
