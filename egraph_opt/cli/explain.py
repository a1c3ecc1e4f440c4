"""``egraph-opt explain``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import typer

from egraph_opt.cli.console import ProgressLine, parse_shape_sets, split_names, stdout, table
from egraph_opt.cli.options import CostModelFile, RuleFiles
from egraph_opt.cli.output import STDOUT, check_outputs, write_json
from egraph_opt.explanation import Alternative, Explanation, Fate, NodeExplanation, RuleAt, Stop, explain
from egraph_opt.units import seconds

MOST_RULES = 12
"""Rules of one node that are shown without ``-v``."""


def explain_command(
    model: Path = typer.Argument(..., metavar="IN", help="An ONNX file."),
    node: list[str] = typer.Option(
        [], "--node", metavar="NAME", help="A node, by its name or its first output: every rule, every alternative."
    ),
    target: str = typer.Option("ort-cpu", help="This and what follows: as for optimize."),
    extractor: str = typer.Option("ilp"),
    numerics: str = typer.Option("standard"),
    effort: str = typer.Option("standard"),
    measure_shape: list[str] = typer.Option([], metavar="NAME:1,3,224,224"),
    rule_files: RuleFiles = [],  # noqa: B006 - typer copies it
    cost_model: CostModelFile = None,
    skip_rules: list[str] = typer.Option([], metavar="a,b"),
    only_rules: list[str] = typer.Option([], metavar="a,b"),
    keep_opset: bool = typer.Option(False, "--keep-opset"),
    time_limit: float | None = typer.Option(None, metavar="S"),
    no_measure: bool = typer.Option(False, "--no-measure", help="Choose by estimate: what is shown is quicker found."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write everything; - for stdout."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Every rule of a node, and constants in the table."),
) -> None:
    """Say why nodes were rewritten or were not; without --node, a line for each node.

    The model is optimized as `optimize` would, and nothing is written. For a node: the rules that made its replacement,
    with the prices of both sides; and else for each rule of its operator what stopped it: the form of the graph, a
    condition (with the sizes and attributes that it was asked about), the cost, or a limit."""
    check_outputs(json_file, apart_from=(model, cost_model, *rule_files))
    with ProgressLine(quiet) as line:
        found = explain(
            model,
            nodes=node,
            on_progress=line,
            target=target,
            extractor=extractor,
            numerics=numerics,
            effort=effort,
            measure_shapes=parse_shape_sets("--measure-shape", measure_shape),
            rule_files=rule_files,
            cost_model=cost_model or "",
            skip_rules=split_names(skip_rules),
            only_rules=split_names(only_rules),
            keep_opset=keep_opset,
            time_limit=time_limit,
            measure=not no_measure,
        )
    if json_file is not None:
        write_json(json_file, found.to_json())
        if json_file == STDOUT:
            return
    _headline(found)
    for name in node:
        _node(found.node(name), verbose)
    if not node:
        _table(found, verbose)


def _headline(found: Explanation) -> None:
    _print(f"{found.outcome}: {found.reason}")
    if found.graph and not found.taken:
        _print(f"What follows is about {found.graph!r}, the candidate that came nearest; the original stays as it is.")
    if found.graph:
        _print(
            f"Estimated: {seconds(found.before)} before, {seconds(found.after)} after. Saturation: {found.saturation}"
        )
    _print("")


# --- all nodes


def _table(found: Explanation, verbose: bool) -> None:
    counts = Counter(n.fate for n in found.nodes)
    quiet = () if verbose else (Fate.CONSTANT, Fate.UNUSED)
    made = table(f"{len(found.nodes)} nodes", "node", "became", "by, or because", "before", "after", right=(3, 4))
    for column, width in zip(made.columns, (28, 18, 28, 8, 8), strict=True):
        column.width = width
    for node in found.nodes:
        if node.fate not in quiet:
            made.add_row(node.node if node.op in node.node else f"{node.node} ({node.op})", *_cells(node))
    stdout.print(made)
    _print("")
    _print(", ".join(f"{count} {fate}" for fate, count in counts.most_common()))
    _print("`--node NAME` shows all rules and alternatives of one of them.")


def _cells(node: NodeExplanation) -> tuple[str, ...]:
    if node.fate is Fate.ABSORBED:
        return f"part of {', '.join(node.into)}", f"with {node.group[0]}", "", ""
    if node.fate is Fate.REWRITTEN:
        return ", ".join(node.into), ", ".join(node.rules), seconds(node.before), seconds(node.after)
    return str(node.fate), node.reason, seconds(node.before) if node.before is not None else "", ""


# --- one node


def _node(node: NodeExplanation, verbose: bool) -> None:
    stdout.print(f"{node.node} ({node.op}): {node.fate}", style="bold", markup=False, highlight=False)
    _print(f"  {node.reason}")
    if len(node.group) > 1:
        _print(f"  together with {', '.join(name for name in node.group if name != node.node)}")
    if node.after is not None and node.fate in (Fate.REWRITTEN, Fate.ABSORBED):
        _print(f"  cost: {seconds(node.before)} before, {seconds(node.after)} after")
    _print("")
    for rule in node.attempts:
        if rule.stop is Stop.MADE:
            _print(f"  {rule.rule}: {rule.equation}\n    {rule.status}, rounding: {rule.float_class}")
    _alternatives(node.alternatives)
    _rules([rule for rule in node.attempts if rule.stop is not Stop.MADE], verbose)


def _alternatives(every: Sequence[Alternative]) -> None:
    if not every:
        return
    made = table("Ways to compute it", "", "step", "graph", "by", "", right=(1, 2))
    for column, width in zip(made.columns, (46, 9, 9, 26, 6), strict=True):
        column.max_width = width
    for way in every:
        whole = seconds(way.whole) if way.whole is not None else "cannot"
        by = ", ".join(way.rules) or "as it was"
        made.add_row(way.text, seconds(way.seconds), whole, by, "chosen" if way.chosen else "")
    stdout.print(made)
    _print("step: its own cost; graph: the cheapest whole graph that computes it so\n")


def _rules(every: Sequence[RuleAt], verbose: bool) -> None:
    if not every:
        return
    shown = every if verbose else every[:MOST_RULES]
    made = table(f"Rules for this operator: {len(every)} more", "rule", "stopped by", "why")
    for column, width in zip(made.columns, (34, 16, 46), strict=True):
        column.max_width = width
    for rule in shown:
        made.add_row(rule.rule, str(rule.stop), f"{rule.equation}: {rule.reason}" if verbose else rule.reason)
    stdout.print(made)
    if len(every) > len(shown):
        _print(f"... and {len(every) - len(shown)} that came less far; -v shows them, and the equations")
    _print("")


def _print(text: str) -> None:
    stdout.print(text, markup=False, soft_wrap=True)
