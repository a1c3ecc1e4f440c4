"""Proofs of the shipped rules, one line of JSON each, in the order of the rules and without anything that varies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from egraph_opt.rewrites.prove.proof import Instance, Justified, Proof

PROOFS = Path(__file__).parents[1] / "proofs.jsonl"


@dataclass(frozen=True)
class Recorded:
    """A proof as it is recorded.

    Attributes:
        rule: fingerprint of exactly the rule that it proves.
        core: the axioms that Z3 needed when it proved the rule from the quantified axioms.
    """

    rule: str
    proof: Proof
    core: tuple[str, ...]


def write(records: Iterable[Recorded], path: Path = PROOFS) -> None:
    """Writes the records, one a line."""
    path.write_text("".join(json.dumps(_plain(r)) + "\n" for r in records))
    read.cache_clear()


@cache
def read(path: Path = PROOFS) -> dict[str, Recorded]:
    """The recorded proofs, by fingerprint of their rule."""
    if not path.exists():
        return {}
    records = [_record(json.loads(line)) for line in path.read_text().splitlines()]
    return {r.rule: r for r in records}


def _plain(record: Recorded) -> dict[str, object]:
    proof = record.proof
    return {
        "name": proof.equation,
        "rule": record.rule,
        "instances": [{"axiom": i.axiom, **dict(i.binding)} for i in proof.instances],
        "conditions": asdict(proof.justified),
        "z3": list(record.core),
    }


def _record(plain: dict[str, object]) -> Recorded:
    instances = [dict(i) for i in plain["instances"]]  # type: ignore[union-attr, attr-defined]
    proof = Proof(
        str(plain["name"]),
        tuple(Instance(i.pop("axiom"), tuple(sorted(i.items()))) for i in instances),
        Justified(**plain["conditions"]),  # type: ignore[arg-type]
    )
    return Recorded(str(plain["rule"]), proof, tuple(plain["z3"]))  # type: ignore[arg-type]
