"""The rules that ship, and the choice among them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from egraph_opt.errors import UsageError, meant
from egraph_opt.rewrites import laws
from egraph_opt.rewrites.artefact import read_rules
from egraph_opt.rewrites.rule import LEVELS, Effort, Numerics, Rule

SHOWN = "`egraph-opt rules list` shows them"
"""What an error says of names that do not exist."""
GENERATED = Path(__file__).with_name("generated.jsonl")
"""What ``egraph-opt rules generate`` wrote; the proofs are recorded beside it, with those of the other rules."""


@cache
def generated_rules(effort: Effort = "thorough") -> tuple[Rule, ...]:
    """The rules that were found by machine, for an effort."""
    return read_rules(GENERATED, effort=effort)


@cache
def hand_rules() -> tuple[Rule, ...]:
    """The laws that are written by hand: definitions, and what the generator has no words for."""
    modules = sorted(m.name for m in pkgutil.iter_modules(laws.__path__))
    return tuple(r for m in modules for r in importlib.import_module(f"{laws.__name__}.{m}").RULES)


@cache
def all_rules(effort: Effort = "standard") -> tuple[Rule, ...]:
    """Every rule that ships for an effort, in a stable order: laws written by hand, then generated ones."""
    rules = hand_rules() + generated_rules(effort)
    names = [rule.name for rule in rules]
    assert len(set(names)) == len(names), "two rules have one name"
    return tuple(rule for rule in rules if effort in ("thorough", rule.effort))


def select_rules(
    rules: Sequence[Rule],
    numerics: Numerics = "standard",
    *,
    effort: Effort = "standard",
    skip: Sequence[str] = (),
    only: Sequence[str] = (),
) -> tuple[Rule, ...]:
    """The rules whose float class the level allows, less ``skip``, or ``only`` those named; families count as names.

    Rules for a ``thorough`` run are left out of others, unless they are named.

    Raises:
        UsageError: a name is neither a rule nor a family.
    """
    known = {r.name for r in rules} | {r.family for r in rules}
    unknown = sorted({*skip, *only} - known)
    if unknown:
        raise UsageError(f"there is no rule or family called {', '.join(unknown)}{meant(unknown, known)}; {SHOWN}")
    allowed = LEVELS[numerics]
    return tuple(
        r
        for r in rules
        if r.float_class in allowed
        and (effort in ("thorough", r.effort) or r.name in only)
        and not {r.name, r.family} & set(skip)
        and (not only or {r.name, r.family} & set(only))
    )
