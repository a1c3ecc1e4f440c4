"""A run as rows for other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from egraph_opt.zoo.records import Record
from egraph_opt.zoo.summary import speed_of

COLUMNS: tuple[str, ...] = (
    "model", "outcome", "reason", "speedup", "speed", "spread", "latency_before", "latency_after", "estimated_before",
    "estimated_after", "nodes_before", "nodes_after", "weight_bytes_before", "weight_bytes_after", "opset_before",
    "opset_after", "understood", "seconds", "cpu_seconds", "peak_memory", "output", "digest", "round", "started",
)  # fmt: skip


def to_csv(records: Sequence[Record]) -> str:
    """One line per model; what is not known is empty. Seconds and bytes everywhere."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({name: "" if value is None else value for name, value in _row(record).items()})
    return out.getvalue()


def _row(record: Record) -> dict[str, Any]:
    report, speed = record.report, speed_of(record)
    before, after = report.get("before") or {}, report.get("after") or {}
    row: dict[str, Any] = {
        "speedup": speed.ratio if speed else None,
        "speed": ("measured" if speed.measured else "estimated") if speed else None,
        "spread": report.get("control_spread"),
    }
    for name in ("nodes", "weight_bytes", "opset"):
        row |= {f"{name}_before": before.get(name), f"{name}_after": after.get(name)}
    for name in COLUMNS:
        if name not in row:
            row[name] = getattr(record, name) if hasattr(record, name) else report.get(name)
    return row
