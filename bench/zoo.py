"""Real models: how much faster ONNX Runtime runs what egraph-opt and its peers made of them, all raced together.

    python bench/zoo.py [PATTERN] [--out results.json] [--peers onnxsim,onnxslim] [--samples N]

The baseline is ONNX Runtime at its highest level on the original. Per model one race, random order, CPU time of one
thread; "A/A" is how far the original differs from itself, so a ratio within 1 +- A/A is no difference. Peers are
optional packages (``pip install onnxsim onnxslim``); one that is missing or fails is shown as such.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import onnx
from peer_tools import PEERS
from rich.console import Console
from rich.table import Table
from zoo_models import LARGE, SHAPES, files, load, zoo_folder

from egraph_opt import Outcome, optimize
from egraph_opt.onnx_io import to_ir
from egraph_opt.pipeline.sizes import measured_sizes
from egraph_opt.runtime import race
from egraph_opt.verification import random_feeds


def bench(path: Path, peers: list[str], samples: int) -> dict[str, Any]:
    """One model: figures of the run, and one ratio per tool (none where the tool failed)."""
    original, shapes = load(path), SHAPES.get(path.stem, {})
    start = time.perf_counter()
    result = optimize(original, measure_shapes=shapes)
    seconds = time.perf_counter() - start
    assert isinstance(result.model, onnx.ModelProto)
    racers: dict[str, bytes | Path] = {"original": original.SerializeToString()}
    if result.changed:
        racers["egraph-opt"] = result.model.SerializeToString()
    failed: dict[str, str] = {}
    for name in peers:
        try:
            racers[name] = PEERS[name](load(path)).SerializeToString()
        except Exception as error:  # a peer may fail in any way; that is a result
            failed[name] = f"{type(error).__name__}: {error}"[:200]
    model = to_ir(original)
    feeds = random_feeds(model, measured_sizes(model, shapes))
    timed = race(racers, feeds, samples=samples, budget_seconds=30)
    assert result.report.before is not None
    assert result.report.after is not None
    return {
        "model": path.stem.split("__")[-1],
        "outcome": str(result.report.outcome),
        "reason": result.report.reason,
        "seconds": seconds,
        "nodes": [result.report.before.nodes, result.report.after.nodes],
        "ratio": {lap.name: lap.ratio for lap in timed.laps[1:]},
        "median": {lap.name: lap.median_ratio for lap in timed.laps[1:]},
        "spread": timed.spread,
        "milliseconds": timed.laps[0].b10 * 1e3,
        "rules": dict(result.report.rules),
        "failed": failed,
    }


def show(rows: list[dict[str, Any]], peers: list[str]) -> None:
    table = Table(title="Speed against ONNX Runtime on the original (b10; above 1 is faster)")
    for column in ("model", "ORT ms", "nodes", "egraph-opt", *peers, "A/A", "seconds"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        ratio, nodes = row["ratio"], row["nodes"]
        ours = f"{ratio['egraph-opt']:.2f}" if row["outcome"] == Outcome.OPTIMIZED else "unchanged"
        others = [f"{ratio[p]:.2f}" if p in ratio else "failed" for p in peers]
        table.add_row(
            str(row["model"]),
            f"{row['milliseconds']:.2f}",
            f"{nodes[0]} -> {nodes[1]}",
            ours,
            *others,
            f"{row['spread']:.1%}",
            f"{row['seconds']:.0f}",
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="only files whose name contains this")
    parser.add_argument("--peers", default="onnxsim,onnxslim")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--heavy", action="store_true", help="also vgg19, alexnet and zfnet512")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    peers = [p for p in arguments.peers.split(",") if p]
    rows: list[dict[str, Any]] = []
    for path in files(zoo_folder()):
        if arguments.pattern in path.name and (arguments.heavy or path.stem not in LARGE):
            print(f"{path.stem}...", flush=True)
            rows.append(bench(path, peers, arguments.samples))
            if arguments.out:
                arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows, peers)


if __name__ == "__main__":
    main()
