"""A comparison as one HTML file that needs nothing else, or its plots as PNG or SVG."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from egraph_opt.compare.plots import CAPTIONS, figures, svg
from egraph_opt.compare.run import ORIGINAL, Comparison, Row
from egraph_opt.compare.tables import over_best
from egraph_opt.errors import UsageError


def write_page(comparison: Comparison, path: Path) -> list[Path]:
    """Writes ``path`` (``.html``: page; ``.png`` or ``.svg``: a file per plot, named after it), and says what it wrote.

    Raises:
        UsageError: another suffix, or the file cannot be written.
    """
    check_suffix(path)
    suffix = path.suffix.lower()
    try:
        if suffix == ".html":
            path.write_text(page(comparison))
            return [path]
        written: list[Path] = []
        for title, figure in figures(comparison).items():
            written.append(path.with_name(f"{path.stem}-{title.lower().replace(' ', '-')}{suffix}"))
            figure.savefig(written[-1], dpi=160)
        return written
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def check_suffix(path: Path | None) -> None:
    """UsageError if ``write_page`` would not know what to write to a file of that name."""
    if path is not None and path.suffix.lower() not in (".html", ".png", ".svg"):
        raise UsageError(f"--plot {path}: the name must end with .html, .png or .svg")


def page(comparison: Comparison) -> str:
    """The page's HTML."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("egraph_opt.compare", "."), autoescape=True, trim_blocks=True)
    template = environment.get_template("page.html.j2")
    return template.render(
        comparison=comparison,
        plots={title: svg(figure) for title, figure in figures(comparison).items()},
        captions=CAPTIONS,
        subjects=[_subject(comparison, s.name) for s in comparison.subjects],
        overview={name: [_cell(comparison, s.name, name) for s in comparison.subjects] for name in _names(comparison)},
    )


def _names(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(row.strategy for row in comparison.rows if row.strategy != ORIGINAL))


def _cell(comparison: Comparison, subject: str, strategy: str) -> dict[str, Any]:
    """The best run of a strategy on a subject, in a word or two; empty if it has no answer."""
    rows = [row for row in comparison.of(subject) if row.strategy == strategy and math.isfinite(row.cost)]
    if not rows:
        return {"over": "-", "seconds": "", "is_best": False, "is_proven": False}
    row = min(rows, key=lambda row: row.cost)
    shown = _row(comparison, row, 1.0, 0)
    return {**shown, "is_proven": row.gap <= 1e-9}


def _subject(comparison: Comparison, name: str) -> dict[str, Any]:
    subject = next(s for s in comparison.subjects if s.name == name)
    unit, scale = (" ms", 1e3) if subject.is_model else ("", 1.0)
    proven, best, bound = comparison.is_proven(name), comparison.best(name), comparison.bound(name)
    digits = _digits([row.cost * scale for row in comparison.of(name)])
    return {
        "name": name,
        "kind": "model" if subject.is_model else "e-graph",
        "nodes": f"{subject.egraph.node_count:,}",
        "classes": f"{len(set(subject.egraph.node_class.tolist())):,}",
        "best": _number(best * scale, digits) + unit,
        "proof": "proven optimal"
        if proven
        else f"best known; no selection costs less than {_number(bound * scale, digits)}{unit}",
        "measured": any(r.measured for r in comparison.of(name)),
        "unit": unit.strip() or "cost",
        "rows": [_row(comparison, row, scale, digits) for row in comparison.of(name)],
    }


def _digits(costs: list[float]) -> int:
    """How many digits after the point show six of the least cost; none for whole numbers."""
    finite = [abs(cost) for cost in costs if math.isfinite(cost) and cost]
    if not finite or all(cost == int(cost) for cost in finite):
        return 0
    return min(max(5 - math.floor(math.log10(min(finite))), 0), 12)


def _row(comparison: Comparison, row: Row, scale: float, digits: int) -> dict[str, Any]:
    over = over_best(comparison, row)
    return {
        "strategy": row.strategy + (f" (seed {row.seed})" if comparison.seeds > 1 and row.strategy != ORIGINAL else ""),
        "cost": _number(row.cost * scale, digits),
        "over": "" if over is None else "best" if over == 0 else f"+{over:.2%}",
        "is_best": over == 0,
        "bound": _number(row.lower_bound * scale, digits),
        "gap": f"{row.gap:.2%}" if math.isfinite(row.gap) else "",
        "status": row.status,
        "seconds": f"{row.seconds:.3f}" if row.seconds else "",
        "nodes": f"{row.nodes:,}" if row.nodes else "",
        "measured": f"{row.measured * 1e3:.3f}" if row.measured else "",
        "ratio": f"{row.ratio:.2f} x" if row.ratio else "",
        "error": row.error,
    }


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}" if math.isfinite(value) else ""
