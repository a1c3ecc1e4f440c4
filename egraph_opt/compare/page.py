"""A comparison as one HTML file that needs nothing else, or its plots as PNG or SVG."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from egraph_opt.compare.plots import figures, svg
from egraph_opt.compare.run import ORIGINAL, Comparison, Row
from egraph_opt.compare.tables import over_best
from egraph_opt.errors import UsageError


def write_page(comparison: Comparison, path: Path) -> list[Path]:
    """Writes ``path`` (``.html``: page; ``.png`` or ``.svg``: a file per plot, named after it), and says what it wrote.

    Raises:
        UsageError: another suffix, or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix not in (".html", ".png", ".svg"):
        raise UsageError(f"--plot {path}: the name must end with .html, .png or .svg")
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


def page(comparison: Comparison) -> str:
    """The page's HTML."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("egraph_opt.compare", "."), autoescape=True, trim_blocks=True)
    template = environment.get_template("page.html.j2")
    return template.render(
        comparison=comparison,
        plots={title: svg(figure) for title, figure in figures(comparison).items()},
        subjects=[_subject(comparison, s.name) for s in comparison.subjects],
        strategies=list(dict.fromkeys(r.strategy for r in comparison.rows if r.strategy != ORIGINAL)),
    )


def _subject(comparison: Comparison, name: str) -> dict[str, Any]:
    subject = next(s for s in comparison.subjects if s.name == name)
    unit, scale = (" ms", 1e3) if subject.is_model else ("", 1.0)
    proven, best, bound = comparison.is_proven(name), comparison.best(name), comparison.bound(name)
    return {
        "name": name,
        "kind": "model" if subject.is_model else "e-graph",
        "nodes": f"{subject.egraph.node_count:,}",
        "classes": f"{len(set(subject.egraph.node_class.tolist())):,}",
        "best": _number(best * scale) + unit,
        "proof": "proven optimal"
        if proven
        else f"best known; no selection costs less than {_number(bound * scale)}{unit}",
        "measured": any(r.measured for r in comparison.of(name)),
        "unit": unit.strip() or "cost",
        "rows": [_row(comparison, row, scale) for row in comparison.of(name)],
    }


def _row(comparison: Comparison, row: Row, scale: float) -> dict[str, Any]:
    over = over_best(comparison, row)
    return {
        "strategy": row.strategy + (f" (seed {row.seed})" if comparison.seeds > 1 and row.strategy != ORIGINAL else ""),
        "cost": _number(row.cost * scale),
        "over": "" if over is None else "best" if over == 0 else f"+{over:.2%}",
        "is_best": over == 0,
        "bound": _number(row.lower_bound * scale),
        "gap": f"{row.gap:.2%}" if math.isfinite(row.gap) else "",
        "status": row.status,
        "seconds": f"{row.seconds:.3g}" if row.seconds else "",
        "nodes": f"{row.nodes:,}" if row.nodes else "",
        "measured": f"{row.measured * 1e3:.3f}" if row.measured else "",
        "ratio": f"{row.ratio:.2f} x" if row.ratio else "",
        "error": row.error,
    }


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else ""
