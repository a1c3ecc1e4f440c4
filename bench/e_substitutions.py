"""Known substitutions of TASO and Tensat: which follow from the rules that ship, and which are refused as false.

    python bench/e_substitutions.py [--shapes 3] [--only NAME,NAME] [--json FILE]

A substitution follows when saturation of its left side alone, with the rules that ship, brings its right side into the
same class, on every one of the shapes that are drawn for it ("thorough": with those that load for thorough runs). False
ones go through the gates that every rule must pass.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.artefact import read_rules
from egraph_opt.terms import check_equation, draw
from egraph_opt.verification.derivable import least_effort

FOLDER = Path(__file__).with_name("substitutions")


@dataclass(frozen=True)
class Row:
    """One substitution.

    Attributes:
        detail: rounds and e-nodes that were needed at most, or the shapes that show that it is false.
    """

    name: str
    family: str
    result: str
    detail: str
    seconds: float
    source: str


def main() -> None:
    """Prints the table and its summary."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--shapes", type=int, default=3, help="shapes drawn for each substitution")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    chosen = {name for name in given.only.split(",") if name}
    jobs = [(rule, file) for file in ("known", "false") for rule in read_rules(FOLDER / f"{file}.jsonl")]
    rows: list[Row] = []
    for rule, file in jobs:
        if not chosen or rule.name in chosen:
            rows.append(known(rule, given.shapes) if file == "known" else false(rule))
            row = rows[-1]
            print(f"{row.name:36} {row.result:10} {row.seconds:6.2f} s  {row.detail}", flush=True)
    counts = {r: sum(row.result == r for row in rows) for r in ("derivable", "missing", "refused", "ACCEPTED")}
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    if given.json:
        given.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")


def known(rule: Rule, shapes: int) -> Row:
    """Whether a true substitution follows from the rules."""
    start = time.perf_counter()
    rounds = nodes = 0
    thorough = False
    for seed in range(shapes):
        rng = np.random.default_rng([seed, *rule.name.encode()])
        case = draw(rule, rng)
        assert case is not None, f"no shapes fit {rule.name}"
        effort, found = least_effort(rule, case, seed)
        thorough |= effort == "thorough"
        if effort is None:
            return Row(rule.name, rule.family, "missing", f"for {case}", time.perf_counter() - start, rule.source)
        rounds, nodes = max(rounds, found.rounds), max(nodes, found.nodes)
    detail = f"{rounds} rounds, {nodes} e-nodes{', thorough' * thorough}"
    return Row(rule.name, rule.family, "derivable", detail, time.perf_counter() - start, rule.source)


def false(rule: Rule) -> Row:
    """Whether the gates refuse a false substitution, and with which counterexample."""
    start = time.perf_counter()
    verdict = check_equation(rule, cases=60)
    result = "ACCEPTED" if verdict.passed else "refused"
    return Row(rule.name, rule.family, result, verdict.reason, time.perf_counter() - start, rule.source)


if __name__ == "__main__":
    main()
