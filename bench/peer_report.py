"""Tables and a plot of what ``peers.py`` found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from egraph_opt.compare.plots import COLOURS, MARKERS

Row = dict[str, Any]


def short(name: str) -> str:
    """A model's name without that of its package."""
    return name.split("__")[-1].removesuffix("_infer").removeprefix("exp_hf_").removeprefix("light_")


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row["fault"]:
        return f"[red]{row['fault'].split(':')[0]}[/red]"
    ratio = f"{row['ratio']:.2f}" if row["ratio"] is not None else "-"
    return "unchanged" if row.get("same") else ratio


def show(rows: Sequence[Row], tools: Sequence[str]) -> None:
    """Speed per model and tool; then, per tool, what it took and what went wrong."""
    console = Console(width=150)
    table = Table(title="Speed in ONNX Runtime against the original (b10; above 1 is faster)")
    for column in ("model", "ORT ms", *tools, "A/A", "nodes"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for model in dict.fromkeys(row["model"] for row in rows):
        own = {row["tool"]: row for row in rows if row["model"] == model}
        first = next(iter(own.values()))
        spread, time = first["spread"], first["milliseconds"]
        nodes = [str(own[t]["nodes"][1]) if t in own and "nodes" in own[t] else "-" for t in tools]
        before = next((str(r["nodes"][0]) for r in own.values() if "nodes" in r), "-")
        table.add_row(
            short(model), f"{time:.2f}" if time else "", *(_cell(own.get(t)) for t in tools),
            f"{spread:.1%}" if spread else "", f"{before} -> {' '.join(nodes)}",
        )  # fmt: skip
    console.print(table)
    console.print(_totals(rows, tools))


def _totals(rows: Sequence[Row], tools: Sequence[str]) -> Table:
    table = Table(
        "tool", "faults", "geometric mean", "best", "worst", "seconds (median, most)", "peak memory, GB (most)"
    )
    for tool in tools:
        own = [row for row in rows if row["tool"] == tool]
        good = [row for row in own if not row["fault"]]
        ratios = [row["ratio"] for row in good if row["ratio"] is not None]
        seconds = sorted(row["seconds"] for row in own if "seconds" in row)
        memory = max((row["memory"] for row in own if row.get("memory")), default=0) / 1e9
        table.add_row(
            tool, f"{len(own) - len(good)} of {len(own)}", f"{_mean(ratios):.3f}",
            f"{max(ratios, default=math.nan):.2f}", f"{min(ratios, default=math.nan):.2f}",
            f"{seconds[len(seconds) // 2]:.2f}, {seconds[-1]:.1f}" if seconds else "", f"{memory:.2f}",
        )  # fmt: skip
    return table


def write_plot(rows: Sequence[Row], tools: Sequence[str], path: Path) -> None:
    """Speed per model, and seconds of optimization, as a picture; nothing where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    best = {row["model"]: row["ratio"] or 1.0 for row in rows if row["tool"] == tools[0]}
    models = sorted(best, key=lambda m: best[m])
    figure = Figure(figsize=(9.0, 0.19 * len(models) + 1.3), layout="constrained")
    speed, effort = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    for number, tool in reversed(list(enumerate(tools))):  # the first one on top
        style: dict[str, Any] = {
            "linestyle": "", "marker": MARKERS[number], "color": COLOURS[number], "label": tool,
            "markersize": 6 if number == 0 else 4, "alpha": 0.9,
        }  # fmt: skip
        own = {row["model"]: row for row in rows if row["tool"] == tool and not row["fault"]}
        raced = [(own[m]["ratio"], i) for i, m in enumerate(models) if m in own and own[m]["ratio"] is not None]
        timed = [(own[m]["seconds"], i) for i, m in enumerate(models) if m in own]
        if raced:
            speed.plot(*zip(*raced, strict=True), **style)
        if timed:
            effort.plot(*zip(*timed, strict=True), **style)
    speed.axvline(1.0, color="black", linewidth=0.8)
    speed.set_yticks(range(len(models)), [short(m) for m in models], fontsize=7)
    for axis, label in ((speed, "speed against ONNX Runtime on the original"), (effort, "seconds of optimization")):
        axis.set_xscale("log")
        axis.set_xlabel(label, fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.25, linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    ticks = [t for t in (0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 5, 10, 20) if t <= max([*best.values(), 1.2]) * 1.1]
    speed.set_xticks(ticks, [str(t) for t in ticks])
    speed.minorticks_off()
    handles, labels = speed.get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=len(tools), fontsize=7, frameon=False)
    figure.savefig(path)
