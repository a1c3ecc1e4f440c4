"""``egraph-opt extract``."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from egraph_opt.cli.console import stdout
from egraph_opt.egraph.serialize import read_egraph
from egraph_opt.extraction import extract
from egraph_opt.pipeline.report import plain


def extract_command(
    egraph: Path = typer.Argument(..., metavar="EGRAPH.json", help="An e-graph in the egraph-serialize format."),
    extractor: str = typer.Option("ilp", help="Strategy: ilp, dag-greedy, tree-greedy."),
    time_limit: float | None = typer.Option(60.0, metavar="S", help="Seconds after which the best answer is given."),
    seed: int = typer.Option(0, help="Seed of random choices."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the answer; - for stdout."),
) -> None:
    """Pick the cheapest acyclic graph of an e-graph; prints its cost, a proven lower bound and the gap."""
    stored = read_egraph(egraph)
    found = extract(stored.egraph, stored.costs, extractor=extractor, time_limit=time_limit, seed=seed)
    chosen = [stored.node_ids[node] for node in found.selection.order(stored.egraph)]
    if json_file is not None:
        answer = {
            "cost": found.cost,
            "lower_bound": found.lower_bound,
            "gap": found.gap,
            "status": found.status,
            "extractor": found.extractor,
            "seconds": found.seconds,
            "notes": found.notes,
            "nodes": chosen,
        }
        text = json.dumps(plain(answer), indent=2)
        if json_file == Path("-"):
            typer.echo(text)
            return
        json_file.write_text(text + "\n")
    stdout.print(
        f"cost {found.cost:.9g}, bound {found.lower_bound:.9g}, gap {found.gap:.3%}, {found.status},"
        f" {len(chosen)} e-nodes, {sum(found.seconds.values()):.2f} s",
        markup=False,
    )
