"""Where things are printed: data on stdout, progress and complaints on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from egraph_opt.errors import UsageError

if TYPE_CHECKING:
    from egraph_opt.pipeline import Progress as Event

WIDTH = 100
"""Columns of what is no terminal, and of tables on one that is wider."""
stdout = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
stderr = Console(stderr=True, highlight=False)

WORDS = {
    "import": "Reading the model",
    "saturate": "Finding equal graphs",
    "price": "Measuring operators",
    "time": "Timing candidates",
    "verify": "Verifying",
    "bisect": "Trying fewer rules",
}


class ProgressLine:
    """One line that says what is going on; plain lines where stderr is no terminal."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self._stage = quiet, ""
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=stderr,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, detail="")

    def __enter__(self) -> ProgressLine:
        if not self.quiet and stderr.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar.live.is_started:  # else it would print an empty line
            self._bar.stop()

    def __call__(self, event: Event) -> None:
        words = WORDS.get(event.stage, event.stage)
        if self.quiet:
            return
        if stderr.is_terminal:
            total = event.total or None
            counted = f"{event.done}/{event.total} {event.detail}" if event.total > 1 else event.detail
            self._bar.update(self._task, description=words, completed=event.done, total=total, detail=counted)
        elif event.stage != self._stage:
            stderr.print(f"{words}...")
        self._stage = event.stage


def table(title: str, *columns: str, right: Sequence[int] = ()) -> Table:
    """A table in the house style; columns whose index is in ``right`` are numbers."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        made.add_column(column, justify="right" if index in right else "left", overflow="fold")
    return made


def parse_shapes(option: str, values: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``NAME:1,3,224,224`` as a mapping; the name may hold colons itself.

    Raises:
        UsageError: a value is not of that form.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for value in values:
        name, _, sizes = value.rpartition(":")
        try:
            shapes[name] = tuple(int(s) for s in sizes.split(",")) if sizes else ()
        except ValueError:
            name = ""
        if not name:
            raise UsageError(f"{option} {value}: write NAME:1,3,224,224")
    return shapes


def parse_shape_sets(option: str, values: Sequence[str]) -> list[dict[str, tuple[int, ...]]]:
    """Several sets of shapes: a name that is given again starts another one; one that is given once is in all.

    Raises:
        UsageError: as ``parse_shapes``, or two names are given differently often.
    """
    found: dict[str, list[tuple[int, ...]]] = {}
    for value in values:
        for name, shape in parse_shapes(option, [value]).items():
            found.setdefault(name, []).append(shape)
    count = max(map(len, found.values()), default=1)
    for name, shapes in found.items():
        if len(shapes) not in (1, count):
            raise UsageError(f"{option} {name} is given {len(shapes)} times: give it once or {count} times")
    return [{name: shapes[min(i, len(shapes) - 1)] for name, shapes in found.items()} for i in range(count)]


def split_names(values: Sequence[str]) -> list[str]:
    """Comma-separated names, possibly given more than once."""
    return [name.strip() for value in values for name in value.split(",") if name.strip()]
