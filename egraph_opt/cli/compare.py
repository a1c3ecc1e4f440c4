"""``egraph-opt compare``."""

from __future__ import annotations

import math
from pathlib import Path

import typer

from egraph_opt.cli.console import ProgressLine, parse_shapes, split_names, stderr, stdout, table
from egraph_opt.cli.options import CostModelFile, RuleFiles
from egraph_opt.cli.output import STDOUT, check_outputs, write_json, write_text
from egraph_opt.compare import (
    BACKTRACKING,
    Comparison,
    Row,
    check_suffix,
    compare,
    open_subject,
    to_csv,
    to_json,
    write_page,
)
from egraph_opt.compare.tables import over_best
from egraph_opt.errors import UsageError
from egraph_opt.extraction import get_extractor
from egraph_opt.pipeline import Options


def compare_command(
    files: list[Path] = typer.Argument(..., metavar="MODEL|EGRAPH.json...", help="Models, or e-graphs as JSON."),
    names: list[str] = typer.Option([], "--extractors", metavar="A,B,C", help="Strategies; every one by default."),
    time_limit: float = typer.Option(30.0, metavar="S", min=0.0, help="Seconds per strategy and file."),
    seeds: int = typer.Option(1, min=1, help="Runs of each strategy that makes random choices."),
    target: str = typer.Option("ort-cpu", help="Whose costs count, for models."),
    measure_shape: list[str] = typer.Option([], metavar="NAME:1,3,224,224", help="Sizes of a model's symbolic input."),
    rule_files: RuleFiles = [],  # noqa: B006 - typer copies it
    cost_model: CostModelFile = None,
    no_measure: bool = typer.Option(False, "--no-measure", help="Do not time the extracted models."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write everything; - for stdout."),
    csv_file: Path | None = typer.Option(None, "--csv", metavar="FILE", help="Write the table."),
    plot: Path | None = typer.Option(None, metavar="FILE", help="Write a page (.html), or the plots (.png, .svg)."),
    quiet: bool = typer.Option(False, "-q", help="No progress."),
) -> None:
    """Compare extraction strategies: on e-graph files, and on models (where the search over whole graphs takes part,
    and what was extracted is timed)."""
    strategies = _strategies(split_names(names))
    options = Options(
        target=target,
        measure_shapes=parse_shapes("--measure-shape", measure_shape),
        rule_files=rule_files,
        cost_model=cost_model or "",
    )
    options.check()
    check_outputs(json_file, csv_file, plot, apart_from=(*files, cost_model, *rule_files))
    check_suffix(plot)
    with ProgressLine(quiet) as progress:
        subjects = [open_subject(file, options, progress) for file in files]
    if len({s.name for s in subjects}) < len(subjects):
        raise UsageError("two files have the same name; rename one, so that the rows can be told apart")
    found = compare(
        subjects,
        strategies,
        time_limit=time_limit,
        seeds=seeds,
        measure=not no_measure and options.target == "ort-cpu",
        on_row=None if quiet else _tell,
    )
    _write(found, json_file, csv_file, plot)
    if json_file != STDOUT:
        for subject in found.subjects:
            _show(found, subject.name, scale=1e3 if subject.is_model else 1.0)


def _strategies(names: list[str]) -> list[str]:
    for name in names:
        if name != BACKTRACKING:
            get_extractor(name)
    return names


def _tell(row: Row) -> None:
    said = row.error or f"{row.cost:.6g} in {row.seconds:.2f} s, {row.status}"
    stderr.print(f"{row.subject}: {row.strategy}: {said}", markup=False)


def _write(found: Comparison, json_file: Path | None, csv_file: Path | None, plot: Path | None) -> None:
    if json_file is not None:
        write_json(json_file, to_json(found))
    if csv_file is not None:
        write_text(csv_file, to_csv(found))
    if plot is not None:
        for path in write_page(found, plot):
            stderr.print(f"wrote {path}", markup=False)


def _show(found: Comparison, subject: str, scale: float) -> None:
    proof = "proven optimal" if found.is_proven(subject) else f"bound {found.bound(subject) * scale:.6g}"
    rows = found.of(subject)
    timed = any(row.measured for row in rows)
    columns = ["strategy", "ms" if scale > 1 else "cost", "over best", "gap", "status", "seconds", "nodes"]
    columns += ["measured ms", "speedup"] if timed else []
    made = table(f"{subject}: {found.best(subject) * scale:.6g}, {proof}", *columns, right=(1, 2, 3, 5, 6, 7, 8))
    for row in rows:
        if not row.error:
            made.add_row(*_cells(found, row, scale)[: len(columns)])
    stdout.print(made)
    for row in rows:
        if row.error:
            stdout.print(f"  {row.strategy}: {row.error}", markup=False)


def _cells(found: Comparison, row: Row, scale: float) -> list[str]:
    over = over_best(found, row)
    return [
        row.strategy,
        f"{row.cost * scale:.6g}",
        "best" if over == 0 else f"+{over:.2%}" if over is not None else "",
        f"{row.gap:.2%}" if math.isfinite(row.gap) else "",
        row.status,
        f"{row.seconds:.3f}" if row.seconds else "",
        str(row.nodes or ""),
        f"{row.measured * 1e3:.3f}" if row.measured else "",
        f"{row.ratio:.2f} x" if row.ratio else "",
    ]
