"""Rules of a user's own: files in the format of those that ship, through the same gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from egraph_opt.errors import UsageError
from egraph_opt.rewrites.artefact import read_rules
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.rule import Rule
from egraph_opt.rewrites.validation import fingerprint, judged
from egraph_opt.terms import Verdict


class RefusedRulesError(UsageError):
    """Rules of a user's file are wrong; the message names each, with shapes that show it."""


def read_user_rules(paths: Sequence[str | Path]) -> tuple[Rule, ...]:
    """The rules of all files, in order, once each has passed the gates; those that ship already are left out.

    What the gates say of a rule is kept by its content, so that a file is tried once and not in every run.

    Raises:
        UsageError: a file cannot be read, a line of it is no rule, or two rules have one name.
        RefusedRulesError: rules do not pass the gates.
    """
    known = {rule.name: fingerprint(rule) for rule in all_rules("thorough")} if paths else {}
    found: dict[str, Rule] = {}
    for path in paths:
        for rule in read_rules(path):
            if known.get(rule.name) == fingerprint(rule):
                continue
            if rule.name in known or rule.name in found:
                other = "a rule that ships" if rule.name in known else "another one"
                raise UsageError(f"{path}: the rule {rule.name} has the name of {other}: give it a name of its own")
            found[rule.name] = rule
    _check(tuple(found.values()), paths)
    return tuple(found.values())


def _check(rules: Sequence[Rule], paths: Sequence[str | Path]) -> None:
    verdicts = [(rule, judged(rule)) for rule in rules]
    refused = [f"  {rule.name}: {v.reason}{_hint(rule, v)}" for rule, v in verdicts if not v.passed]
    if refused:
        where = ", ".join(map(str, paths))
        raise RefusedRulesError("\n".join([f"{len(refused)} of {len(rules)} rules of {where} are wrong:", *refused]))


def _hint(rule: Rule, verdict: Verdict) -> str:
    """What would let a rule pass that holds for its operators, and not for any function in their place."""
    if not verdict.ring or not judged(replace(rule, needs_order=True)).passed:
        return ""
    return (
        "\n    (there, functions like Exp or Max are any functions; on numbers no difference was found. If the rule"
        ' holds because of what its operators are, say "needs_order": true)'
    )
