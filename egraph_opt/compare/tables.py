"""A comparison as rows for other programs."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from egraph_opt.compare.run import Comparison, Row

COLUMNS = (
    "subject", "strategy", "seed", "cost", "over_best", "lower_bound", "gap", "status", "seconds", "nodes",
    "measured_seconds", "speedup", "error",
)  # fmt: skip


def to_csv(comparison: Comparison) -> str:
    """One line per row; a number that is not known is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in comparison.rows:
        plain = {k: "" if v is None else v for k, v in _plain(comparison, row).items()}
        writer.writerow({name: plain[name] for name in COLUMNS})
    return out.getvalue()


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Everything that the page shows, the traces included."""
    return {
        "time_limit": comparison.time_limit,
        "seeds": comparison.seeds,
        "subjects": [
            {
                "name": s.name,
                "kind": "model" if s.is_model else "e-graph",
                "e-nodes": s.egraph.node_count,
                "e-classes": len(set(s.egraph.node_class.tolist())),
                "original_cost": s.original,
                "best_cost": _number(comparison.best(s.name)),
                "lower_bound": _number(comparison.bound(s.name)),
                "proven": comparison.is_proven(s.name),
            }
            for s in comparison.subjects
        ],
        "rows": [
            {
                **_plain(comparison, row),
                "trace": [[m.seconds, _number(m.cost), _number(m.lower_bound)] for m in row.trace],
            }
            for row in comparison.rows
        ],
    }


def over_best(comparison: Comparison, row: Row) -> float | None:
    """How much more the row costs than the best one, as a share; None without an answer."""
    best = comparison.best(row.subject)
    if not math.isfinite(row.cost):
        return None
    return 0.0 if row.cost == best else (row.cost - best) / abs(best) if best else math.inf


def _plain(comparison: Comparison, row: Row) -> dict[str, Any]:
    return {
        "subject": row.subject,
        "strategy": row.strategy,
        "seed": row.seed,
        "cost": _number(row.cost),
        "over_best": over_best(comparison, row),
        "lower_bound": _number(row.lower_bound),
        "gap": _number(row.gap),
        "status": row.status,
        "seconds": row.seconds,
        "nodes": row.nodes,
        "measured_seconds": row.measured,
        "speedup": row.ratio,
        "error": row.error,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
