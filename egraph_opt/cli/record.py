"""``egraph-opt rules record``."""

from __future__ import annotations

import typer

from egraph_opt.cli.console import stdout, table


def record_command(
    anew: bool = typer.Option(False, "--anew", help="Also the rules that have records already."),
    jobs: int = typer.Option(2, min=1, help="Processes."),
) -> None:
    """Put new and changed rules of this source checkout through the gates, try to prove them, and record both beside
    the rules; records of rules that are gone are dropped. Exit 1 if a rule is refused, or a proof is lost."""
    from egraph_opt.rewrites.library import all_rules
    from egraph_opt.rewrites.recording import examine, write
    from egraph_opt.rewrites.validation import proof_of

    made = table("", "rule", "gates", "cases", "proof", right=(2,))
    found = list(examine(all_rules("thorough"), anew=anew, jobs=jobs))
    refused = [r for r in found if not r.verdict.passed]
    lost = [r for r in found if r.proof is None and proof_of(r.rule) is not None]
    for r in found:
        if r.fresh:
            gates = "passed" if r.verdict.passed else "REFUSED"
            proved = ", ".join(r.proof.proof.axioms) if r.proof else f"none: {r.reason}"
            made.add_row(r.rule.name, gates, str(r.verdict.cases), proved)
    stdout.print(made)
    for r in refused:
        stdout.print(f"{r.rule.name} is refused: {r.verdict.reason}", markup=False, soft_wrap=True)
    for r in lost:
        stdout.print(f"{r.rule.name} had a proof, and none was found now", markup=False)
    write(found)
    count = sum(r.proof is not None for r in found)
    fresh = sum(r.fresh for r in found)
    stdout.print(f"{fresh} examined now; {len(found) - len(refused)} records, {count} proofs", markup=False)
    raise typer.Exit(1 if refused or lost else 0)
