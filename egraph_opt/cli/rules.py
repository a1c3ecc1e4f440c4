"""``egraph-opt rules``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import typer

from egraph_opt.cli.bisect import bisect_command
from egraph_opt.cli.console import stdout, table
from egraph_opt.cli.generate import generate_command
from egraph_opt.cli.output import STDOUT, check_outputs, write_json
from egraph_opt.cli.record import record_command
from egraph_opt.errors import UsageError, meant
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.artefact import read_rules
from egraph_opt.rewrites.library import SHOWN, all_rules, generated_rules
from egraph_opt.rewrites.prove.proof import Justified
from egraph_opt.rewrites.validation import effective_status, proof_of, recorded
from egraph_opt.terms.gates import Verdict, check_equation

app = typer.Typer(
    help="The rewrite rules: list them, show one, check them.", no_args_is_help=True, rich_markup_mode=None
)
app.command("generate")(generate_command)
app.command("record")(record_command)
app.command("bisect")(bisect_command)


@app.command("list")
def list_command(
    family: str | None = typer.Option(None, help="Only this family."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the list; - for stdout."),
) -> None:
    """List the rules that ship: family, status, for which effort, what they do to rounding, and the equation."""
    check_outputs(json_file)
    every = all_rules("thorough")
    rules = [r for r in every if family in (None, r.family)]
    if not rules:
        raise UsageError(f"there is no family {family}{meant([str(family)], {r.family for r in every})}; {SHOWN}")
    if json_file is not None:
        write_json(json_file, [_plain(r) for r in rules])
        if json_file == STDOUT:
            return
    made = table(f"{len(rules)} rules", "name", "family", "status", "effort", "rounding", "equation")
    for rule in rules:
        made.add_row(rule.name, rule.family, effective_status(rule), rule.effort, rule.float_class, rule.equation)
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
        f"  family {rule.family}, status {effective_status(rule)}, rounding: {rule.float_class}, dtypes: {rule.dtypes},"
        f" effort: {rule.effort}",
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
    _show_proof(rule)


def _show_proof(rule: Rule) -> None:
    """Prints the recorded proof, one replacement a line."""
    from egraph_opt.rewrites.prove.shipped import chains

    proof = proof_of(rule)
    if proof is None:
        return
    said = ", ".join(f"{count} {reason}" for reason, count in _reasons(proof.justified) if count)
    stdout.print(f"  proved from {', '.join(proof.axioms)}" + (f"; conditions: {said}" if said else ""), markup=False)
    for number, chain in enumerate(chains(rule)):
        stdout.print(f"  proof of root {number}:" if len(rule.lhs) > 1 else "  proof:", markup=False)
        for step in chain:
            stdout.print(f"    {step}", markup=False)
        if not chain:
            stdout.print("    by congruence of the instances", markup=False)
    for instance in proof.instances:
        stdout.print(f"  instance {instance}", markup=False)


def _reasons(justified: Justified) -> list[tuple[str, int]]:
    return [
        ("of the rule itself", justified.given),
        ("constant", justified.constant),
        ("true in every case drawn", justified.cases),
    ]


@app.command("check")
def check_command(
    names: list[str] = typer.Argument(None, help="Rules to check; all by default."),
    file: Path | None = typer.Option(
        None, "--file", metavar="RULES.jsonl", help="Check the rules of this file instead of those that ship."
    ),
    cases: int = typer.Option(8, help="Random shapes and attributes per rule (records are made with 40)."),
    seed: int = typer.Option(0, help="Seed of the random shapes."),
    jobs: int = typer.Option(2, min=1, help="Processes."),
) -> None:
    """Check rules again, without Z3 and without the generator: the gates (types, values modulo a prime, values in
    floating point, special values), and the recorded proofs. Exit 1 if one fails.

    The rules of a file (one JSON object a line, as `rules generate` writes them) go through the same gates; what is
    refused is shown with shapes for which it is wrong."""
    offered = all_rules("thorough") if file is None else read_rules(file)
    rules = [_find(n, offered if file else ()) for n in names] if names else list(offered)
    generated = {r.name for r in generated_rules()}
    bad = proved = found = sure = 0
    refused: list[str] = []
    made = table("", "rule", "result", "cases", "modulo prime", "rounding", "error", "proof", right=(2, 5))
    for rule, verdict, broken in _checked(rules, seed, cases, jobs):
        proof = proof_of(rule)
        bad += bool(broken) or not verdict.passed or (rule.name in generated and proof is None)
        proved += proof is not None and not broken
        found += rule.name in generated
        sure += rule.name in generated and proof is not None and not broken
        if not verdict.passed:
            refused.append(f"{rule.name} is refused: {verdict.reason}")
        made.add_row(
            rule.name,
            "good" if verdict.passed else "BAD",
            str(verdict.cases),
            "yes" if verdict.ring else "no",
            verdict.float_class,
            f"{verdict.error:.1e}",
            f"BAD: {broken}" if broken else f"{len(proof.instances)} steps" if proof else effective_status(rule),
        )
    stdout.print(made)
    for line in refused:
        stdout.print(line, markup=False, soft_wrap=True)
    stdout.print(f"{len(rules) - bad} good, {bad} bad; {proved} proofs hold", markup=False)
    stdout.print(f"generated: {found} rules, {sure} with a proof that holds", markup=False)
    raise typer.Exit(1 if bad else 0)


def _checked(rules: list[Rule], seed: int, cases: int, jobs: int) -> Iterator[tuple[Rule, Verdict, str]]:
    """Each rule, what the gates say of it, and what is wrong with its recorded proof, if anything."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) if jobs > 1 else nullcontext() as pool:
        check = partial(_check_one, seed=seed, cases=cases)
        found = pool.map(check, rules, chunksize=4) if pool else map(check, rules)
        for rule, (verdict, broken) in zip(rules, found, strict=True):
            yield rule, verdict, broken


def _check_one(rule: Rule, seed: int, cases: int) -> tuple[Verdict, str]:
    from egraph_opt.rewrites.prove.shipped import recheck

    return check_equation(rule, seed=seed, cases=cases), recheck(rule)


@app.command("prove")
def prove_command(
    names: list[str] = typer.Argument(None, help="Rules to prove; all by default."),
    canaries: bool = typer.Option(False, "--canaries", help="Only try the goals that must not be provable."),
    axioms: bool = typer.Option(False, "--axioms", help="Only list the axioms that follow from others."),
) -> None:
    """Prove rules from the axioms again, with Z3, and check the proofs without. Exit 1 if a recorded proof cannot be
    found again, or a canary sings."""
    if canaries:
        raise typer.Exit(_try_canaries())
    if axioms:
        raise typer.Exit(_list_redundant())
    raise typer.Exit(_prove([_find(n) for n in names] if names else list(all_rules("thorough"))))


def _prove(rules: list[Rule]) -> int:
    from egraph_opt.rewrites.prove import shipped

    made = table("", "rule", "result", "axioms", "search", "Z3", "check", right=(3, 4, 5))
    tried = list(shipped.attempts(rules))
    lost = 0
    for rule, result in tried:
        expected = proof_of(rule) is not None
        lost += expected and result.proof is None
        status = "proved" if result.proof else "LOST" if expected else rule.status
        said = ", ".join(result.proof.axioms) if result.proof else result.reason
        made.add_row(rule.name, status, said, *(f"{ms:.1f} ms" for ms in result.milliseconds))
    stdout.print(made)
    count = sum(result.proof is not None for _, result in tried)
    left = [r.name for r, result in tried if result.proof is None and r.status != "definition"]
    machine = {r.name for r in generated_rules()}
    done = sum(rule.name in machine and result.proof is not None for rule, result in tried)
    stdout.print(f"generated: {done} of {sum(r.name in machine for r, _ in tried)} proved", markup=False)
    stdout.print(f"{count} of {len(tried)} proved; {len(left)} neither proved nor definitions", markup=False)
    if left:
        stdout.print(f"  {', '.join(left)}", markup=False)
    return 1 if lost else 0


def _try_canaries() -> int:
    from egraph_opt.axioms import all_axioms
    from egraph_opt.rewrites.prove.canaries import CANARIES, sung, trap_works

    found, trap = sung(all_axioms()), trap_works(all_axioms())
    shown = ", ".join(found) or "none"
    stdout.print(f"{len(CANARIES)} goals that must not be provable; provable: {shown}", markup=False)
    stdout.print(f"split without size against associative Concat: {'seen' if trap else 'NOT SEEN'}", markup=False)
    return 1 if found or not trap else 0


def _list_redundant() -> int:
    from egraph_opt.axioms import all_axioms
    from egraph_opt.rewrites.prove.redundancy import redundant

    count = 0
    for found in redundant(all_axioms()):
        count += 1
        stdout.print(f"{found.axiom} follows from {', '.join(found.proof.axioms)}", markup=False)
    stdout.print(f"{count} of {len(all_axioms())} axioms follow from the others", markup=False)
    return 0


def _find(name: str, among: Sequence[Rule] = ()) -> Rule:
    found = next((r for r in among or all_rules("thorough") if r.name == name), None)
    if found is None:
        near = meant([name], [rule.name for rule in among or all_rules("thorough")])
        raise UsageError(f"there is no rule {name}{near}" + ("" if among else f"; {SHOWN}"))
    return found


def _plain(rule: Rule) -> dict[str, object]:
    record, proof = recorded(rule), proof_of(rule)
    return {
        "name": rule.name,
        "family": rule.family,
        "equation": rule.equation,
        "when": list(rule.when),
        "dtypes": rule.dtypes,
        "float_class": rule.float_class,
        "status": effective_status(rule),
        "effort": rule.effort,
        "proof": [str(i) for i in proof.instances] if proof else None,
        "source": rule.source,
        "validation": dataclasses.asdict(record) if record else None,
    }
