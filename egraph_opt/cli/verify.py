"""``egraph-opt verify``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import typer

from egraph_opt.cli.console import parse_shapes, stdout, table
from egraph_opt.onnx_io import load_model
from egraph_opt.pipeline.report import plain
from egraph_opt.pipeline.sizes import measured_sizes
from egraph_opt.verification import verify


def verify_command(
    original: Path = typer.Argument(..., metavar="A", help="The model that is right."),
    candidate: Path = typer.Argument(..., metavar="B", help="The model in question."),
    numerics: str = typer.Option("standard", help="How close outputs must be: exact (bits), standard, fast."),
    measure_shape: list[str] = typer.Option([], metavar="NAME:1,3,224,224", help="Shapes of dynamic inputs."),
    time_limit: float | None = typer.Option(None, metavar="S", help="Start no further input after this."),
    seed: int = typer.Option(0, help="Seed of the random inputs."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the verdict; - for stdout."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Show every output that was compared."),
) -> None:
    """Say whether two models are equivalent: interface, checker, and outputs on many inputs. Exit 0 yes, 1 no."""
    first, second = load_model(original), load_model(candidate)
    shapes = parse_shapes("--measure-shape", measure_shape)
    sizes = [measured_sizes(first, shapes)] if shapes else []
    verdict = verify(first, second, numerics=numerics, sizes=sizes, seed=seed, time_limit=time_limit)  # type: ignore[arg-type]
    if json_file is not None:
        text = json.dumps(plain({**dataclasses.asdict(verdict), "equivalent": verdict.equivalent}), indent=2)
        if json_file == Path("-"):
            typer.echo(text)
        else:
            json_file.write_text(text + "\n")
    if json_file != Path("-"):
        stdout.print(f"{verdict.kind}: {verdict.reason}", markup=False)
        for note in verdict.notes:
            stdout.print(f"Note: {note}", markup=False)
        if verbose:
            made = table("Compared", "output", "input", "level", "difference", "allowed", "fault", right=(3, 4))
            for row in verdict.evidence:
                made.add_row(row.output, row.case, row.level, f"{row.error:.2g}", f"{row.tolerance:.2g}", row.fault)
            stdout.print(made)
    raise typer.Exit(0 if verdict.equivalent else 1)
