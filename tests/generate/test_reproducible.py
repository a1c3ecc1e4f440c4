"""The same seed gives the same artefact, whatever the order of sets, the number of processes and earlier questions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites.library import generated_rules
from egraph_opt.rewrites.prove.smt import Answer, Oracle
from egraph_opt.rewrites.prove.world import World
from egraph_opt.terms import Equation

RUN = "from egraph_opt.cli import main; main()"


def _generated(folder: Path, hash_seed: int, jobs: int) -> tuple[str, dict[str, object]]:
    """The artefact and the counts of a small world, in a process whose sets are ordered by ``hash_seed``."""
    rules, counts = folder / f"{hash_seed}.jsonl", folder / f"{hash_seed}.json"
    options = ["--world", "units", "--jobs", str(jobs), "-q", "-o", str(rules), "--json", str(counts)]
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    subprocess.run([sys.executable, "-c", RUN, "rules", "generate", *options], env=environment, check=True)
    return rules.read_text(), json.loads(counts.read_text()) | {"seconds": 0}


def test_neither_hashes_nor_processes_change_the_artefact(tmp_path: Path) -> None:
    text, counts = _generated(tmp_path, 1, jobs=1)
    assert text
    assert text.count("\n") == counts["shipped"]
    assert _generated(tmp_path, 2, jobs=2) == (text, counts)


def test_what_z3_was_asked_before_does_not_change_an_answer() -> None:
    questions = [r for r in generated_rules() if "Concat" in r.equation][:6]

    def answers(asked: Sequence[Equation]) -> dict[str, Answer]:
        oracle = Oracle(all_axioms())
        return {q.name: oracle.ask(q, World(q, 4, 0)) for q in asked}

    assert answers(questions) == answers(questions[::-1])
