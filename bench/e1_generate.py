"""E1 of TASO's artifact: generate the rules from nothing; TASO's published counts beside ours, and how it scales.

    python bench/e1_generate.py [--jobs N] [--scaling] [--json FILE]

TASO (SOSP 2019, table 3 and section 7): 28,744 substitutions are found, 17,346 are left after renaming inputs, 743
after common subgraphs; 5 to 10 minutes to generate them from 66 million graphs of up to four operators.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import time
from pathlib import Path

from egraph_opt.rewrites.generate.enumerate import Enumeration
from egraph_opt.rewrites.generate.generate import Generation, generate
from egraph_opt.rewrites.generate.worlds import ALGEBRA, WORLDS, World

TASO = {"equal": 28_744, "renamed": 17_346, "minimal": 743}


def stages(made: Generation, seconds: float) -> dict[str, object]:
    """The counts of a generation."""
    fields = [f.name for f in dataclasses.fields(made.stages[0]) if f.name != "world"]
    totals = {f: sum(getattr(s, f) for s in made.stages) for f in fields}
    own, workers = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        **totals,
        "shipped": len(made.shipped),
        "unproved": len(made.unproved),
        "withheld": len(made.withheld),
        "seconds": seconds,
        "largest_process_mib": max(own, workers) / 2**10,
    }


def scaling() -> list[tuple[str, int, int, int, float]]:
    """Terms, classes and seconds of enumeration: by operators in a term, variables, and forms of the first world."""
    variants: list[tuple[str, World]] = [
        (f"{n} operators", dataclasses.replace(ALGEBRA, operators=n)) for n in range(1, ALGEBRA.operators + 1)
    ]
    variants += [
        (f"{n} variables", dataclasses.replace(ALGEBRA, variables=ALGEBRA.variables[:n]))
        for n in range(1, len(ALGEBRA.variables) + 1)
    ]
    variants += [
        (f"{n} forms", dataclasses.replace(ALGEBRA, forms=ALGEBRA.forms[:n])) for n in range(1, len(ALGEBRA.forms) + 1)
    ]
    rows: list[tuple[str, int, int, int, float]] = []
    for name, world in variants:
        begin = time.perf_counter()
        found = Enumeration(world).run()
        rows.append((name, found.evaluated, len(found.classes), len(found.equal), time.perf_counter() - begin))
    return rows


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--scaling", action="store_true", help="only how enumeration scales")
    parser.add_argument("--json", type=Path, help="also write the figures")
    options = parser.parse_args()
    found: dict[str, object] = {}
    if not options.scaling:
        begin = time.perf_counter()
        made = generate(WORLDS, jobs=options.jobs, axioms=True)
        found = stages(made, time.perf_counter() - begin)
        print(f"{'':24}{'TASO, published':>18}{'here':>12}")
        for name, value in found.items():
            shown = f"{value:.0f}" if isinstance(value, float) else str(value)
            print(f"{name:24}{TASO.get(name, '-'):>18}{shown:>12}")
    rows = scaling()
    print(f"\n{'world algebra with':24}{'terms':>10}{'classes':>10}{'equal':>10}{'seconds':>10}")
    for name, terms, classes, equal, seconds in rows:
        print(f"{name:24}{terms:10}{classes:10}{equal:10}{seconds:10.2f}")
    if options.json:
        options.json.write_text(json.dumps({"generation": found, "scaling": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
