"""Every error that egraph-opt raises on purpose, in one tree.

    EgraphOptError
    ├── UsageError          exit 2   an option is wrong
    ├── InvalidModelError   exit 3   the model cannot be used as it is
    │   └── UnsupportedModelError    it is valid, but nothing here can read it
    ├── BudgetError         exit 6   a limit was reached before there was any result
    └── UnsoundRuleError    exit 4   a rule broke an invariant: our fault, please report it

Each message is one sentence that names the cause, and where there is one, the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class EgraphOptError(Exception):
    """Base class; ``exit_code`` is what the command line returns."""

    exit_code = 4


class UsageError(EgraphOptError):
    """An option or argument cannot be used: unknown name, wrong shape, unwritable output."""

    exit_code = 2


class InvalidModelError(EgraphOptError):
    """The input is not a valid ONNX model, or a part of it is missing."""

    exit_code = 3


class UnsupportedModelError(InvalidModelError):
    """A model of a kind or an age that egraph-opt, or the installed onnx, does not handle."""


class BudgetError(EgraphOptError):
    """Time or memory ran out before there was anything to return."""

    exit_code = 6


class UnsoundRuleError(EgraphOptError):
    """Two classes with different concrete types became equal: a rule is wrong."""

    exit_code = 4


def meant(names: Iterable[str], known: Iterable[str]) -> str:
    """What an error adds to names that do not exist: those that were meant, perhaps; empty where none is near."""
    choices = sorted(known)
    near = dict.fromkeys(match for name in names for match in get_close_matches(name, choices, 2, 0.75))
    return f" (do you mean {' or '.join(near)}?)" if near else ""
