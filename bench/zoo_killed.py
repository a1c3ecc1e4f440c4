"""A zoo run that is killed at random moments and resumed, beside one that is left alone: are the results the same?

    python bench/zoo_killed.py ZOO --out FOLDER [--kills 10] [--jobs 2] [-- --skip-rules ...]

Costs come from formulas and graphs from an extractor without a time limit, so that both runs choose the same. Exit 1 if
the results differ, or a model was done twice.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

from egraph_opt.zoo import Record, read_records

PROGRAM = [sys.executable, "-c", "from egraph_opt.cli import main; main()"]
DETERMINISTIC = ["--target", "analytic", "--extractor", "dag-greedy"]


def start(folder: Path, out: Path, jobs: int, options: list[str]) -> subprocess.Popen[bytes]:
    command = [*PROGRAM, "zoo", str(folder), "--out", str(out), "--jobs", str(jobs), "--progress", "none", "--resume"]
    return subprocess.Popen([*command, *DETERMINISTIC, *options], stdout=subprocess.DEVNULL)


def outputs(run: Path) -> dict[str, bytes]:
    """Every file below ``models``."""
    folder = run / "models"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def result(record: Record) -> tuple[str, ...]:
    """What must be the same."""
    return record.digest, record.config, str(record.outcome), record.output


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("options", nargs="*", help="more options of egraph-opt zoo")
    chosen = parser.parse_args()
    whole, killed, rng = chosen.out / "whole", chosen.out / "killed", random.Random(chosen.seed)

    begin = time.monotonic()
    start(chosen.folder, whole, chosen.jobs, chosen.options).wait()
    took = time.monotonic() - begin
    expected = {record.model: record for record in read_records(whole)}
    print(f"left alone: {len(expected)} models in {took:.0f} s", flush=True)

    for number in range(1, chosen.kills + 1):
        process = start(chosen.folder, killed, chosen.jobs, chosen.options)
        moment = rng.uniform(0, 1.6 * took / chosen.kills)
        time.sleep(moment)
        process.kill()
        process.wait()
        print(f"kill {number} after {moment:.1f} s: {len(read_records(killed))} models done", flush=True)
    start(chosen.folder, killed, chosen.jobs, chosen.options).wait()

    records = read_records(killed)
    found = {record.model: record for record in records}
    different = [n for n in {**expected, **found} if n not in found or result(found[n]) != result(expected[n])]
    same_files = outputs(whole) == outputs(killed)
    print(f"{len(records)} records of {len(found)} models; {len(outputs(killed))} output files")
    print(f"results that differ: {', '.join(different) or 'none'}; files {'equal' if same_files else 'DIFFER'}")
    return 0 if not different and same_files and len(records) == len(expected) else 1


if __name__ == "__main__":
    sys.exit(main())
