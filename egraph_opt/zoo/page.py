"""The report of a run: ``results.csv``, and ``report.html``, which needs nothing else."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egraph_opt.compare.plots import svg
from egraph_opt.errors import UsageError
from egraph_opt.units import seconds, size
from egraph_opt.zoo.journal import latest, read_records, read_rounds
from egraph_opt.zoo.plots import OUTCOME_COLOURS, STAGES, figures, stages
from egraph_opt.zoo.records import Outcome, Record
from egraph_opt.zoo.settings import Round, Settings
from egraph_opt.zoo.summary import speed_of, summarize
from egraph_opt.zoo.tables import to_csv

CSV, HTML = "results.csv", "report.html"
HELPERS = ("add-commutes", "mul-commutes")
"""Rules that only bring operands into the order that another rule wants."""
MOST_RULES = 3
"""Rules named in the table, those behind the most nodes."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model of a run: the record that counts, those before it, the round that made it, and the run's folder."""

    record: Record
    history: tuple[Record, ...]
    round: Round
    folder: Path


def write_report(runs: Sequence[Path], out: Path) -> list[Path]:
    """Writes the report of one run, or of several that are shards, into ``out``; returns what it wrote.

    Raises:
        UsageError: a folder holds no run, or the files cannot be written.
    """
    entries = sorted((entry for run in runs for entry in _entries(run)), key=lambda entry: entry.record.model)
    rounds = [read_rounds(run)[-1] for run in runs]
    texts = {CSV: to_csv([e.record for e in entries]), HTML: page(entries, rounds, out)}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            temporary = out / f".{name}.partial"
            temporary.write_text(text, errors="backslashreplace")
            temporary.replace(out / name)
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from None
    return [out / name for name in texts]


def _entries(run: Path) -> list[Entry]:
    records = read_records(run)
    rounds = {round_.number: round_ for round_ in read_rounds(run)}
    found: list[Entry] = []
    for name, record in latest(records).items():
        history = tuple(r for r in records if r.model == name and r is not record)
        found.append(Entry(record, history, rounds[record.round], run))
    return found


def page(entries: Sequence[Entry], rounds: Sequence[Round], out: Path) -> str:
    """The page's HTML; links lead from ``out`` to the optimized models."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("egraph_opt.zoo", "."), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"seconds": seconds, "size": size}
    records = [entry.record for entry in entries]
    return environment.get_template("report.html.j2").render(
        summary=summarize(records),
        rounds=rounds,
        settings=[_said(round_.settings) for round_ in rounds],
        plots={title: svg(figure) for title, figure in figures(records).items()},
        rows=[_row(entry, out) for entry in entries],
        outcomes={str(outcome): colour for outcome, colour in OUTCOME_COLOURS.items()},
        stages=STAGES,
    )


def _said(settings: Settings) -> str:
    """The settings that are not the defaults, as options."""
    said: list[str] = []
    for field in dataclasses.fields(Settings):
        value, option = getattr(settings, field.name), f"--{field.name.replace('_', '-')}"
        if value == field.default:
            continue
        if field.name == "measure":
            said.append("--no-measure")
        elif isinstance(value, bool):
            said.append(option)
        elif isinstance(value, list | tuple):
            said.append(f"{option} {','.join(value)}")
        else:
            said.append(f"{option} {value:g}" if isinstance(value, float) else f"{option} {value}")
    return " ".join(said)


def _row(entry: Entry, out: Path) -> dict[str, Any]:
    """A model for the table and for its own page."""
    record, report = entry.record, entry.record.report
    speed = speed_of(record)
    before, after = report.get("before") or {}, report.get("after") or {}
    source = Path(entry.round.source, record.model)
    options = _said(dataclasses.replace(entry.round.settings, time_limit=Settings.time_limit))
    total = sum(stages(record).values()) or 1.0
    rules = sorted(report.get("rules", {}).items(), key=lambda rule: (-rule[1], rule[0]))
    rules = [rule for rule in rules if rule[0] not in HELPERS]
    return {
        "record": record,
        "report": report,
        "speed": speed,
        "before": before,
        "after": after,
        "changed": _changed(before.get("operators", {}), after.get("operators", {})),
        "rule_counts": rules,
        "rules": ", ".join(f"{name} {count}" for name, count in rules[:MOST_RULES]),
        "stages": [(name, spent, spent / total) for name, spent in stages(record).items() if spent > 0],
        "source": source,
        "command": f"egraph-opt optimize {shlex.quote(str(source))} {options}".strip(),
        "output": os.path.relpath(entry.folder / record.output, out) if record.output else "",
        "history": entry.history,
        "order": list(Outcome).index(record.outcome),
    }


def _changed(before: dict[str, int], after: dict[str, int]) -> list[tuple[str, int, int]]:
    """Operators whose number changed, the most frequent first."""
    names = [name for name in {**before, **after} if before.get(name, 0) != after.get(name, 0)]
    rows = [(name, before.get(name, 0), after.get(name, 0)) for name in names]
    return sorted(rows, key=lambda row: (-max(row[1:]), row[0]))
