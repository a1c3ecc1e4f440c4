"""``egraph-opt extract``."""

from __future__ import annotations

import json
from contextlib import nullcontext
from math import isfinite
from pathlib import Path

import typer

from egraph_opt.cli.console import stdout
from egraph_opt.cli.output import STDOUT, check_outputs, write_json
from egraph_opt.egraph import SerializedEGraph
from egraph_opt.egraph.serialize import read_egraph
from egraph_opt.extraction import Extraction, Moment, Status, extract_several, extractors
from egraph_opt.pipeline.report import plain

_INTERRUPTED = 130


def extract_command(
    egraph: Path = typer.Argument(..., metavar="EGRAPH.json", help="An e-graph in the egraph-serialize format."),
    extractor: str = typer.Option("portfolio", help=f"Strategy: {', '.join(e.name for e in extractors())}."),
    time_limit: float | None = typer.Option(60.0, metavar="S", help="Seconds after which the best answer is given."),
    top_k: int = typer.Option(1, "--top-k", metavar="K", min=1, help="Give up to K different answers."),
    trace: Path | None = typer.Option(
        None, metavar="FILE", help="Write each better cost or lower bound as a line of JSON, as it is found."
    ),
    seed: int = typer.Option(0, help="Seed of random choices."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the answer; - for stdout."),
) -> None:
    """Pick the cheapest acyclic graph of an e-graph; prints its cost, a proven lower bound and the gap.

    An interrupt (Ctrl-C) ends the search with the best answer so far, and exit code 130.
    """
    check_outputs(trace, json_file, apart_from=(egraph,))
    stored = read_egraph(egraph)
    with trace.open("w", encoding="utf-8", buffering=1) if trace is not None else nullcontext() as lines:

        def on_moment(moment: Moment) -> None:
            if lines is not None:
                lines.write(json.dumps(_moment(moment)) + "\n")

        answers = extract_several(
            stored.egraph,
            stored.costs,
            top_k,
            extractor=extractor,
            time_limit=time_limit,
            seed=seed,
            on_moment=on_moment,
        )
    if json_file is not None:
        document = _document(stored, answers[0])
        if top_k > 1:
            document["alternatives"] = [_document(stored, answer) for answer in answers[1:]]
        write_json(json_file, plain(document))
    if json_file != STDOUT:
        for answer in answers:
            stdout.print(_line(stored, answer), markup=False)
    if answers[-1].status is Status.INTERRUPTED:
        raise typer.Exit(_INTERRUPTED)


def _document(stored: SerializedEGraph, found: Extraction) -> dict[str, object]:
    return {
        "cost": found.cost,
        "lower_bound": found.lower_bound,
        "gap": found.gap,
        "status": found.status,
        "extractor": found.extractor,
        "seconds": found.seconds,
        "notes": found.notes,
        "nodes": [stored.node_ids[node] for node in found.selection.order(stored.egraph)],
    }


def _line(stored: SerializedEGraph, found: Extraction) -> str:
    return (
        f"cost {found.cost:.9g}, bound {found.lower_bound:.9g}, gap {found.gap:.3%}, {found.status},"
        f" {len(found.selection.order(stored.egraph))} e-nodes, {sum(found.seconds.values()):.2f} s"
    )


def _moment(moment: Moment) -> dict[str, float | None]:
    """JSON has no infinity."""
    bound = moment.lower_bound if isfinite(moment.lower_bound) else None
    return {"seconds": round(moment.seconds, 4), "cost": moment.cost, "lower_bound": bound}
