"""Every heuristic strategy on every e-graph of extraction-gym at hand: cost above the best known one, and seconds.

    python bench/heuristics.py [NAME ...] [--extractors a,b] [--time-limit 60] [--seed 0] [--random E_NODES]
                               [--arrays numpy|cupy] [--json FILE]

NAME picks the files whose name contains it. ``--random`` takes a made-up e-graph instead (see ``million.py``), so that
nothing but the package is needed; with ``--arrays cupy``, smoothe runs on the GPU.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from math import nan
from pathlib import Path
from statistics import median

from million import write_random_egraph

from egraph_opt.egraph import SerializedEGraph, read_egraph
from egraph_opt.errors import UsageError
from egraph_opt.extraction import Extraction, extract, extractors, get_extractor
from egraph_opt.extraction.smoothe import Smoothe

DATA = (
    Path(os.environ.get("EGRAPH_OPT_DATA", Path(__file__).resolve().parent.parent.parent / "shared"))
    / "data"
    / "egraphs"
)
DEFAULT = "tree-greedy,dag-greedy,area-flow,beam,genetic,annealing,smoothe,treewidth"


def main() -> None:
    """Runs and prints the table, row by row."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--extractors", default=DEFAULT, help=f"one or more of: {', '.join(e.name for e in extractors())}"
    )
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--random", type=int, metavar="E_NODES")
    parser.add_argument("--arrays", default="numpy")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    chosen = given.extractors.split(",")
    rows: list[dict[str, object]] = []
    print(f"{'e-graph':34}{'best known':>12} " + "".join(f"{name:>19}" for name in chosen))
    for name, stored, known in instances(given.names, given.random):
        print(f"{name[:33]:34}{known:12.7g} ", end="", flush=True)
        for strategy in chosen:
            options = {"arrays": importlib.import_module(given.arrays)} if strategy == Smoothe.name else {}
            started = time.perf_counter()
            try:
                extractor = get_extractor(strategy, **options)
                found = extract(
                    stored.egraph, stored.costs, extractor=extractor, time_limit=given.time_limit, seed=given.seed
                )
            except UsageError:
                print(f"{'refused':>19}", end="", flush=True)
                continue
            row = figures(name, known, found, time.perf_counter() - started)
            rows.append(row)
            print(f"{found.cost:>11.7g}{row['mark']}{row['seconds']:>6.2f}s", end="", flush=True)
        print()
    summary(rows, chosen)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n")


def instances(names: list[str], random: int | None) -> Iterator[tuple[str, SerializedEGraph, float]]:
    """Name, e-graph, and best known cost (NaN: none known)."""
    if random is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "random.json"
            write_random_egraph(path, random, 0)
            yield f"random, {random} e-nodes", read_egraph(path), nan
        return
    with (DATA / "reference_costs.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not names or any(name in row["file"] for name in names):
                yield row["file"].removesuffix(".json"), read_egraph(DATA / row["file"]), float(row["best_known_cost"])


def figures(name: str, known: float, found: Extraction, seconds: float) -> dict[str, object]:
    """One cell. ``mark``: ``*`` proven optimal, ``=`` equal to the best known cost."""
    excess = (found.cost - known) / abs(known) if known else found.cost
    mark = "*" if found.gap == 0.0 else "=" if abs(excess) < 1e-8 else " "
    return {
        "file": name,
        "extractor": found.extractor,
        "cost": found.cost,
        "lower_bound": found.lower_bound,
        "best_known": known,
        "excess": excess,
        "seconds": round(seconds, 3),
        "status": found.status,
        "stages": found.seconds,
        "notes": found.notes,
        "mark": mark,
    }


def summary(rows: list[dict[str, object]], chosen: list[str]) -> None:
    """Per strategy: how often it reached the best known cost and proved it, and how far it was off at worst."""
    for strategy in chosen:
        mine = [row for row in rows if row["extractor"] == strategy]
        if mine:
            excess = [float(str(row["excess"])) for row in mine]
            seconds = [float(str(row["seconds"])) for row in mine]
            print(
                f"{strategy:12} best known {sum(row['mark'] != ' ' for row in mine)} of {len(mine)},"
                f" proven {sum(row['mark'] == '*' for row in mine)}, worst +{max(excess):.2%},"
                f" seconds: median {median(seconds):.2f}, all {sum(seconds):.1f}"
            )


if __name__ == "__main__":
    main()
