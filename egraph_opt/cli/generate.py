"""``egraph-opt rules generate``."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import typer

from egraph_opt.cli.console import stderr, stdout, table

TASO = {"equal": 28_744, "renamed": 17_346, "minimal": 743}
"""Substitutions that TASO reports after enumeration, renaming and common subgraphs, and in the end (SOSP 2019)."""


def generate_command(
    output: Path | None = typer.Option(
        None, "-o", "--output", metavar="FILE", help="Where the rules go, as JSON lines."
    ),
    seed: int = typer.Option(0, help="Seed of the random values; the same seed gives the same file."),
    world: list[str] = typer.Option([], help="Only these worlds of operators."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the counts; - for stdout."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress, no table."),
) -> None:
    """Generate rules from nothing: enumerate graphs, group them by value, learn conditions, drop what follows."""
    from egraph_opt.rewrites.artefact import rules_to_text
    from egraph_opt.rewrites.generate.generate import generate
    from egraph_opt.rewrites.generate.worlds import WORLDS

    known = [w.name for w in WORLDS]
    if set(world) - set(known):
        raise typer.BadParameter(f"the worlds are {', '.join(known)}")
    chosen = [w for w in WORLDS if not world or w.name in world]
    start = time.perf_counter()
    said: set[str] = set()

    def progress(name: str, number: int, total: int) -> None:
        if not quiet and name not in said:
            said.add(name)
            stderr.print(f"{name}: {total} candidates...", markup=False)

    made = generate(chosen, seed=seed, on_progress=progress)
    seconds = time.perf_counter() - start
    if output is not None:
        temporary = output.with_name(f".{output.name}.partial")
        temporary.write_text(rules_to_text(made.rules))
        temporary.replace(output)
    counts = {
        "seconds": seconds,
        "rules": len(made.rules),
        "stages": [dataclasses.asdict(s) for s in made.stages],
        "refused": [{"equation": e, "reason": r} for e, r in made.refused],
        "taso": TASO,
    }
    if json_file is not None:
        if json_file == Path("-"):
            typer.echo(json.dumps(counts, indent=2))
            return
        json_file.write_text(json.dumps(counts, indent=2) + "\n")
    if quiet:
        return
    fields = [f.name for f in dataclasses.fields(made.stages[0])]
    shown = table("What each stage left", *fields, right=range(1, len(fields)))
    for stage in made.stages:
        shown.add_row(*(str(getattr(stage, f)) for f in fields))
    totals = [str(sum(getattr(s, f) for s in made.stages)) for f in fields[1:]]
    shown.add_row("all", *totals)
    shown.add_row("TASO", *(str(TASO.get(f, "")) for f in fields[1:]))
    stdout.print(shown)
    stdout.print(f"{len(made.rules)} rules in {seconds:.0f} s", markup=False)
