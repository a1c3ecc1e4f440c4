"""What validation found, kept in the user's cache folder by the content of axiom, space and evaluators.

A report is found again only for the same text of the axiom, the same space and the same source of everything that
evaluates; a report on a sample is not kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import platformdirs

from egraph_opt.axioms.record import Axiom
from egraph_opt.axioms.space import Space
from egraph_opt.axioms.validate import Report

_EVALUATORS = ("axioms/*.py", "ops/**/*.py", "terms/*.py", "ir/*.py")
_KEPT = 4  # files of earlier evaluators


def content(axiom: Axiom, space: Space) -> str:
    """Hash of everything that an axiom says and of where it is tried."""
    said = (axiom.name, axiom.equation, axiom.when, axiom.dtypes, axiom.needs_order, axiom.definition, repr(space))
    return hashlib.sha256(repr(said).encode()).hexdigest()[:24]


@cache
def evaluators() -> str:
    """Hash of the source of operators, terms and validation, and of the version of NumPy."""
    root = Path(__file__).parent.parent
    found = hashlib.sha256(np.__version__.encode())
    for pattern in _EVALUATORS:
        for file in sorted(root.glob(pattern)):
            found.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:24]


def cache_folder() -> Path:
    """Where what was found out on this machine is kept: ``EGRAPH_OPT_CACHE``, or the user's cache folder."""
    chosen = os.environ.get("EGRAPH_OPT_CACHE")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("egraph-opt"))


class Cache:
    """Reports on this version of the evaluators; without a folder that can be written they last as long as it."""

    def __init__(self) -> None:
        self.file = cache_folder() / f"axioms-{evaluators()}.json"
        try:
            self._found: dict[str, dict[str, object]] = json.loads(self.file.read_text())
        except (OSError, ValueError):
            self._found = {}

    def get(self, axiom: Axiom, space: Space) -> Report | None:
        """The kept report of exactly this axiom."""
        fields = self._found.get(content(axiom, space))
        try:
            return Report(**fields) if fields is not None else None  # pyright: ignore[reportArgumentType] - our JSON
        except TypeError:
            return None

    def put(self, axiom: Axiom, space: Space, report: Report) -> None:
        """Keeps a report, on disk at once: an interrupted run goes on where it was."""
        self._found[content(axiom, space)] = dataclasses.asdict(report)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            aside = self.file.with_suffix(f".{os.getpid()}")
            aside.write_text(json.dumps(self._found, indent=1) + "\n")
            aside.replace(self.file)
            older = sorted(self.file.parent.glob("axioms-*.json"), key=lambda f: f.stat().st_mtime)
            for file in older[:-_KEPT]:
                file.unlink(missing_ok=True)
        except OSError:
            return
