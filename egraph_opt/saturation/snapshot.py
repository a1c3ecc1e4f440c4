"""What the worker sends back: an e-graph as plain data, and what each iteration did."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from egraph_opt.ir import AttrValue, Type


class StopReason(StrEnum):
    """Why saturation ended."""

    SATURATED = "saturated"
    ITERATIONS = "iteration limit"
    NODES = "e-node limit"
    MATCHES = "match limit"
    TIME = "time limit"
    MEMORY = "memory limit"
    KILLED = "worker killed"
    FAILED = "worker failed"


@dataclass(frozen=True, slots=True)
class RuleReport:
    """Matches of a rule and the seconds spent on finding and applying them."""

    matches: int
    seconds: float


@dataclass(frozen=True, slots=True)
class IterationReport:
    """One iteration: e-nodes afterwards, seconds, per-rule work, and whether anything changed.

    ``damped``: rules with very many matches sat it out, so that no change does not mean that nothing is left to do.
    """

    nodes: int
    seconds: float
    rules: dict[str, RuleReport]
    changed: bool
    damped: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """All e-nodes of one constructor: attributes (numbers, or ids of ``Snapshot.values``), operand classes, own
    class."""

    op: str
    attrs: list[tuple[int, ...]]
    operands: list[tuple[int, ...]]
    classes: list[int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An e-graph after some iteration.

    Attributes:
        class_types: id into ``types`` of each class that has a type.
        constant: classes whose value is known before the model runs.
        node_class: the class of each node of the graph that was saturated.
        fired: ``(class, rule)`` for each rule that proved something equal to the class.
    """

    tables: list[Table]
    class_types: dict[int, int]
    constant: list[int]
    node_class: list[int]
    fired: list[tuple[int, int]]
    class_count: int
    values: list[AttrValue]
    types: list[Type]
    rule_names: tuple[str, ...]
