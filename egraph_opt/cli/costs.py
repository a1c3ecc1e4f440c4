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
    stored = CostDatabase.open(database)
    rows = [(key, scope, entry) for key, scope, entry in stored.rows() if match in key and entry.seconds is not None]
    stored.close()
    rows.sort(key=lambda row: -(row[2].seconds or 0.0))
    made = table(f"{len(rows)} measured operators", "time", "device", "signature", right=(0,))
    for key, scope, entry in rows[:limit]:
        made.add_row(seconds(entry.seconds), scope.device, key)
    stdout.print(made)
