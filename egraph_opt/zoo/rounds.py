"""The start of a run, and its continuation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from egraph_opt.errors import UsageError
from egraph_opt.zoo.journal import Journal
from egraph_opt.zoo.settings import Rerun, Round, Settings, device_of, rules_fingerprint, settings_from


def enter_round(
    journal: Journal, source: Path, given: Mapping[str, Any], *, resume: bool = False, rerun: Rerun | None = None
) -> Round:
    """The round that is to be done: the first of a new run, the newest again (``resume``), or one more (``rerun``).

    Args:
        given: fields of ``Settings`` that the user chose; those of an existing run stand where nothing is said.

    Raises:
        UsageError: there is a run and nothing says to go on with it, or it was made with something else.
    """
    last = journal.rounds[-1] if journal.rounds else None
    if last is None:
        return _begin(journal, source, Settings(**given), "missing")
    if rerun is not None:
        return _begin(journal, source, dataclasses.replace(last.settings, **given), rerun)
    if not resume:
        raise UsageError(f"{journal.folder} holds a run: --resume finishes it, --rerun does models again")
    _check_same(journal.folder, last, source, given)
    return last


def _begin(journal: Journal, source: Path, settings: Settings, rerun: Rerun) -> Round:
    settings = settings_from(dataclasses.asdict(settings))
    settings.check()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    number = len(journal.rounds) + 1
    where, rules = str(source.absolute()), rules_fingerprint(settings)
    round_ = Round(number, rerun, where, settings, started, rules=rules, device=device_of(settings))
    journal.begin(round_)
    return round_


def _check_same(folder: Path, last: Round, source: Path, given: Mapping[str, Any]) -> None:
    """Says why results of now and of then do not belong in one table."""
    if last.source != str(source.absolute()):
        raise UsageError(f"the run in {folder} is of {last.source}, not of {source}: choose another --out")
    wanted = settings_from({**dataclasses.asdict(last.settings), **given})
    for name, value in dataclasses.asdict(wanted).items():
        before = getattr(last.settings, name)
        if value != before:
            raise UsageError(
                f"the run in {folder} has {name} {before!r}, not {value!r}: leave it out, or say with --rerun"
                " (failed, changed, all) what to do again"
            )
    wanted.check()
    rules, device = rules_fingerprint(wanted), device_of(wanted)
    now = Round(last.number, last.rerun, last.source, wanted, last.started, rules=rules, device=device)
    if now.config != last.config:
        changed = [name for name, number in now.versions.items() if last.versions.get(name) != number]
        changed += ["the rules"] * (now.rules != last.rules) + ["the machine"] * (now.device != last.device)
        raise UsageError(
            f"results would differ from those in {folder}, because of {', '.join(changed)}: --rerun changed does"
            " all again that this touches"
        )
