"""After verification has refused what a try made: what is to blame, and what another try does without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from egraph_opt.pipeline.choose import Choice
from egraph_opt.pipeline.report import Refusal
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.rule import Status
from egraph_opt.rewrites.validation import effective_status

TRIES = 3
"""How often a model is tried again."""


def refusal(choice: Choice, reason: str, rules: Sequence[Rule], better_bodies: int) -> Refusal | None:
    """What another try does without: guilty rules, else optimized subgraphs, else all rules behind what differs.

    None where none of these is there.
    """
    names = _left_out(choice, rules) if choice.guilty or not better_bodies else ()
    if names:
        return Refusal(reason, names, blame(choice), f"tried again without {', '.join(names)}")
    if better_bodies:
        blamed = "no candidate with optimized subgraphs verified"
        return Refusal(reason, (), blamed, "tried again with the subgraphs as they are")
    return None


def blame(choice: Choice) -> str:
    """What is behind candidates that did not verify, rules or nothing but rounding; empty where nothing is known to."""
    if choice.guilty:
        return f"wrong results come from {', '.join(choice.guilty)}: please report this"
    if not choice.refused or choice.verdict is None or choice.verdict.kind == "unverified":
        return ""
    if not _suspects(choice) and choice.verdict.kind == "invalid":
        return "an invalid model was written, and no rule is known to be behind it: please report this"
    if choice.verdict.is_rounding:
        return (
            "the candidate computes the same, but rounds otherwise by more than is allowed: in float64, or without"
            " ONNX Runtime's own optimizations, the two agree"
        )
    return f"a rule that led to wrong results is among {', '.join(_suspects(choice))}: please report this"


def _left_out(choice: Choice, rules: Sequence[Rule]) -> tuple[str, ...]:
    """Of rules that are only guilty together, those that are believed least: without them the others are harmless.
    Where none is known, all behind what differs, of which exact ones do not round."""
    status = {rule.name: effective_status(rule) for rule in rules if rule.name in choice.guilty}
    if not status:
        rounding = choice.verdict is not None and choice.verdict.is_rounding
        exact = {rule.name for rule in rules if rounding and rule.float_class == "exact"}
        return tuple(name for name in _suspects(choice) if name not in exact)
    least = max(status.values(), key=get_args(Status).index)
    return tuple(name for name in choice.guilty if status.get(name) == least)


def _suspects(choice: Choice) -> tuple[str, ...]:
    """The rules behind candidates that compute something else; an invalid one may be the fault of what writes it."""
    different = [row for row in choice.rows if row.name in choice.refused and row.verdict == "different"]
    return tuple(dict.fromkeys(name for row in different for name in row.rules))
