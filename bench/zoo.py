"""Real models: how much faster ONNX Runtime runs what egraph-opt and its peers made of them, all raced together.

    python bench/zoo.py [PATTERN] [--out results.json] [--peers onnxsim,onnxslim] [--races N] [--samples N] [--fix]

The baseline is ONNX Runtime at its highest level on the original. Per model some races in sessions of their own,
random order, CPU time of one thread. A ratio is the geometric mean of the races, with its 95 % interval (Student's t on
their logarithms); "A/A" is how far the original differs from itself at most. Peers are optional packages (``pip install
onnxsim onnxslim``); one that is missing or fails is shown as such. "sizes" are the numbers at which the result was
verified, per symbolic size; with ``--fix`` inputs have numbers for them from the start, in the original, too. Below:
whether the marks are reached, and how well the sum of operator costs tells how long a model takes (Spearman's rho).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from intervals import interval
from peer_tools import PEERS
from rich.console import Console
from rich.table import Table
from zoo_models import LARGE, SHAPES, files, load, zoo_folder

from egraph_opt import optimize
from egraph_opt.onnx_io import to_ir
from egraph_opt.pipeline.sizes import measured_sizes
from egraph_opt.runtime import RaceResult, race
from egraph_opt.verification import random_feeds

NO_LOSS, CHANGED, ALL = 0.97, 1.15, 1.03
LEAST = {"ch_ppocr_mobile_v2.0_cls_infer": 1.4, "ch_PP-OCRv4_det_infer": 1.15}
"""The marks: ends of intervals, geometric means, and of two models alone."""


def bench(path: Path, peers: list[str], races: int, samples: int, *, fix: bool = False) -> dict[str, Any]:
    """One model: figures of the run, and one ratio per tool (none where the tool failed)."""
    original, shapes = load(path), SHAPES.get(path.stem, {})
    if fix:
        _fix(original, shapes)
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
    timed = [race(racers, feeds, samples=samples, budget_seconds=40 / races, seed=turn) for turn in range(races)]
    assert result.report.before is not None
    assert result.report.after is not None
    return {
        "model": path.stem.split("__")[-1],
        "outcome": str(result.report.outcome),
        "reason": result.report.reason,
        "seconds": seconds,
        "nodes": [result.report.before.nodes, result.report.after.nodes],
        "ratio": {name: interval([t.lap(name).ratio for t in timed]) for name in racers if name != "original"},
        "spread": max(t.spread for t in timed),
        "milliseconds": _milliseconds(timed, "original"),
        "estimated": [_ms(result.report.estimated_before), _ms(result.report.estimated_after)],
        "sizes": result.report.verdict.get("sizes", {}) if result.changed else {},
        "rules": dict(result.report.rules),
        "failed": failed,
    }


def _fix(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> None:
    """Writes numbers for the symbolic sizes of inputs: ONNX Runtime, too, is to know them."""
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = size


def _milliseconds(timed: Sequence[RaceResult], name: str) -> float:
    return min(t.lap(name).b10 for t in timed) * 1e3


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def show(rows: list[dict[str, Any]], peers: list[str]) -> None:
    table = Table(title="Speed against ONNX Runtime on the original (b10; above 1 is faster)")
    for column in ("model", "ORT ms", "estimated", "nodes", "egraph-opt", "95 %", "sizes", *peers, "A/A", "seconds"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        ratio, nodes = row["ratio"], row["nodes"]
        ours, low, high = ratio.get("egraph-opt", (1.0, 1.0, 1.0))
        changed = "egraph-opt" in ratio
        others = [f"{ratio[p][0]:.2f}" if p in ratio else "failed" for p in peers]
        table.add_row(
            str(row["model"]),
            f"{row['milliseconds']:.2f}",
            f"{row['estimated'][0]:.2f}" if row["estimated"][0] is not None else "",
            f"{nodes[0]} -> {nodes[1]}",
            f"{ours:.2f}" if changed else "unchanged",
            f"{low:.2f}-{high:.2f}" if changed else "",
            " ".join(f"{name}:{'/'.join(map(str, numbers))}" for name, numbers in row["sizes"].items()),
            *others,
            f"{row['spread']:.1%}",
            f"{row['seconds']:.0f}",
        )
    Console(width=180).print(table)


def judge(rows: list[dict[str, Any]]) -> None:
    """Prints each mark with what was reached, and the correlations."""
    changed = {r["model"]: r["ratio"]["egraph-opt"] for r in rows if "egraph-opt" in r["ratio"]}
    logs = [math.log(ratio) for ratio, _, _ in changed.values()]
    means = [math.exp(sum(logs) / max(count, 1)) for count in (len(logs), len(rows))]
    low = min(changed.items(), key=lambda item: item[1][1], default=("none", (1.0, 1.0, 1.0)))
    once = [r["model"] for r in rows for tried in r["sizes"].values() if len(tried) < 2]
    marks = [
        (f"lowest end of an interval, {low[0]}", low[1][1], NO_LOSS),
        (f"geometric mean over the {len(changed)} that changed", means[0], CHANGED),
        (f"geometric mean over all {len(rows)}", means[1], ALL),
        *((name, changed.get(name, (1.0,))[0], least) for name, least in LEAST.items() if _has(rows, name)),
    ]
    for what, reached, least in marks:
        print(f"{'reached' if reached >= least else 'MISSED ':8} {what}: {reached:.3f} (at least {least})")
    print(f"{'MISSED ' if once else 'reached':8} two numbers for each symbolic size: {', '.join(once) or 'all'}")
    known = [r for r in rows if r["estimated"][0] is not None]
    rho = _rank_correlation([r["estimated"][0] for r in known], [r["milliseconds"] for r in known])
    factor = statistics.median(r["estimated"][0] / r["milliseconds"] for r in known) if known else float("nan")
    print(f"estimated against measured, {len(known)} models: rho {rho:.3f}, median of estimated/measured {factor:.2f}")


def _has(rows: list[dict[str, Any]], name: str) -> bool:
    return any(row["model"] == name for row in rows)


def _rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's rho; ties do not occur between measured numbers."""
    if len(left) < 2:
        return float("nan")
    ranks = [np.argsort(np.argsort(values)) for values in (left, right)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="only files whose name contains this")
    parser.add_argument("--peers", default="onnxsim,onnxslim")
    parser.add_argument("--races", type=int, default=5)
    parser.add_argument("--samples", type=int, default=40, help="of each model in each race")
    parser.add_argument("--heavy", action="store_true", help="also vgg19, alexnet and zfnet512")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--fix", action="store_true", help="only files with sizes of their own, inputs fixed to these")
    arguments = parser.parse_args()
    peers = [p for p in arguments.peers.split(",") if p]
    rows: list[dict[str, Any]] = []
    for path in files(zoo_folder()):
        wanted = path.stem in SHAPES if arguments.fix else arguments.heavy or path.stem not in LARGE
        if arguments.pattern in path.name and wanted:
            print(f"{path.stem}...", flush=True)
            rows.append(bench(path, peers, arguments.races, arguments.samples, fix=arguments.fix))
            if arguments.out:
                arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows, peers)
    judge(rows)


if __name__ == "__main__":
    main()
