"""``egraph-opt axioms``."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

import typer

from egraph_opt.axioms import Axiom, all_axioms
from egraph_opt.axioms.run import validate_all
from egraph_opt.axioms.validate import Report
from egraph_opt.cli.console import stderr, stdout, table
from egraph_opt.cli.output import STDOUT, check_outputs, write_json
from egraph_opt.errors import UsageError, meant
from egraph_opt.units import seconds

app = typer.Typer(
    help="The properties of operators that rules are proved from: list them, hold them against the operators.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
METHODS = {"prime": "modulo a prime", "signed": "signed integers", "real": "float64"}


@app.command("list")
def list_command(
    family: str | None = typer.Option(None, help="Only this family."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the list; - for stdout."),
) -> None:
    """List the axioms: family, what they do to rounding, the equation, conditions, source."""
    check_outputs(json_file)
    axioms = _chosen([], family)
    if json_file is not None:
        write_json(json_file, [_plain(a) for a in axioms])
        if json_file == STDOUT:
            return
    made = table(f"{len(axioms)} axioms", "name", "family", "rounding", "equation", "when", "source")
    for a in axioms:
        made.add_row(a.name, a.family, a.float_class, a.equation.replace(" => ", " = "), " and ".join(a.when), a.source)
    stdout.print(made, markup=False)


@app.command("validate")
def validate_command(
    names: list[str] = typer.Argument(None, help="Axioms; all by default."),
    family: str | None = typer.Option(None, help="Only this family."),
    force: bool = typer.Option(False, "--force", help="Compute again what is known from an earlier run."),
    sample: int | None = typer.Option(None, min=1, help="Random combinations per axiom; every one by default."),
    jobs: int = typer.Option(2, min=1, help="Processes."),
    seed: int = typer.Option(0, help="Seed of values, and of the sample."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the reports; - for stdout."),
) -> None:
    """Try axioms on every combination of sizes 1 to 4, kernels, strides, dilations, pads and groups. Exit 1 if one is
    wrong."""
    check_outputs(json_file)
    axioms = _chosen(names or [], family)
    started = time.perf_counter()
    reports = validate_all(axioms, sample=sample, seed=seed, jobs=jobs, force=force, on_done=_tell)
    wall = time.perf_counter() - started
    if json_file is not None:
        write_json(json_file, {"seconds": wall, "totals": totals(reports), "axioms": [_record(r) for r in reports]})
    if json_file != STDOUT:
        _show(reports, wall)
    raise typer.Exit(0 if all(r.passed for r in reports) else 1)


def totals(reports: Sequence[Report]) -> dict[str, float]:
    """Sums over all axioms."""
    ways = {f"combinations_{m}": sum(r.combinations for r in reports if r.method == m) for m in METHODS}
    return {
        "axioms": len(reports),
        "exact": sum(r.exact for r in reports),
        "combinations": sum(r.combinations for r in reports),
        **ways,
        "skipped": sum(r.skipped for r in reports),
        "counterexamples": sum(bool(r.counterexample) for r in reports),
        "cpu_seconds": sum(r.seconds for r in reports),
    }


def _show(reports: Sequence[Report], wall: float) -> None:
    made = table("", "axiom", "result", "exact", "combinations", "skipped", "method", "seconds", right=(2, 3, 4, 6))
    for r in reports:
        made.add_row(
            r.axiom,
            "good" if r.passed else f"BAD: {r.counterexample}",
            f"{r.exact}",
            f"{r.combinations:,}",
            f"{r.skipped:,}",
            METHODS[r.method],
            f"{r.seconds:.1f}",
        )
    stdout.print(made, markup=False)
    sums = totals(reports)
    ways = ", ".join(f"{sums[f'combinations_{m}']:,} {words}" for m, words in METHODS.items())
    stdout.print(
        f"{sums['axioms']} axioms: {sums['exact']:,} small cases as polynomials, {sums['combinations']:,} combinations"
        f" ({ways}), {sums['skipped']:,} skipped, {sums['counterexamples']} counterexamples; {seconds(wall)}"
        f" ({seconds(sums['cpu_seconds'])} of work, some of it perhaps earlier)",
        markup=False,
        soft_wrap=True,
    )


def _tell(report: Report, done: int, count: int) -> None:
    if not report.passed:
        stderr.print(f"{report.axiom} is wrong: {report.counterexample}", markup=False, soft_wrap=True)
    if report.seconds > 5 or done == count or done % 50 == 0:
        stderr.print(f"{done}/{count} {report.axiom} ({seconds(report.seconds)})", markup=False)


def _chosen(names: Sequence[str], family: str | None) -> list[Axiom]:
    known = {a.name for a in all_axioms()}
    for name in names:
        if name not in known:
            raise UsageError(f"there is no axiom {name}{meant([name], known)}; `egraph-opt axioms list` shows them")
    found = [a for a in all_axioms() if family in (None, a.family) and (not names or a.name in names)]
    if not found:
        families = ", ".join(sorted({a.family for a in all_axioms()}))
        raise UsageError(f"no axiom is meant by that; the families are {families}")
    return found


def _record(report: Report) -> dict[str, object]:
    return {**dataclasses.asdict(report), "passed": report.passed}


def _plain(a: Axiom) -> dict[str, object]:
    return {
        "name": a.name,
        "family": a.family,
        "left": str(a.lhs[0]),
        "right": a.equation.split(" => ")[1],
        "when": list(a.when),
        "dtypes": a.dtypes,
        "float_class": a.float_class,
        "needs_order": a.needs_order,
        "definition": a.definition,
        "source": a.source,
    }
