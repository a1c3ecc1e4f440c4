"""``egraph-opt verify``."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import typer

from egraph_opt.cli.console import parse_shapes, stdout, table
from egraph_opt.cli.options import RuleFiles
from egraph_opt.cli.output import STDOUT, check_outputs, write_json
from egraph_opt.onnx_io import load_model
from egraph_opt.pipeline.report import plain
from egraph_opt.pipeline.sizes import measured_sizes
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.user import read_user_rules
from egraph_opt.rewrites.validation import effective_status
from egraph_opt.verification import Equality, Verdict, prove, verify


def verify_command(
    original: Path = typer.Argument(..., metavar="A", help="The model that is right."),
    candidate: Path = typer.Argument(..., metavar="B", help="The model in question."),
    numerics: str = typer.Option("standard", help="How close outputs must be: exact (bits), standard, fast."),
    measure_shape: list[str] = typer.Option([], metavar="NAME:1,3,224,224", help="Shapes of dynamic inputs."),
    time_limit: float | None = typer.Option(None, metavar="S", help="Start no further input after this."),
    seed: int = typer.Option(0, help="Seed of the random inputs."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the verdict; - for stdout."),
    by_rules: bool = typer.Option(False, "--prove", help="Also try to show by rules alone that they are equal."),
    rule_files: RuleFiles = [],  # noqa: B006 - typer copies it
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Show every output that was compared."),
) -> None:
    """Say whether two models are equivalent: interface, checker, and outputs on many inputs. Exit 0 yes, 1 no.

    With --prove both models are put into one e-graph too, and the rules of the level are applied until their outputs
    meet; exit 0 then asks for every output to have met (and no number against it)."""
    check_outputs(json_file, apart_from=(original, candidate, *rule_files))
    rules = (*all_rules(), *read_user_rules(rule_files))
    first, second = load_model(original), load_model(candidate)
    shapes = parse_shapes("--measure-shape", measure_shape)
    sizes = [measured_sizes(first, shapes)] if shapes else []
    verdict = verify(first, second, numerics=numerics, sizes=sizes, seed=seed, time_limit=time_limit)  # type: ignore[arg-type]
    equality = prove(first, second, numerics=numerics, rules=rules) if by_rules else None  # type: ignore[arg-type]
    if json_file is not None:
        write_json(json_file, plain(_as_json(verdict, equality)))
    if json_file != STDOUT:
        if equality is not None:
            _show_equality(equality, rules)
        _show_verdict(verdict, verbose=verbose)
    if equality is not None:
        raise typer.Exit(0 if equality.proved and verdict.kind not in ("different", "invalid") else 1)
    raise typer.Exit(0 if verdict.equivalent else 1)


def _as_json(verdict: Verdict, equality: Equality | None) -> dict[str, object]:
    shown = {**dataclasses.asdict(verdict), "equivalent": verdict.equivalent}
    return (
        shown if equality is None else {**shown, "proof": {**dataclasses.asdict(equality), "proved": equality.proved}}
    )


def _show_verdict(verdict: Verdict, *, verbose: bool) -> None:
    stdout.print(f"{verdict.kind}: {verdict.reason}", markup=False)
    for note in verdict.notes:
        stdout.print(f"Note: {note}", markup=False)
    if verbose:
        made = table("Compared", "output", "input", "level", "difference", "allowed", "fault", right=(3, 4))
        for row in verdict.evidence:
            made.add_row(row.output, row.case, row.level, f"{row.error:.2g}", f"{row.tolerance:.2g}", row.fault)
        stdout.print(made)


def _show_equality(equality: Equality, rules: Sequence[Rule]) -> None:
    stdout.print(f"{equality.kind}: {equality.reason}", markup=False)
    for output in equality.outputs:
        by = f"merged by {', '.join(output.rules)}" if output.rules else "merged"
        stdout.print(f"  {output.name}: {by if output.merged else f'not merged: {output.reason}'}", markup=False)
    if equality.rules:
        status = {rule.name: effective_status(rule) for rule in rules}
        named = ", ".join(f"{name} ({status[name]})" for name in equality.rules)
        stdout.print(f"  rules {'that are needed' if equality.minimal else 'that suffice'}: {named}", markup=False)
    elif any(output.merged for output in equality.outputs):
        stdout.print("  no rule was needed", markup=False)
    if equality.constants:
        apart = f"to {equality.difference:.1e} of their largest element" if equality.difference else "bit for bit"
        stdout.print(f"  {equality.constants} computed constants agree {apart}", markup=False)
    if equality.nodes:
        stdout.print(f"  {equality.rounds} rounds, {equality.nodes} e-nodes, {equality.seconds:.1f} s", markup=False)
