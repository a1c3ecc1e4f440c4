"""A batch run while it goes on: bars for a terminal, a line per model for a log, JSON for programs."""

from __future__ import annotations

import json
from typing import Self

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from egraph_opt.cli.console import WORDS, stderr
from egraph_opt.zoo import Event, Record, speed_of

STAGES = {**WORDS, "load": "Starting", "save": "Writing"}
NAMES = 48
"""Characters of a model's name that are shown."""


class Silent:
    """Shows nothing; a view shows events while its ``with`` block lasts."""

    def __call__(self, event: Event) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Lines(Silent):
    """One line for each model that is through."""

    def __call__(self, event: Event) -> None:
        if event.kind == "finished" and event.record is not None:
            stderr.print(f"{event.done}/{event.total} {said(event.record)}", markup=False, soft_wrap=True)
        elif event.kind == "kept":
            stderr.print(f"{event.done}/{event.total} {event.model}: has its result", markup=False, soft_wrap=True)


class JsonLines(Silent):
    """One JSON object a line on stdout for each event."""

    def __call__(self, event: Event) -> None:
        shown = {"event": event.kind, "model": event.model, "done": event.done, "total": event.total}
        if event.stage:
            shown["stage"] = event.stage
        if event.record is not None:
            shown["record"] = {k: v for k, v in event.record.to_json().items() if k not in ("report", "log")}
        typer.echo(json.dumps(shown))


class Bars(Silent):
    """A bar for the run and a line for each model that is worked on; finished models scroll by above."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[said]}"),
            TimeElapsedColumn(),
            console=stderr,
            transient=True,
        )
        self._all = self._progress.add_task("all models", total=None, said="")
        self._rows: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        count = f"{event.done}/{event.total}"
        self._progress.update(self._all, total=event.total, completed=event.done, said=count)
        match event.kind:
            case "started":
                name = escape(event.model[-NAMES:])
                self._rows[event.model] = self._progress.add_task(name, total=None, said=STAGES["load"])
            case "stage":
                self._progress.update(self._rows[event.model], said=STAGES.get(event.stage, event.stage))
            case "finished" | "kept":
                if event.model in self._rows:
                    self._progress.remove_task(self._rows.pop(event.model))
                if event.record is not None:
                    self._progress.console.print(said(event.record), markup=False, soft_wrap=True)


VIEWS: dict[str, type[Silent]] = {"bars": Bars, "lines": Lines, "json": JsonLines, "none": Silent}


def view(name: str) -> Silent:
    """The view of a name; ``auto`` is bars on a terminal and lines elsewhere."""
    if name == "auto":
        name = "bars" if stderr.is_terminal else "lines"
    return VIEWS[name]()


def said(record: Record) -> str:
    """A record in one line."""
    speed = speed_of(record)
    gain = f", {speed.ratio:.2f} x {'faster' if speed.measured else 'by estimate'}" if speed else ""
    why = f": {record.reason}" if record.outcome.failed or record.outcome == "unsupported" else ""
    return f"{record.model}: {record.outcome}{gain}, {record.seconds:.1f} s{why}"
