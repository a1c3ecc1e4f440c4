"""What is done with each model of a zoo: the public interface, and its report in terms of outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from egraph_opt.zoo.records import Finding, Outcome, is_about_memory
from egraph_opt.zoo.worker import Task

if TYPE_CHECKING:
    import onnx_ir

    from egraph_opt.pipeline import Report

OUTPUT = "model.onnx"
"""Name of an optimized model in its folder."""
SAID_BY_ROUND = ("options", "versions")
"""Parts of a report that are the same for every model."""


def optimize_model(task: Task, tell: Callable[[str], None]) -> Finding:
    """Optimizes a model; where something better was found, ``OUTPUT`` is in the task's folder afterwards.

    Raises:
        EgraphOptError: as ``egraph_opt.optimize``.
    """
    tell("load")  # the imports below take most of it
    from egraph_opt.api import optimize
    from egraph_opt.onnx_io import save_model

    result = optimize(task.path, on_progress=lambda progress: tell(progress.stage), **task.options)
    outcome, reason = classify(result.report)
    if outcome is Outcome.OPTIMIZED:
        tell("save")
        save_model(cast("onnx_ir.Model", result.model), task.folder / OUTPUT)
    return Finding(outcome, reason, _trimmed(result.report.to_json()))


def classify(report: Report) -> tuple[Outcome, str]:
    """The outcome that a report amounts to, and its reason."""
    from egraph_opt.pipeline import Outcome as Ending

    if report.outcome is Ending.OPTIMIZED:
        return Outcome.OPTIMIZED, report.reason
    if is_about_memory(report.reason):
        return Outcome.OUT_OF_MEMORY, report.reason
    if any(map(is_about_memory, (*report.notes, *report.verdict.get("notes", ())))):
        return Outcome.OUT_OF_MEMORY, "an allocation failed when the model was run: the notes have the message"
    if report.outcome is Ending.BUDGET:
        short = "(memory)" in report.reason
        return Outcome.OUT_OF_MEMORY if short else Outcome.TIMEOUT, report.reason
    if report.outcome is Ending.REJECTED:
        runs = report.verdict.get("kind", "unverified") != "unverified"
        return Outcome.REJECTED if runs else Outcome.UNSUPPORTED, report.reason
    if report.opaque and report.understood == 0:
        kept = ", ".join(f"{op} {count}" for op, count in report.opaque.items())
        return Outcome.UNSUPPORTED, f"no node is understood: {kept}"
    return Outcome.UNCHANGED, report.reason


def _trimmed(report: dict[str, Any]) -> dict[str, Any]:
    """A report without what the round says, and without the counts of every rule that matched."""
    kept = {name: value for name, value in report.items() if name not in (*SAID_BY_ROUND, "rule_matches")}
    kept["saturation"] = {k: v for k, v in report["saturation"].items() if k not in ("rules", "iterations")}
    return kept
