"""Gates and proofs of the rules that ship, recorded beside them, so that nobody needs to run them at every start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites import validation
from egraph_opt.rewrites.prove import records
from egraph_opt.rewrites.prove.find import Attempt, attempt
from egraph_opt.rewrites.rule import Rule
from egraph_opt.terms.gates import Verdict, check_equation


@dataclass(frozen=True)
class Recording:
    """What is known of one rule.

    Attributes:
        proof: the recorded or the new proof; ``None`` where none was found, or for a definition that needs none.
        reason: why there is no proof, of a rule that was tried now.
        fresh: whether the gates ran now.
    """

    rule: Rule
    verdict: Verdict
    proof: records.Recorded | None
    reason: str
    fresh: bool


def examine(rules: Sequence[Rule], *, anew: bool = False, jobs: int = 2) -> Iterator[Recording]:
    """The rules in their order, each with its records; what has none yet (or, ``anew``, everything) goes through the
    gates and is tried with Z3."""
    waiting = [r for r in rules if anew or validation.recorded(r) is None]
    known = records.read()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        found = iter(pool.map(_examine, waiting))
        for rule in rules:
            verdict, name = validation.recorded(rule), validation.fingerprint(rule)
            if verdict is not None and not anew:
                yield Recording(rule, verdict, known.get(name), "", fresh=False)
                continue
            verdict, tried = next(found)
            proof = records.Recorded(name, tried.proof, tried.core) if tried.proof is not None else None
            yield Recording(rule, verdict, proof, tried.reason, fresh=True)


def write(
    recordings: Sequence[Recording], verdicts_file: Path = validation.RECORDS, proofs_file: Path = records.PROOFS
) -> None:
    """Replaces the records by those of these rules that passed, in their order."""
    passed = [r for r in recordings if r.verdict.passed]
    verdicts = {validation.fingerprint(r.rule): r.verdict for r in passed}
    validation.write(verdicts, verdicts_file)
    records.write((r.proof for r in passed if r.proof is not None), proofs_file)


def _examine(rule: Rule) -> tuple[Verdict, Attempt]:
    return check_equation(rule), attempt(rule, all_axioms())
