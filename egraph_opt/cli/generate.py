"""``egraph-opt rules generate``."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import typer

from egraph_opt.cli.console import stderr, stdout, table
from egraph_opt.cli.output import STDOUT, check_outputs, write_json, write_text

TASO = {"equal": 28_744, "renamed": 17_346, "minimal": 743}
"""Substitutions that TASO reports after enumeration, renaming and common subgraphs, and in the end (SOSP 2019)."""


def generate_command(
    output: Path | None = typer.Option(
        None, "-o", "--output", metavar="FILE", help="Where the rules go, as JSON lines."
    ),
    work: Path | None = typer.Option(None, help="Folder that keeps finished worlds: a run that was killed goes on."),
    jobs: int = typer.Option(1, min=1, help="Processes; the rules do not depend on it."),
    seed: int = typer.Option(0, help="Seed of the random values; the same seed gives the same file."),
    world: list[str] = typer.Option([], help="Only these worlds of operators."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the counts; - for stdout."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress, no table."),
) -> None:
    """Generate rules from nothing: enumerate graphs, group them by value, learn conditions, drop what follows,
    prove the rest; then read the axioms themselves as rules.

    The file holds what is proved and worth applying; the table ends with what is not proved.
    """
    from egraph_opt.rewrites.artefact import rules_to_text
    from egraph_opt.rewrites.generate.generate import generate
    from egraph_opt.rewrites.generate.worlds import WORLDS

    check_outputs(output, json_file)
    known = [w.name for w in WORLDS]
    if set(world) - set(known):
        raise typer.BadParameter(f"the worlds are {', '.join(known)}")
    chosen = [w for w in WORLDS if not world or w.name in world]
    start = time.perf_counter()

    def progress(name: str, count: int) -> None:
        if not quiet:
            stderr.print(f"{name}: {count} rules, {time.perf_counter() - start:.0f} s", markup=False)

    made = generate(chosen, seed=seed, work=work, jobs=jobs, axioms=not world, on_progress=progress)
    seconds = time.perf_counter() - start
    if output is not None:
        write_text(output, rules_to_text(made.shipped))
    counts = {
        "seconds": seconds,
        "rules": len(made.rules),
        "shipped": len(made.shipped),
        "unproved": [{"equation": r.equation, "when": r.when} for r in made.unproved],
        "withheld": [{"equation": e, "reason": r} for e, r in made.withheld],
        "stages": [dataclasses.asdict(s) for s in made.stages],
        "refused": [{"equation": e, "reason": r} for e, r in made.refused],
        "taso": TASO,
    }
    if json_file is not None:
        write_json(json_file, counts)
        if json_file == STDOUT:
            return
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
    stdout.print(
        f"{len(made.rules)} rules in {seconds:.0f} s; {len(made.shipped)} ship, {len(made.withheld)} are kept back,"
        f" {len(made.unproved)} are not proved:",
        markup=False,
    )
    for rule in made.unproved:
        stdout.print(f"  {rule.equation}  when {', '.join(rule.when) or 'always'}", markup=False)
