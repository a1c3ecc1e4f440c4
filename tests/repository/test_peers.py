"""``bench/packs.py`` and ``bench/peers.py``: packs are models, and a bench of tools goes on where it was stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[2] / "bench"
TOOL = "ort-all"  # the one that is always there


def _run(folder: Path, *more: str) -> list[dict[str, Any]]:
    command = [
        sys.executable,
        str(BENCH / "peers.py"),
        "--out",
        str(folder),
        "--only",
        "halves",
        "--tools",
        TOOL,
        *more,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "peers.json").read_text())


def test_results_are_judged_and_kept(tmp_path: Path) -> None:
    rows = _run(tmp_path, "--no-latency")
    assert [(r["model"], r["tool"], r["fault"]) for r in rows] == [("halves", TOOL, "")]
    assert all(r["seconds"] > 0 and r["memory"] > 1e7 and r["nodes"][0] == 5 for r in rows)
    journal = tmp_path / "results.jsonl"
    kept = journal.read_text()
    assert _run(tmp_path, "--no-latency") == rows
    assert journal.read_text() == kept
    journal.write_text(kept[:-9])  # killed while it wrote
    assert _run(tmp_path, "--no-latency")[0]["nodes"] == rows[0]["nodes"]
    assert len(journal.read_text().splitlines()) == 1


def test_a_tool_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    rows = _run(tmp_path, "--no-latency", "--time-limit", "0.01")
    assert {r["fault"] for r in rows} == {"timeout"}


def test_packs_are_the_same_every_time() -> None:
    program = (
        "import packs; print([hash(packs.build(n).SerializeToString()) for n in packs.PACKS if 'nasrnn' not in n])"
    )
    environment = {"PYTHONHASHSEED": "0"}
    said = [
        subprocess.run([sys.executable, "-c", program], cwd=BENCH, capture_output=True, text=True, env=environment)
        for _ in range(2)
    ]
    assert said[0].returncode == 0, said[0].stderr
    assert said[0].stdout == said[1].stdout
