"""What an explanation says, as records that the screen and ``--json`` read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from egraph_opt.pipeline.report import plain


class Fate(StrEnum):
    """What became of a node."""

    REWRITTEN = "rewritten"
    ABSORBED = "absorbed"
    KEPT = "kept"
    OPAQUE = "not understood"
    CONSTANT = "constant"
    READ = "left out when read"
    UNUSED = "unused"


class Stop(StrEnum):
    """Where a rule came to its end at a node."""

    MADE = "made it"
    COST = "declined by cost"
    CONDITION = "condition"
    FORM = "form"
    NOT_LOADED = "not loaded"
    LIMIT = "limit"


@dataclass(frozen=True)
class RuleAt:
    """One rule at one node.

    Attributes:
        float_class: what it does to rounding; ``status``: why it is believed.
        share: how much of its left side is there, from 0 to 1.
        reason: what stopped it, in one sentence.
    """

    rule: str
    equation: str
    float_class: str
    status: str
    stop: Stop
    share: float
    reason: str


@dataclass(frozen=True)
class Alternative:
    """One way to compute the value of a node.

    Attributes:
        text: the operator with its attributes and operands.
        seconds: its own price.
        whole: estimated seconds of the cheapest graph that computes the value in this way; None where there is none.
        rules: a chain of rules that leads to it; empty for the node as it was.
        chosen: whether it is part of the graph that is explained.
    """

    text: str
    seconds: float
    whole: float | None
    rules: tuple[str, ...]
    chosen: bool


@dataclass(frozen=True)
class NodeExplanation:
    """What became of one node of the model, and why.

    Attributes:
        node: its name, or where it has none its first output.
        into: what computes its value now; for an absorbed node, what computes the values that it was needed for.
        rules: those behind it.
        group: all nodes that were replaced together with it.
        before, after: seconds of ``group``, and of what replaced it.
        reason: one sentence.
        attempts: rules for its operator; ``alternatives``: ways to compute it. Both where details were asked for.
    """

    node: str
    op: str
    fate: Fate
    reason: str
    into: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    before: float | None = None
    after: float | None = None
    attempts: tuple[RuleAt, ...] = ()
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """What became of every node, in the order of the model.

    Attributes:
        outcome, reason: of the whole run, as in its report.
        graph: the candidate that is explained: the result, or what would have been it; empty where there was none.
        taken: whether that is the result.
        before, after: estimated seconds of the graph as it was, and of the candidate.
        saturation: why saturation ended.
    """

    outcome: str
    reason: str
    graph: str
    taken: bool
    before: float
    after: float
    saturation: str
    nodes: tuple[NodeExplanation, ...]

    def node(self, name: str) -> NodeExplanation:
        """The explanation of one node; raises KeyError for a node that the model does not have."""
        return {n.node: n for n in self.nodes}[name]

    def to_json(self) -> Mapping[str, Any]:
        """Plain data."""
        return plain(dataclasses.asdict(self))
