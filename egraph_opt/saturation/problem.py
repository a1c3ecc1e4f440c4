"""What saturation is asked: a graph without its weights, and the rules that can matter to it."""

from __future__ import annotations

from dataclasses import dataclass

from egraph_opt.ir import Node, Type
from egraph_opt.rewrites import Constructor, Rule


@dataclass(frozen=True)
class Problem:
    """What the worker gets: a graph without its weights, and the rules that can matter to it.

    Attributes:
        splats: for ``Const`` nodes all of whose elements are one number: that number, by node index.
        triangles: for ``Const`` nodes with zeros on and below the diagonal and one number above it: that number.
        doubled: ``Const`` nodes that hold the same numbers twice along their last axis.
        sides: the nodes of each of the graphs in here; operators that share an operand are merged (many at once, see
            ``merge``) when they are in one of them.
    """

    nodes: tuple[Node, ...]
    types: tuple[Type, ...]
    outputs: tuple[int, ...]
    splats: dict[int, float]
    triangles: dict[int, float]
    doubled: frozenset[int]
    sides: tuple[frozenset[int], ...]
    rules: tuple[Rule, ...]

    @property
    def spelled(self) -> set[Constructor]:
        """What rules can read in place of constants: the operators that would make them."""
        fill = {("Fill", 0)} if self.splats or self.triangles else set[Constructor]()
        halves = {("Slice", 1), ("Concat", 2)} if self.doubled else set[Constructor]()
        return fill | halves | ({("Trilu", 1)} if self.triangles else set())
