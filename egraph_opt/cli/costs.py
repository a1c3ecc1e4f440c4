"""``egraph-opt costs``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from egraph_opt.cli.console import stderr, stdout, table
from egraph_opt.cli.output import check_outputs, write_text
from egraph_opt.errors import UsageError
from egraph_opt.runtime import CostDatabase, Entry, Scope
from egraph_opt.units import seconds

_MAGIC = b"SQLite format 3\0"
app = typer.Typer(help="Measured costs of operators.", no_args_is_help=True, rich_markup_mode=None)


@app.command("show")
def show_command(
    match: str = typer.Argument("", help="Only signatures that contain this text."),
    limit: int = typer.Option(30, help="How many rows, the most expensive first."),
    database: Path | None = typer.Option(None, metavar="FILE", help="Another database than the one in the cache."),
) -> None:
    """Show what has been measured, the most expensive first."""
    with _opened(database) as stored:
        every = list(stored.rows())
    rows = [(key, scope, entry) for key, scope, entry in every if match in key and entry.seconds is not None]
    rows.sort(key=lambda row: -(row[2].seconds or 0.0))
    made = table(f"{len(rows)} measured operators", "time", "device", "signature", right=(0,))
    for key, scope, entry in rows[:limit]:
        made.add_row(seconds(entry.seconds), scope.device, key)
    stdout.print(made)


@app.command("measure")
def measure_command(
    signatures: Path = typer.Option(..., metavar="FILE", help="Signatures, one a line (bench/gpu_measure.py collect)."),
    database: Path | None = typer.Option(None, metavar="FILE", help="Another database than the one in the cache."),
    choices: Path | None = typer.Option(None, metavar="FILE", help="The fastest library calls, read and written."),
    time_limit: float | None = typer.Option(None, metavar="S", help="Stop after so many seconds."),
    fast: bool = typer.Option(False, help="Let float32 products and convolutions use TF32."),
) -> None:
    """Measure operators on this machine's GPU; what is in the database already is left alone."""
    from egraph_opt.runtime.cuda.measure import measure_into

    _check_database(database, new=True)
    stdout.print(str(measure_into(database, signatures, choices=choices, time_limit=time_limit, fast=fast)))


@app.command("export")
def export_command(
    out: Path = typer.Argument(..., metavar="FILE", help="Where to write; one measurement a line, as JSON."),
    database: Path | None = typer.Option(None, metavar="FILE", help="Another database than the one in the cache."),
    device: str = typer.Option("", help="Only devices whose name contains this text."),
) -> None:
    """Write measurements to a file that ``costs import`` reads on another machine."""
    check_outputs(out, apart_from=(database,))
    with _opened(database) as stored:
        rows = [(key, scope, e) for key, scope, e in stored.rows() if device in scope.device]
    lines = [json.dumps([k, s.device, s.versions, e.seconds, e.layout, e.note]) for k, s, e in rows]
    write_text(out, "".join(f"{line}\n" for line in lines))
    stderr.print(f"{len(lines)} measurements written to {out}", markup=False)


@app.command("import")
def import_command(
    source: Path = typer.Argument(..., metavar="FILE", help="What ``costs export`` wrote."),
    database: Path | None = typer.Option(None, metavar="FILE", help="Another database than the one in the cache."),
) -> None:
    """Take over measurements of another machine."""
    found: dict[Scope, dict[str, Entry]] = {}
    try:
        for line in source.read_text().splitlines():
            key, device, versions, taken, layout, note = json.loads(line)
            found.setdefault(Scope(device, versions), {})[str(key)] = Entry(taken, float(layout), str(note))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{source} holds no measurements: {error}") from None
    with _opened(database, new=True) as stored:
        for scope, entries in found.items():
            stored.write(entries, scope)
    stdout.print(f"{sum(map(len, found.values()))} measurements of {len(found)} devices taken over")


@contextmanager
def _opened(path: Path | None, *, new: bool = False) -> Iterator[CostDatabase]:
    _check_database(path, new=new)
    stored = CostDatabase.open(path)
    try:
        yield stored
    finally:
        stored.close()


def _check_database(path: Path | None, *, new: bool) -> None:
    """UsageError for a file of the user's that is missing, unless it is to be made, or is something else: a damaged
    database in the cache is moved aside, another's file is not."""
    if path is None or (new and not path.exists()):
        return
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if head and head != _MAGIC:
        raise UsageError(f"{path} is no database of costs")
