"""``egraph-opt costs``."""

from __future__ import annotations

from pathlib import Path

import typer

from egraph_opt.cli.console import seconds, stdout, table
from egraph_opt.runtime import CostDatabase

app = typer.Typer(help="Measured costs of operators.", no_args_is_help=True, rich_markup_mode=None)


@app.command("show")
def show_command(
    match: str = typer.Argument("", help="Only signatures that contain this text."),
    limit: int = typer.Option(30, help="How many rows, the most expensive first."),
    database: Path | None = typer.Option(None, metavar="FILE", help="Another database than the one in the cache."),
) -> None:
    """Show what has been measured, the most expensive first."""
    with CostDatabase.open(database) as stored:
        rows = sorted((r for r in stored.rows() if match in r.key), key=lambda r: -r.seconds)
    made = table(f"{len(rows)} measured operators", "seconds", "device", "signature", right=(0,))
    for row in rows[:limit]:
        made.add_row(seconds(row.seconds), getattr(row, "device", ""), row.key)
    stdout.print(made)
