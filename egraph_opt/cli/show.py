"""A report on the screen."""

from __future__ import annotations

from pathlib import Path

from egraph_opt.cli.console import stdout, table
from egraph_opt.pipeline import Outcome, Report
from egraph_opt.units import seconds, size

HELPERS = ("add-commutes", "mul-commutes")
"""Rules that only bring operands into the order that another rule wants: left out of the short list."""


def show_report(report: Report, source: Path, output: Path | None, *, verbose: bool) -> None:
    """Prints what changed, what it gained, why it is believed, and where the time went."""
    stdout.print()
    _headline(report, source, output)
    if report.before is not None and report.after is not None:
        _models(report)
        _operators(report, verbose)
    if report.rules:
        _rules(report, verbose)
    if report.candidates and verbose:
        _candidates(report)
    if len(report.at_sizes) > 1:
        _sizes(report)
    _evidence(report)
    _time(report)


def _headline(report: Report, source: Path, output: Path | None) -> None:
    words = {
        Outcome.OPTIMIZED: "optimized",
        Outcome.UNCHANGED: "unchanged",
        Outcome.REJECTED: "rejected by verification; the original is kept",
        Outcome.BUDGET: "out of budget; the original is kept",
        Outcome.FAILED: "failed; the original is kept",
    }
    gain = f", [bold]{report.speedup:.2f} x faster[/bold]" if report.speedup else ""
    stdout.print(f"[bold]{source.name}[/bold]: {words[report.outcome]}{gain}")
    if report.reason:
        stdout.print(report.reason, markup=False)
    if output is not None:
        stdout.print(f"written to {output}", markup=False)
    stdout.print()


def _models(report: Report) -> None:
    assert report.before is not None and report.after is not None
    made = table("Model", "", "before", "after", right=(1, 2))
    rows = [
        ("nodes", str(report.before.nodes), str(report.after.nodes)),
        ("parameters", f"{report.before.parameters:,}", f"{report.after.parameters:,}"),
        ("weights", size(report.before.weight_bytes), size(report.after.weight_bytes)),
        ("opset", str(report.before.opset), str(report.after.opset)),
        ("estimated", seconds(report.estimated_before), seconds(report.estimated_after)),
        ("measured", seconds(report.latency_before), seconds(report.latency_after)),
    ]
    for row in rows:
        if row[1] != "-":
            made.add_row(*row)
    stdout.print(made)
    stdout.print()


def _operators(report: Report, verbose: bool) -> None:
    assert report.before is not None and report.after is not None
    before, after = report.before.operators, report.after.operators
    names = sorted({*before, *after}, key=lambda n: (-max(before.get(n, 0), after.get(n, 0)), n))
    changed = [n for n in names if before.get(n, 0) != after.get(n, 0)]
    shown = names if verbose else changed
    if not shown:
        return
    made = table("Operators" if verbose else "Operators that changed", "", "before", "after", right=(1, 2))
    for name in shown:
        made.add_row(name, str(before.get(name, 0)), str(after.get(name, 0)))
    stdout.print(made)
    stdout.print()


def _rules(report: Report, verbose: bool) -> None:
    made = table("Rules that did it", "rule", "places", right=(1,))
    for name, count in report.rules.items():
        if verbose or name not in HELPERS:
            made.add_row(name, str(count))
    stdout.print(made)
    stdout.print()


def _candidates(report: Report) -> None:
    made = table("Candidates", "", "estimated", "status", "nodes", "speed", "verified", right=(1, 3, 4))
    for row in report.candidates:
        speed = f"{row.ratio:.3f} x" if row.ratio else "-"
        made.add_row(row.name, seconds(row.estimated), row.status, str(row.nodes), speed, row.verdict or "-")
    stdout.print(made)
    stdout.print()


def _sizes(report: Report) -> None:
    """A verdict for each size, where there are several."""
    made = table("At each size", "size", "before", "after", "speed", "interval", "", right=(1, 2, 3, 4))
    for at in report.at_sizes:
        said = ", ".join(f"{name} = {size}" for name, size in at.sizes.items())
        interval = f"{at.low:.3f} - {at.high:.3f}" if at.measured else "estimated"
        made.add_row(said, seconds(at.before), seconds(at.after), f"{at.ratio:.3f} x", interval, at.verdict)
    stdout.print(made)
    stdout.print()


def _evidence(report: Report) -> None:
    if report.verdict:
        worst = report.verdict.get("worst")
        line = f"Verification: {report.verdict['reason']}"
        if worst:
            line += f"; largest difference {worst['error']:.2g} (allowed {worst['tolerance']:.2g})"
        stdout.print(line, markup=False)
    if report.control_spread is not None:
        stdout.print(
            f"Timing: {report.clock} clock, ratio of the fastest tenth; the original differs from itself by"
            f" {report.control_spread:.1%}",
            markup=False,
        )
    if report.measured_sizes:
        sizes = ", ".join(f"{k} = {v}" for k, v in report.measured_sizes.items())
        stdout.print(f"Measured at: {sizes}", markup=False)
    if report.opaque:
        kept = ", ".join(f"{op} {count}" for op, count in report.opaque.items())
        stdout.print(f"Kept as they are ({report.understood:.0%} of the nodes are understood): {kept}", markup=False)
    for note in report.notes:
        stdout.print(f"Note: {note}", markup=False)
    if report.lazy_costs:
        lazy = report.lazy_costs
        stdout.print(
            f"Costs: {lazy['measured']} of {lazy['wanted']} operators measured; {lazy['saved']} could not change the"
            " answer",
            markup=False,
        )
    if report.saturation:
        stdout.print(
            f"Saturation: {report.saturation['e-nodes']:,} e-nodes in {report.saturation['e-classes']:,} classes,"
            f" {report.saturation['reason']}",
            markup=False,
        )
        if report.saturation["detail"]:
            stdout.print(f"  {report.saturation['detail']}", markup=False)


def _time(report: Report) -> None:
    parts = [f"{name} {spent:.1f}" for name, spent in report.seconds.items() if name != "total" and spent >= 0.05]
    stdout.print(f"Time: {report.seconds.get('total', 0):.1f} s ({', '.join(parts)})", markup=False)
