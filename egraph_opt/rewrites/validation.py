"""What the gates found, recorded beside the rules: a rule whose text changed has no record and must pass them again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from egraph_opt.axioms.cache import cache_folder, evaluators
from egraph_opt.errors import UnsoundRuleError
from egraph_opt.rewrites.prove import records
from egraph_opt.rewrites.prove.proof import Proof
from egraph_opt.rewrites.rule import Rule, Status
from egraph_opt.terms.gates import Verdict, check_equation

RECORDS = Path(__file__).with_name("validated.json")


def fingerprint(rule: Rule) -> str:
    """Hash of everything that the gates look at."""
    said = (rule.name, rule.equation, rule.when, rule.dtypes, rule.float_class, rule.status)
    said += ("needs order",) * rule.needs_order
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def recorded(rule: Rule) -> Verdict | None:
    """The recorded verdict of exactly this rule."""
    found = _records().get(fingerprint(rule))
    return Verdict(**found) if found is not None else None  # pyright: ignore[reportArgumentType] - JSON of a Verdict


def proof_of(rule: Rule) -> Proof | None:
    """The recorded proof of exactly this rule; ``rules check`` re-checks it."""
    found = records.read().get(fingerprint(rule))
    return found.proof if found is not None else None


def effective_status(rule: Rule) -> Status:
    """Whether the rule is a definition, and if not, whether a proof of it is recorded, whatever its file says."""
    if rule.status == "definition":
        return "definition"
    return "proved" if proof_of(rule) is not None else "unproved"


def judged(rule: Rule) -> Verdict:
    """What the gates say of a rule: by its record, by what was found before on this machine, or now."""
    return recorded(rule) or _kept(rule)


def admit(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules, once each has passed the gates: by its record, or now.

    Raises:
        UnsoundRuleError: a rule fails; the message holds the counterexample.
    """
    for rule in rules:
        verdict = judged(rule)
        if not verdict.passed:
            raise UnsoundRuleError(f"rule {rule.name} is refused: {verdict.reason}")
    return tuple(rules)


def write(verdicts: Mapping[str, Verdict], path: Path = RECORDS) -> None:
    """Replaces the records by these verdicts, which are by fingerprint."""
    path.write_text(json.dumps({k: dataclasses.asdict(v) for k, v in verdicts.items()}, indent=1) + "\n")
    _records.cache_clear()


def _kept(rule: Rule) -> Verdict:
    """A verdict from the user's cache folder, one file for each content of a rule and of what evaluates it."""
    folder = cache_folder() / "rules"
    file = folder / f"{hashlib.sha256(f'{fingerprint(rule)} {evaluators()}'.encode()).hexdigest()[:24]}.json"
    with suppress(OSError, ValueError, TypeError):
        return Verdict(**json.loads(file.read_text()))
    verdict = check_equation(rule)
    with suppress(OSError):  # without a folder that can be written it is found again each time
        folder.mkdir(parents=True, exist_ok=True)
        aside = file.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(dataclasses.asdict(verdict)) + "\n")
        aside.replace(file)
    return verdict


@cache
def _records() -> dict[str, dict[str, object]]:
    return json.loads(RECORDS.read_text()) if RECORDS.exists() else {}
