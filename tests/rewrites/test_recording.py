"""Records of gates and proofs: kept where a rule is unchanged, made where it is new."""

from __future__ import annotations

from pathlib import Path

from egraph_opt.rewrites import rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.prove import records
from egraph_opt.rewrites.recording import examine, write
from egraph_opt.rewrites.validation import RECORDS, fingerprint

KNOWN = next(r for r in all_rules() if fingerprint(r) in records.read())
TRUE = rule("twice-negative", "Neg(Neg(x))", "x", float_class="exact")
FALSE = rule("relu-is-nothing", "Relu(x)", "x", float_class="exact")


def test_new_rules_are_examined_and_those_refused_are_not_recorded(tmp_path: Path) -> None:
    known, true, false = examine([KNOWN, TRUE, FALSE], jobs=1)
    assert not known.fresh
    assert known.proof == records.read()[fingerprint(KNOWN)]
    assert true.fresh
    assert true.verdict.passed
    assert true.proof is not None
    assert not false.verdict.passed
    assert "float64" in false.verdict.reason  # the shapes that show it
    verdicts, proofs = tmp_path / "validated.json", tmp_path / "proofs.jsonl"
    write([known, true, false], verdicts, proofs)
    assert fingerprint(TRUE) in verdicts.read_text()
    assert fingerprint(FALSE) not in verdicts.read_text()
    assert set(records.read(proofs)) == {fingerprint(KNOWN), fingerprint(TRUE)}


def test_the_records_that_ship_are_what_is_written_of_them(tmp_path: Path) -> None:
    found = list(examine(all_rules("thorough"), jobs=1))
    assert not any(r.fresh for r in found)
    write(found, tmp_path / "validated.json", tmp_path / "proofs.jsonl")
    assert (tmp_path / "validated.json").read_bytes() == RECORDS.read_bytes()
    assert (tmp_path / "proofs.jsonl").read_bytes() == records.PROOFS.read_bytes()
