"""``egraph-opt rules``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import typer

from egraph_opt.cli.console import stdout, table
from egraph_opt.errors import UsageError
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.validation import recorded
from egraph_opt.terms.gates import check_equation

app = typer.Typer(
    help="The rewrite rules: list them, show one, check them.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_command(
    family: str | None = typer.Option(None, help="Only this family."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the list; - for stdout."),
) -> None:
    """List the rules that ship: family, status, what they do to rounding, and the equation."""
    rules = [r for r in all_rules() if family in (None, r.family)]
    if not rules:
        raise UsageError(
            f"there is no family {family}; the families are {', '.join(sorted({r.family for r in all_rules()}))}"
        )
    if json_file is not None:
        text = json.dumps([_plain(r) for r in rules], indent=2)
        if json_file == Path("-"):
            typer.echo(text)
            return
        json_file.write_text(text + "\n")
    made = table(f"{len(rules)} rules", "name", "family", "status", "rounding", "equation")
    for rule in rules:
        made.add_row(rule.name, rule.family, rule.status, rule.float_class, rule.equation)
    stdout.print(made)


@app.command("show")
def show_command(name: str = typer.Argument(..., help="Name of a rule.")) -> None:
    """Show one rule: its equation, conditions, and what the gates found."""
    rule = _find(name)
    stdout.print(rule.name, style="bold", markup=False)
    left, right = rule.equation.split(" => ")
    stdout.print(f"  {left}\n    => {right}", markup=False)
    for condition in rule.when:
        stdout.print(f"  when {condition}", markup=False)
    stdout.print(
        f"  family {rule.family}, status {rule.status}, rounding: {rule.float_class}, dtypes: {rule.dtypes}",
        markup=False,
    )
    if rule.source:
        stdout.print(f"  source: {rule.source}", markup=False)
    record = recorded(rule)
    if record is not None:
        ring = "exactly, modulo a prime, and " if record.ring else ""
        stdout.print(
            f"  checked {ring}in floating point on {record.cases} shapes and attributes;"
            f" largest float32 error {record.error:.1e}",
            markup=False,
        )


@app.command("check")
def check_command(
    names: list[str] = typer.Argument(None, help="Rules to check; all by default."),
    cases: int = typer.Option(40, help="Random shapes and attributes per rule."),
    seed: int = typer.Option(0, help="Seed of the random shapes."),
) -> None:
    """Run the gates again: types, values modulo a prime, values in floating point, special values. Exit 1 if one
    fails."""
    rules = [_find(n) for n in names] if names else list(all_rules())
    bad = 0
    made = table("", "rule", "result", "cases", "modulo prime", "rounding", "error", right=(2, 5))
    for rule in rules:
        verdict = check_equation(rule, seed=seed, cases=cases)
        bad += not verdict.passed
        ring = "yes" if verdict.ring else "no"
        made.add_row(
            rule.name,
            "good" if verdict.passed else f"BAD: {verdict.reason}",
            str(verdict.cases),
            ring,
            verdict.float_class,
            f"{verdict.error:.1e}",
        )
    stdout.print(made)
    stdout.print(f"{len(rules) - bad} good, {bad} bad", markup=False)
    raise typer.Exit(1 if bad else 0)


def _find(name: str) -> Rule:
    found = next((r for r in all_rules() if r.name == name), None)
    if found is None:
        raise UsageError(f"there is no rule {name}; `egraph-opt rules list` shows them")
    return found


def _plain(rule: Rule) -> dict[str, object]:
    record = recorded(rule)
    return {
        "name": rule.name,
        "family": rule.family,
        "equation": rule.equation,
        "when": list(rule.when),
        "dtypes": rule.dtypes,
        "float_class": rule.float_class,
        "status": rule.status,
        "source": rule.source,
        "validation": dataclasses.asdict(record) if record else None,
    }
