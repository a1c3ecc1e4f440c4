"""TASO's experiment E6, the validation of its operator properties, beside ours.

    python bench/e6_axioms.py [--sample N] [--jobs 2] [--force] [--json FILE]

TASO's figures are those of its artifact appendix (SOSP 2019) and of its repository (`verify.py`, counted by running its
generators of shapes); they were measured on other machines, so times compare orders of magnitude and no more.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import time
from pathlib import Path

from egraph_opt.axioms import all_axioms
from egraph_opt.axioms.run import validate_all
from egraph_opt.axioms.validate import Report

TASO = {
    "axioms": "44 (and 3 lemmas)",
    "combinations": "919,920",
    "sizes": "1-4",
    "kernels": "1, 3",
    "strides": "1, 2",
    "dilations": "1",
    "pads": "SAME, VALID",
    "groups": "from shapes; none in two of the spaces that need them",
    "method": "Z3 on reals, symbolic",
    "wrong axioms missed": "2 (sum and concat of grouped convolutions)",
    "core hours": "up to 80 (10 h on 8 cores)",
}


def main() -> None:
    """Runs the validation and prints both columns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sample", type=int, help="random combinations per axiom; every one by default")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--force", action="store_true", help="compute again what is known from an earlier run")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    started = time.perf_counter()
    reports = validate_all(
        all_axioms(), sample=given.sample, jobs=given.jobs, force=given.force or given.sample is not None
    )
    wall = time.perf_counter() - started
    ours = figures(reports, wall)
    width = max(map(len, TASO))
    print(f"{'':{width}}  {'TASO':54}  egraph-opt, {platform.machine()}, {os.cpu_count()} cores")
    for key, value in TASO.items():
        print(f"{key:{width}}  {value:54}  {ours[key]}")
    for key in (k for k in ours if k not in TASO):
        print(f"{key:{width}}  {'':54}  {ours[key]}")
    if given.json:
        data = {"taso": TASO, "ours": ours, "reports": [dataclasses.asdict(r) for r in reports]}
        given.json.write_text(json.dumps(data, indent=2) + "\n")


def figures(reports: list[Report], wall: float) -> dict[str, str]:
    """Our column."""
    work = sum(r.seconds for r in reports)
    wrong = [r.axiom for r in reports if not r.passed]
    return {
        "axioms": f"{len(reports)}",
        "combinations": f"{sum(r.combinations for r in reports):,}",
        "sizes": "1-4",
        "kernels": "1, 2, 3",
        "strides": "1, 2",
        "dilations": "1, 2",
        "pads": "6 patterns, each side explicit",
        "groups": "1, 2, all",
        "method": "modulo a prime, signed integers, floats; polynomials on small shapes",
        "wrong axioms missed": f"none known; refused now: {', '.join(wrong) or 'none'}",
        "core hours": f"{work / 3600:.2f} ({work:.0f} s of work; this run took {wall:.0f} s)",
        "polynomials": f"{sum(r.exact for r in reports):,} small cases compared exactly",
        "skipped": f"{sum(r.skipped for r in reports):,}",
    }


if __name__ == "__main__":
    main()
