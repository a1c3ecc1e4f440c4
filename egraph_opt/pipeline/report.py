"""What the optimizer tells: one record that the screen, ``--json`` and the tests read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import onnx_ir

from egraph_opt.pipeline.races import AtSize


class Outcome(StrEnum):
    """How it ended."""

    OPTIMIZED = "optimized"
    UNCHANGED = "unchanged"
    REJECTED = "rejected"
    BUDGET = "budget"
    FAILED = "failed"


@dataclass(frozen=True)
class ModelFacts:
    """A model in numbers: nodes (subgraphs included) per operator, parameters, bytes of weights, opset."""

    nodes: int
    operators: Mapping[str, int]
    parameters: int
    weight_bytes: int
    opset: int

    @staticmethod
    def of(model: onnx_ir.Model) -> ModelFacts:
        counts: dict[str, int] = {}
        for node in model.graph.all_nodes():
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
        weights = [v.const_value for v in model.graph.initializers.values() if v.const_value is not None]
        weights += [
            node.attributes["value"].as_tensor()
            for node in model.graph.all_nodes()
            if node.op_type == "Constant" and "value" in node.attributes
        ]
        opsets = model.opset_imports
        return ModelFacts(
            nodes=sum(counts.values()),
            operators=dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
            parameters=sum(int(w.size) for w in weights),
            weight_bytes=sum(int(w.nbytes) for w in weights),
            opset=opsets.get("", opsets.get("ai.onnx", 0)),
        )


@dataclass(frozen=True)
class Candidate:
    """One graph that was considered.

    Attributes:
        estimated: sum of operator costs, seconds.
        lower_bound: no graph of the e-graph (under the candidate's own restrictions) costs less.
        ratio: measured speed against the original (above 1: faster); None where it was not timed; of several sizes,
            the geometric mean.
        latency: measured seconds (mean of the fastest tenth) at the first size.
        at_sizes: the same at each size.
        verdict: what verification said; empty where it was not asked.
        rules: rules behind it, with the number of nodes that each explains.
    """

    name: str
    estimated: float
    lower_bound: float
    status: str
    nodes: int
    opset: int
    rules: Mapping[str, int]
    ratio: float | None = None
    median_ratio: float | None = None
    latency: float | None = None
    verdict: str = ""
    at_sizes: Sequence[AtSize] = ()


@dataclass(frozen=True)
class Refusal:
    """A try of which nothing verified, so that another one followed.

    Attributes:
        reason: what verification said of the last candidate.
        left_out: rules that later tries do without; none where it is subgraphs that are left as they are.
        blame, said: what led to it, and what is done about it, in words for the user.
    """

    reason: str
    left_out: Sequence[str]
    blame: str
    said: str


@dataclass
class Report:
    """Everything about one run; filled in as the run goes on, so that an interrupted one says how far it came."""

    outcome: Outcome = Outcome.UNCHANGED
    reason: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    before: ModelFacts | None = None
    after: ModelFacts | None = None
    opaque: Mapping[str, int] = field(default_factory=dict[str, int])
    understood: float = 1.0
    measured_sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    saturation: dict[str, Any] = field(default_factory=dict[str, Any])
    rule_matches: Mapping[str, int] = field(default_factory=dict[str, int])
    pricing: dict[str, int] = field(default_factory=dict[str, int])
    lazy_costs: dict[str, Any] = field(default_factory=dict[str, Any])
    estimated_before: float | None = None
    estimated_after: float | None = None
    latency_before: float | None = None
    latency_after: float | None = None
    speedup: float | None = None
    control_spread: float | None = None
    clock: str = ""
    at_sizes: Sequence[AtSize] = ()
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    chosen: str = ""
    rules: Mapping[str, int] = field(default_factory=dict[str, int])
    verdict: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: list[str] = field(default_factory=list[str])
    refusals: list[Refusal] = field(default_factory=list[Refusal])

    def to_json(self) -> dict[str, Any]:
        """Plain data; numbers that JSON cannot write become null."""
        return plain(dataclasses.asdict(self))


def plain(value: Any) -> Any:
    """Mappings, lists, text and finite numbers; everything else as text or null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, StrEnum):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
