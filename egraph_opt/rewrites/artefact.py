"""Rules as text: one JSON object per line, in a stable order, so that two generations can be compared with diff."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from egraph_opt.errors import UsageError
from egraph_opt.rewrites.rule import Effort, Rule
from egraph_opt.terms import Pattern, PatternError, Var, sides


def rules_to_text(rules: Sequence[Rule]) -> str:
    """The artefact of ``rules``, in their order."""
    return "".join(json.dumps(_plain(rule)) + "\n" for rule in rules)


def rules_from_text(text: str, source: str, *, effort: Effort = "thorough") -> tuple[Rule, ...]:
    """The rules of an artefact for an effort; ``source`` names it in complaints.

    Raises:
        UsageError: a line is no rule; the message names line and cause.
    """
    rules: list[Rule] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            stored = json.loads(line)
            if effort in ("thorough", stored.get("effort", "standard")):
                rules.append(_rule(stored))
        except (ValueError, KeyError, TypeError, AttributeError, PatternError) as error:
            raise UsageError(f"{source}, line {number}, is no rule: {error}") from None
    return tuple(rules)


def read_rules(path: str | Path, *, effort: Effort = "thorough") -> tuple[Rule, ...]:
    """The rules of an artefact file for an effort.

    Raises:
        UsageError: the file cannot be read, or a line of it is no rule.
    """
    try:
        return rules_from_text(Path(path).read_text(encoding="utf-8"), str(path), effort=effort)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"cannot read {path}: it is no text, let alone rules as lines of JSON") from None


def _plain(rule: Rule) -> dict[str, object]:
    return {
        "name": rule.name,
        "lhs": [_text(p) for p in rule.lhs],
        "rhs": [_text(p) for p in rule.rhs],
        "when": list(rule.when),
        "dtypes": rule.dtypes,
        "float_class": rule.float_class,
        "status": rule.status,
        "needs_order": rule.needs_order,
        "effort": rule.effort,
        "family": rule.family,
        "source": rule.source,
    }


def _rule(stored: dict[str, object]) -> Rule:
    lhs, rhs = (sides(tuple(str(t) for t in _list(stored[side]))) for side in ("lhs", "rhs"))
    return Rule(
        str(stored["name"]),
        lhs,
        rhs,
        tuple(str(c) for c in _list(stored["when"])),
        stored["dtypes"],  # type: ignore[arg-type]
        stored["float_class"],  # type: ignore[arg-type]
        str(stored["source"]),
        status=stored["status"],  # type: ignore[arg-type]
        family=str(stored["family"]),
        needs_order=bool(stored.get("needs_order", False)),
        effort=stored.get("effort", "standard"),  # type: ignore[arg-type]
    )


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _text(pattern: Pattern) -> str:
    return pattern.name if isinstance(pattern, Var) else str(pattern)
