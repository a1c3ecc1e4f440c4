"""What a run writes into its report after each stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from egraph_opt.onnx_io import Imported, annotated
from egraph_opt.pipeline.candidates import Proposal
from egraph_opt.pipeline.choose import Choice
from egraph_opt.pipeline.pricing import Prices
from egraph_opt.pipeline.reasons import said
from egraph_opt.pipeline.report import ModelFacts, Outcome, Report
from egraph_opt.pipeline.tries import blame
from egraph_opt.saturation import Saturation
from egraph_opt.verification import Verdict


def record_saturation(report: Report, found: Saturation) -> None:
    """Why it stopped, how the e-graph grew, and which rules matched."""
    seen = found.report
    report.saturation = {
        "reason": str(seen.reason),
        "detail": seen.detail,
        "iterations": [{"nodes": i.nodes, "seconds": i.seconds} for i in seen.iterations],
        "e-nodes": seen.nodes,
        "e-classes": seen.classes,
        "rules": {name: dataclasses.asdict(r) for name, r in seen.rules.items() if r.matches},
    }
    report.rule_matches = {name: r.matches for name, r in seen.rules.items() if r.matches}


def record_prices(report: Report, prices: Prices, proposals: Sequence[Proposal], *, lazy: bool) -> None:
    """What was priced in the end, and how much of it was not needed."""
    report.pricing = prices.origins
    if not lazy:
        return
    ended = {str(p.ended): 0 for p in proposals}
    for proposal in proposals:
        ended[str(proposal.ended)] += 1
    report.lazy_costs = {
        "wanted": prices.asked,
        "measured": prices.asked - prices.saved,
        "saved": prices.saved,
        "batches": prices.batches,
        "false bounds": len(prices.violated),
        "extractions": ended,
    }
    if prices.violated:
        report.notes.append(
            f"{len(prices.violated)} operators were faster than thought possible, so all were measured"
            f" ({prices.violated[0]}): please report this"
        )


def record_choice(report: Report, choice: Choice) -> None:
    """What became of each candidate, what was verified, and what the races said."""
    report.candidates = list(choice.rows)
    if choice.verdict is not None:
        report.verdict = _evidence(choice.verdict)
    if choice.races is not None:
        report.control_spread, report.clock = choice.races.spread, choice.races.first.clock
        report.latency_before = choice.races.first.laps[0].b10
        report.notes += [f"the model does not run at {said(sizes)}: left out" for sizes in choice.races.skipped]
        nearest = max(report.candidates, key=lambda row: row.ratio or 0.0)
        report.at_sizes = nearest.at_sizes
    report.notes += [blamed] if (blamed := blame(choice)) else []


def record_result(report: Report, choice: Choice, imported: Imported) -> None:
    """The candidate that was taken in place of a model."""
    assert choice.entry is not None
    row = next(r for r in choice.rows if r.name == choice.entry.row.name)
    report.chosen, report.rules, report.estimated_after = row.name, row.rules, row.estimated
    report.latency_after, report.speedup, report.at_sizes = row.latency, row.ratio, row.at_sizes
    report.outcome = Outcome.OPTIMIZED
    report.reason = choice.verdict.reason if choice.verdict else ""
    report.after = ModelFacts.of(choice.entry.model)
    if report.after.opset != imported.opset:
        report.notes.append(f"the opset was raised from {imported.opset} to {report.after.opset} for a gain")
    there = set(annotated(choice.entry.model))
    lost = [name for name in annotated(imported.model) if name not in there]
    if lost:
        some = ", ".join(lost[:_NAMED]) + ", ..." * (len(lost) > _NAMED)
        report.notes.append(
            f"annotations of quantization of {len(lost)} values are left out, since these values, or tensors that the"
            f" annotations name, are not computed any more: {some}"
        )


_NAMED = 5
"""How many values a note names."""


def _evidence(verdict: Verdict) -> dict[str, object]:
    return {
        "kind": verdict.kind,
        "reason": verdict.reason,
        "outputs compared": len(verdict.evidence),
        "sizes": verdict.sizes,
        "worst": dataclasses.asdict(verdict.worst) if verdict.worst else None,
        "notes": list(verdict.notes),
        "checks": list(verdict.checks),
    }
