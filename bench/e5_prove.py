"""E5 of TASO's artifact: prove the rules from the axioms, and check the proofs; TASO's published figures beside ours.

    python bench/e5_prove.py [--json FILE]

TASO (SOSP 2019) and its artifact appendix: 743 substitutions verified against 43 properties in 2 to 10 minutes, with
Z3 4.8.5 and a list of 25 rules to skip; a rule that is false makes it wait for ever. The same 133 shipped rules under
Z3 5.4.1: 115 proved within 60 s each (``facts/taso.md``, section 0).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.prove import check
from egraph_opt.rewrites.prove.canaries import CANARIES
from egraph_opt.rewrites.prove.find import attempt, oracle
from egraph_opt.rewrites.prove.proof import by_name
from egraph_opt.rewrites.prove.world import World


def measure() -> dict[str, object]:
    """Figures of this machine."""
    axioms, table = all_axioms(), by_name(all_axioms())
    begin = time.perf_counter()
    oracle(axioms)
    loaded = time.perf_counter() - begin
    begin = time.perf_counter()
    tried = [(rule, attempt(rule, axioms)) for rule in all_rules("thorough")]
    proving = time.perf_counter() - begin
    proved = [(rule, result.proof, result) for rule, result in tried if result.proof is not None]
    begin = time.perf_counter()
    for rule, proof, _ in proved:
        check(rule, proof, table)
    checking = time.perf_counter() - begin
    false = [oracle(axioms).ask(canary, World(canary, 6, 0)) for canary in CANARIES]
    search, z3 = ([r.milliseconds[i] for _, _, r in proved] for i in (0, 1))
    open_rules = [r.name for r, result in tried if result.proof is None and r.status == "unproved"]
    return {
        "axioms": len(axioms),
        "rules": len(tried),
        "proved": len(proved),
        "definitions": sum(result.proof is None and r.status == "definition" for r, result in tried),
        "open": open_rules,
        "load_s": loaded,
        "prove_s": proving,
        "search_ms": [statistics.median(search), max(search)],
        "z3_ms": [statistics.median(z3), max(z3)],
        "recheck_s": checking,
        "instances": [
            statistics.median(len(p.instances) for _, p, _ in proved),
            max(len(p.instances) for _, p, _ in proved),
        ],
        "false_goals": len(false),
        "false_goals_unknown": sum(a.status == "unknown" for a in false),
        "false_goals_ms": max(a.milliseconds for a in false),
    }


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures")
    options = parser.parse_args()
    found = measure()
    rows = [
        ("properties", "43 (44 in the file)", f"{found['axioms']}"),
        ("rules", "743, of which 25 are skipped", f"{found['rules']}"),
        ("proved", "all that are not skipped", f"{found['proved']} ({found['definitions']} more are definitions)"),
        ("neither", "-", f"{len(found['open'])}"),  # type: ignore[arg-type]
        ("time to prove", "2 to 10 minutes", f"{found['prove_s']:.1f} s"),
        ("search, median and most", "-", "{:.1f}, {:.0f} ms".format(*found["search_ms"])),  # type: ignore[misc]
        ("Z3, median and most", "most below 1 s", "{:.1f}, {:.0f} ms".format(*found["z3_ms"])),  # type: ignore[misc]
        ("false goals", "wait for ever", f"{found['false_goals_unknown']} of {found['false_goals']} unknown, at most"
         f" {found['false_goals_ms']:.0f} ms"),
        ("proofs checked without Z3", "none", f"{found['proved']} in {found['recheck_s']:.1f} s"),
        ("instances in a proof", "-", "median {:.0f}, at most {}".format(*found["instances"])),  # type: ignore[misc]
    ]  # fmt: skip
    for name, theirs, ours in (("", "TASO, published", "here"), *rows):
        print(f"{name:28}{theirs:32}{ours}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
