"""Extraction of 31 real e-graphs, beside the costs, proofs and seconds that are known of them.

    python bench/extraction.py [--extractor NAME] [--limit S] [--seeds 0,1,2] [--json FILE] [FILE ...]

Rows that the reference proves must be proved again in twice its seconds, or one. For the others the table shows how far
the cost is above the best that is known, and the gap to the proven bound. Wall and CPU seconds count from the parsed
file to the checked answer; CPU with that of worker processes. The files and ``reference_costs.csv`` lie in
``data/egraphs`` of the folder with the shared test data (``EGRAPH_OPT_DATA``).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from egraph_opt.egraph import read_egraph
from egraph_opt.extraction import extract

DATA = Path(os.environ.get("EGRAPH_OPT_DATA", Path(__file__).parents[2] / "shared")) / "data" / "egraphs"


@dataclass(frozen=True)
class Row:
    """One extraction beside its reference; seconds."""

    file: str
    seed: int
    cost: float
    best_known: float
    lower_bound: float
    gap: float
    status: str
    wall: float
    cpu: float
    allowed: float | None

    @property
    def verdict(self) -> str:
        """What the mark says of the row."""
        if self.cost > self.best_known + 1e-8 * abs(self.best_known):
            return f"{self.cost / self.best_known - 1:.2%} above the best known"
        if self.allowed is None:
            return "best known" if self.cost >= self.best_known - 1e-8 * abs(self.best_known) else "new best"
        if self.status != "optimal":
            return "NOT PROVED"
        return f"{self.wall / self.allowed:.2f} of the time"


def cpu_seconds() -> float:
    """Of this process and the children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def measure(reference: dict[str, str], extractor: str, limit: float, seed: int) -> Row:
    """Extracts one file."""
    stored = read_egraph(DATA / reference["file"])
    begin, cpu = time.perf_counter(), cpu_seconds()
    found = extract(stored.egraph, stored.costs, extractor=extractor, time_limit=limit, seed=seed)
    wall, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    proven = reference["ilp_status"] == "optimal"
    return Row(
        reference["file"].removesuffix(".json"),
        seed,
        found.cost,
        float(reference["best_known_cost"]),
        found.lower_bound,
        found.gap,
        str(found.status),
        wall,
        cpu,
        max(1.0, 2 * float(reference["ilp_seconds"])) if proven else None,
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="parts of file names; all if none is given")
    parser.add_argument("--extractor", default="portfolio")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds per e-graph")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--json", type=Path, help="also write the figures")
    options = parser.parse_args()
    with (DATA / "reference_costs.csv").open(encoding="utf-8") as file:
        references = [
            r for r in csv.DictReader(file) if not options.files or any(f in r["file"] for f in options.files)
        ]
    print(f"{'e-graph':42} {'seed':>4} {'cost':>12} {'bound':>12} {'gap':>8} {'wall s':>7} {'CPU s':>7}  mark")
    rows: list[Row] = []
    for reference in references:
        for seed in map(int, options.seeds.split(",")):
            row = measure(reference, options.extractor, options.limit, seed)
            rows.append(row)
            print(
                f"{row.file[:42]:42} {seed:4} {row.cost:12.8g} {row.lower_bound:12.8g} {row.gap:8.3%} {row.wall:7.2f}"
                f" {row.cpu:7.2f}  {row.verdict}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) | {"verdict": row.verdict} for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
