"""The plots of a run: speed per model, time per model and stage, time against size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from egraph_opt.compare.plots import COLOURS, panels
from egraph_opt.zoo.records import Outcome, Record
from egraph_opt.zoo.summary import speed_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BARS = 40
"""Models that a plot names; of more, it shows those that matter most."""
NAME = 34
"""Characters of a name in a plot."""
WIDTH = 6.4
"""Inches."""
STAGES = {
    "start": "#dddddd", "saturate": COLOURS[0], "price": COLOURS[3], "extract": COLOURS[2], "choose": COLOURS[1],
    "other": "#999999",
}  # fmt: skip
"""Stages of a model; ``start`` is that of its process, ``choose`` is verification and timing."""
OUTCOME_COLOURS = {
    Outcome.OPTIMIZED: "#228833", Outcome.UNCHANGED: "#4477aa", Outcome.UNSUPPORTED: "#888888",
    Outcome.REJECTED: "#ee8866", Outcome.TIMEOUT: "#ccbb44", Outcome.OUT_OF_MEMORY: "#aa3377",
    Outcome.CRASHED: "#ee6677", Outcome.ERROR: "#cc3311",
}  # fmt: skip


def figures(records: Sequence[Record]) -> dict[str, Figure]:
    """The plots that these records have something to show in, by title."""
    made: dict[str, Figure] = {}
    if any(speed_of(record) for record in records):
        made["Speed"] = _speed(records)
    if records:
        made["Time"] = _time(records)
    if sum(bool(_nodes(record)) for record in records) > 1:
        made["Time against size"] = _time_against_size(records)
    return made


def stages(record: Record) -> dict[str, float]:
    """Seconds of a model by stage; they add up to its wall time, which is ``other`` where nothing was reported."""
    spent: dict[str, float] = record.report.get("seconds") or {}
    if not spent:
        return {"other": record.seconds}
    known = {stage: spent[stage] for stage in STAGES if stage in spent}
    inside = min(spent.get("total", 0.0), record.seconds)
    return {"start": record.seconds - inside, **known, "other": max(inside - sum(known.values()), 0.0)}


def label(record: Record) -> str:
    """The model's name without its suffix, cut in the middle where it is long."""
    name = str(PurePosixPath(record.model).with_suffix(""))
    return name if len(name) <= NAME else f"{name[: NAME // 2 - 1]}…{name[-NAME // 2 :]}"


def _bars(count: int) -> tuple[Figure, Axes]:
    figure, (axis,) = panels(1)
    figure.set_size_inches(WIDTH, 1.1 + 0.21 * count)
    axis.grid(visible=False, axis="y")
    axis.tick_params(labelsize=7)
    axis.margins(y=0.5 / max(count, 1))
    return figure, axis


def _speed(records: Sequence[Record]) -> Figure:
    rows = sorted(((s.ratio, s, r) for r in records if (s := speed_of(r))), key=lambda row: row[0])[-MOST_BARS:]
    figure, axis = _bars(len(rows))
    for place, (ratio, speed, _) in enumerate(rows):
        style: dict[str, Any] = {"color": COLOURS[2]} if speed.measured else {"color": "#a6d0ae"}
        axis.barh(place, ratio - 1, left=1, height=0.65, **style)
        if speed.measured:
            axis.plot([ratio * (1 - speed.spread), ratio * (1 + speed.spread)], [place] * 2, color="black", linewidth=1)
        axis.annotate(f"{ratio:.2f}", (ratio * (1 + speed.spread), place), (4, 0), textcoords="offset points",
                      va="center", fontsize=7)  # fmt: skip
    axis.set_yticks(range(len(rows)), [label(record) for _, _, record in rows])
    axis.axvline(1, color="black", linewidth=0.8)
    axis.margins(x=0.08)
    kinds = {speed.measured for _, speed, _ in rows}
    words = {True: "measured (line: spread of the original)", False: "by estimate"}
    axis.set_xlabel(f"times as fast as the original, {' or '.join(words[k] for k in sorted(kinds))}", fontsize=8)
    return figure


def _time(records: Sequence[Record]) -> Figure:
    rows = sorted(records, key=lambda r: r.seconds)[-MOST_BARS:]
    figure, axis = _bars(len(rows))
    left = [0.0] * len(rows)
    for stage, colour in STAGES.items():
        spent = [stages(record).get(stage, 0.0) for record in rows]
        axis.barh(range(len(rows)), spent, left=left, height=0.65, color=colour, label=stage)
        left = [a + b for a, b in zip(left, spent, strict=True)]
    axis.set_yticks(range(len(rows)), [label(record) for record in rows])
    axis.set_xlabel("seconds", fontsize=8)
    figure.legend(fontsize=7, frameon=False, loc="outside lower center", ncols=len(STAGES))
    return figure


def _time_against_size(records: Sequence[Record]) -> Figure:
    figure, (axis,) = panels(1)
    figure.set_size_inches(WIDTH, 3.6)
    for outcome, colour in OUTCOME_COLOURS.items():
        rows = [record for record in records if record.outcome is outcome and _nodes(record)]
        if rows:
            axis.plot([_nodes(r) for r in rows], [r.seconds for r in rows], "o", color=colour, markersize=5,
                      label=str(outcome))  # fmt: skip
    _logarithmic(axis)
    axis.set_xlabel("nodes of the original", fontsize=8)
    axis.set_ylabel("seconds", fontsize=8)
    figure.legend(fontsize=7, frameon=False, loc="outside lower center", ncols=4)
    return figure


def _logarithmic(axis: Axes) -> None:
    """Logarithmic axes of whole decades, with numbers that are written out."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for scale, limits, ruler in (
        (axis.set_xscale, (axis.get_xlim, axis.set_xlim), axis.xaxis),
        (axis.set_yscale, (axis.get_ylim, axis.set_ylim), axis.yaxis),
    ):
        scale("log")
        get, put = limits
        low, high = get()
        put(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
        ruler.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ruler.set_minor_formatter(NullFormatter())
    axis.tick_params(labelsize=7)


def _nodes(record: Record) -> int:
    return (record.report.get("before") or {}).get("nodes", 0)
