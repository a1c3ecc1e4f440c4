"""The plots of a comparison: time against cost, progress over time, performance profile, estimated against measured."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from egraph_opt.compare.run import ORIGINAL, Comparison, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#555555", "#ee8866", "#44bb99", "#aaaa00",
    "#99ddff", "#ffaabb",
)  # fmt: skip
"""Paul Tol's bright and light schemes, which colour-blind people can tell apart."""
MARKERS = "osD^vP*Xhp<>"
_PLAIN: dict[str, Any] = {"color": "black", "marker": "+"}
FLOOR = 1e-4
"""Shortest time shown, in seconds."""


def figures(comparison: Comparison) -> dict[str, Figure]:
    """The plots that this comparison has something to show in, by title.

    Raises:
        ImportError: matplotlib is not installed.
    """
    made: dict[str, Figure] = {"Cost against time": _against_time(comparison)}
    if any(len(row.trace) > 1 for row in comparison.rows):
        made["Progress over time"] = _progress(comparison)
    if len(comparison.subjects) > 1:
        made["Performance profile"] = _profile(comparison)
    if any(row.measured for row in comparison.rows):
        made["Estimated against measured"] = _fidelity(comparison)
    return made


CAPTIONS = {
    "Cost against time": "One mark per run: how long it took, and by how much its cost is above the best of all runs. "
    "The solid line is the proven optimum; where there is none, the dashed line is the best and the dotted one the "
    "highest proven bound.",
    "Progress over time": "The best cost (solid) and the proven lower bound (dotted) of each strategy while it ran. "
    "Where they meet, the answer is proven.",
    "Performance profile": "On what share of all subjects a strategy came within a factor of the best cost. What it "
    "cannot run on counts as missed.",
    "Estimated against measured": "The sum of the operators' costs, which extraction makes small, beside what a run of "
    "the whole model took. On the dotted line both are the same.",
}
"""What each plot shows, by title."""


def svg(figure: Figure) -> str:
    """A figure as an element to put into a page."""
    out = io.StringIO()
    figure.savefig(out, format="svg")
    text = out.getvalue()
    return text[text.index("<svg") :]


def _style(comparison: Comparison, strategy: str) -> dict[str, Any]:
    names = list(dict.fromkeys(row.strategy for row in comparison.rows if row.strategy != ORIGINAL))
    place = names.index(strategy) if strategy in names else len(names)
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}


def panels(count: int, height: float = 2.9, width: float = 4.1) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels, up to three side by side, in the house style; inches."""
    from matplotlib.figure import Figure

    columns = min(count, 3)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns, height * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).reshape(-1)
    for spare in axes[count:]:
        spare.set_visible(False)
    shown = list(axes[:count])
    for axis in shown:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25, linewidth=0.6)
    return figure, shown


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    columns = 2 * round(figure.get_figwidth() / 4.1)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=8, frameon=False
    )


def _scale(comparison: Comparison, subject: str) -> float:
    """What costs are divided by: the size of the best cost, which may be below zero, or 1 where that is zero."""
    best = abs(comparison.best(subject))
    return best if math.isfinite(best) and best > 0 else 1.0


def _percent_above(comparison: Comparison, subject: str, cost: float) -> float:
    return 100 * (cost - comparison.best(subject)) / _scale(comparison, subject)


def _against_time(comparison: Comparison) -> Figure:
    figure, axes = panels(len(comparison.subjects))
    for axis, subject in zip(axes, comparison.subjects, strict=True):
        rows = [r for r in comparison.of(subject.name) if math.isfinite(r.cost) and r.strategy != ORIGINAL]
        above = [_percent_above(comparison, subject.name, row.cost) for row in rows]
        for row, y in zip(rows, above, strict=True):
            axis.plot(max(row.seconds, FLOOR), y, linestyle="", markersize=6, alpha=0.75, label=row.strategy,
                      **_style(comparison, row.strategy))  # fmt: skip
        if max(above, default=0.0) < 1e-3:  # all the same, up to rounding
            axis.set_ylim(-1.0, 1.0)
        _lines(axis, comparison, subject.name)
        _label(axis, subject.name, "% above the best")
    _legend(figure, axes)
    return figure


def _lines(axis: Axes, comparison: Comparison, subject: str) -> None:
    """The optimum, or the best cost and the bound below it, if that is near enough to be shown."""
    style: dict[str, Any] = {"label": "best", "linestyle": "--"}
    if comparison.is_proven(subject):
        style = {"label": "optimum"}
    else:
        below = -_percent_above(comparison, subject, comparison.bound(subject))
        if below < 50:
            axis.axhline(-below, color="black", linewidth=0.8, linestyle=":", label="lower bound")
            axis.set_ylim(min(axis.get_ylim()[0], -1.1 * below))
    axis.axhline(0.0, color="black", linewidth=0.8, **style)


def _label(axis: Axes, name: str, what: str) -> None:
    """Names and ticks of a panel over time: whole decades."""
    from matplotlib.ticker import NullFormatter

    axis.set_xscale("log")
    low, high = (math.log10(seconds) for seconds in axis.get_xlim())
    axis.set_xlim(10 ** math.floor(low), 10 ** math.ceil(high))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.ticklabel_format(axis="y", useOffset=False)
    axis.set_title(_title(name), fontsize=9)
    axis.set_xlabel("seconds", fontsize=8)
    axis.set_ylabel(what, fontsize=8)
    axis.tick_params(labelsize=7)


def _progress(comparison: Comparison) -> Figure:
    subjects = [s for s in comparison.subjects if any(r.trace for r in comparison.of(s.name))]
    figure, axes = panels(len(subjects))
    for axis, subject in zip(axes, subjects, strict=True):
        scale = _scale(comparison, subject.name)
        for row in comparison.of(subject.name):
            costs = [(max(m.seconds, FLOOR), m.cost / scale) for m in row.trace if math.isfinite(m.cost)]
            if not costs or row.seed:
                continue
            style = {**_style(comparison, row.strategy), "markersize": 3}
            costs.append((max(row.seconds, costs[-1][0]), costs[-1][1]))
            axis.plot(*zip(*costs, strict=True), drawstyle="steps-post", label=row.strategy, **style)
            bounds = [(max(m.seconds, FLOOR), m.lower_bound / scale) for m in row.trace if math.isfinite(m.lower_bound)]
            if bounds:
                bounds.append((max(row.seconds, bounds[-1][0]), bounds[-1][1]))
                axis.plot(*zip(*bounds, strict=True), drawstyle="steps-post", linestyle=":", color=style["color"])
        _label(axis, subject.name, "cost (solid), bound (dotted) / |best|")
    _legend(figure, axes)
    return figure


def _profile(comparison: Comparison) -> Figure:
    """Share of subjects on which a strategy is within a factor of the best (Dolan and More, 2002)."""
    figure, (axis,) = panels(1, height=3.4, width=8.2)
    names = list(dict.fromkeys(row.strategy for row in comparison.rows if row.strategy != ORIGINAL))
    worst = 1.0
    for name in names:
        ratios = sorted(_ratio(comparison, subject.name, name) for subject in comparison.subjects)
        known = [r for r in ratios if math.isfinite(r)]
        worst = max([worst, *known])
        if not known:
            continue
        steps = [(r, (i + 1) / len(ratios)) for i, r in enumerate(known)]
        points = [(1.0, 0.0), *steps, (1e9, steps[-1][1])]
        style = {**_style(comparison, name), "marker": ""}
        axis.plot(*zip(*points, strict=True), drawstyle="steps-post", alpha=0.8, label=name, **style)
    axis.set_xlim(1.0, min(max(worst * 1.02, 1.01), 3.0))
    axis.set_ylim(0, 1.03)
    axis.set_xlabel("cost / best, at most", fontsize=8)
    axis.set_ylabel("share of subjects", fontsize=8)
    axis.tick_params(labelsize=7)
    _legend(figure, [axis])
    return figure


def _ratio(comparison: Comparison, subject: str, strategy: str) -> float:
    """Middle of the strategy's costs over its seeds, relative to the best; inf without an answer."""
    costs = sorted(r.cost for r in comparison.of(subject) if r.strategy == strategy)
    if not costs:
        return math.inf
    best, middle = comparison.best(subject), costs[len(costs) // 2]
    return 1 + (middle - best) / _scale(comparison, subject)


def _fidelity(comparison: Comparison) -> Figure:
    models = [s for s in comparison.subjects if any(r.measured for r in comparison.of(s.name))]
    figure, axes = panels(len(models))
    for axis, subject in zip(axes, models, strict=True):
        rows: list[Row] = [r for r in comparison.of(subject.name) if r.measured and math.isfinite(r.cost)]
        for row in rows:
            style = _style(comparison, row.strategy) if row.strategy != ORIGINAL else _PLAIN
            estimated, measured = row.cost * 1e3, (row.measured or 0.0) * 1e3
            axis.plot(estimated, measured, linestyle="", markersize=6, label=row.strategy, **style)
        top = max(max(r.cost, r.measured or 0) for r in rows) * 1.05e3
        low = min(min(r.cost, r.measured or 0) for r in rows) * 0.95e3
        axis.plot([low, top], [low, top], color="black", linewidth=0.6, linestyle=":")
        axis.set_title(_title(subject.name), fontsize=9)
        axis.set_xlabel("estimated ms", fontsize=8)
        axis.set_ylabel("measured ms", fontsize=8)
        axis.tick_params(labelsize=7)
    _legend(figure, axes)
    return figure


def _title(name: str) -> str:
    return name if len(name) <= 40 else name[:37] + "..."
