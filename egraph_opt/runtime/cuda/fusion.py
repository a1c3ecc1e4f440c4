"""The decisions about which values of a graph are stored, and by which kernel each is computed."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.runtime.cuda.expressions import ELEMENTWISE
from egraph_opt.runtime.cuda.kernels import ROWS
from egraph_opt.runtime.cuda.loops import LOOPS, REDUCED, reduced_axes
from egraph_opt.runtime.cuda.movers import MOVERS

Kind = Literal["leaf", "element", "move", "branch", "row", "reduction", "window", "dot", "dense", "other"]
PLAIN_MOVES = frozenset({"Transpose", "Reshape", "Slice", "Get", "Split", "Expand", "Tile"})
_LONG_REDUCTION = 64


@dataclass(frozen=True)
class Dense:
    """A matrix product or convolution and what its library call computes on the way out."""

    node: int
    bias: int | None = None
    residual: int | None = None
    activation: str | None = None

    @property
    def adds(self) -> bool:
        """Whether it adds anything to the result."""
        return self.bias is not None or self.residual is not None


@dataclass
class Fusion:
    """The decisions about one graph.

    Attributes:
        roots: values that a step computes; ``stored`` adds views of them, where an operator wants its operand in
            memory.
        dense, attention: library calls and attention by their root.
        anchors: rows, reductions and dot products by the root of the step that computes them.
        joined: concatenations whose operands are written into place.
        partial: products that only generated kernels read, so that these can add up partial sums.
        adding: attention does that too, biases included, where it reads float32 many times: see ``make_plan``.
    """

    graph: TensorGraph
    exact: bool = False
    adding: bool = False
    users: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    roots: set[int] = field(default_factory=set[int])
    stored: set[int] = field(default_factory=set[int])
    dense: dict[int, Dense] = field(default_factory=dict[int, Dense])
    attention: dict[int, tuple[int, int, int]] = field(default_factory=dict[int, tuple[int, int, int]])
    anchors: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    joined: set[int] = field(default_factory=set[int])
    partial: set[int] = field(default_factory=set[int])

    def shape(self, node: int) -> tuple[int, ...]:
        """The shape of a tensor of the graph."""
        type_ = self.graph.types[node]
        assert isinstance(type_, TensorType)
        return type_.numbers()

    def kind(self, node: int) -> Kind:
        """How a value is computed."""
        operator = self.graph.nodes[node]
        op = operator.op
        if op in ("Input", "Const", "Fill"):
            return "leaf"
        if op in ELEMENTWISE:
            return "element"
        if op in MOVERS:
            return "move" if op in PLAIN_MOVES else "branch"
        if op in ROWS:
            return "row"
        if op in REDUCED:
            axes, _ = reduced_axes(self.graph, node)
            long = math.prod(self.shape(operator.operands[0])[a] for a in axes) > _LONG_REDUCTION
            return "reduction" if long else "window"
        if op in LOOPS:
            return "window"
        if op == "Conv":
            return "window" if self.shape(operator.operands[1])[1] == 1 else "dense"
        if op in ("MatMul", "Gemm"):
            return "dot" if self._is_dot(node) else "dense"
        return "other"

    def _is_dot(self, node: int) -> bool:
        """One row times a weight: memory-bound, and worth a kernel that computes what follows too."""
        a, b = self.graph.nodes[node].operands
        rows = math.prod(self.shape(node)[:-1]) if self.shape(node) else 1
        float_ = self.graph.types[node].dtype in ("float32", "float16", "bfloat16")  # type: ignore[union-attr]
        return (
            rows == 1
            and float_
            and self.graph.nodes[b].op == "Const"
            and len(self.shape(b)) == 2
            and len(self.shape(a)) >= 1
        )


def sole_user(fusion: Fusion, node: int) -> int | None:
    """The one node that uses a value, if there is just one and the value is no output."""
    users = fusion.users[node]
    return users[0] if len(users) == 1 and node not in fusion.graph.outputs else None
