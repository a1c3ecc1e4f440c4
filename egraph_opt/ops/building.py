"""The builder over the table of operators."""

from __future__ import annotations

from dataclasses import dataclass

from egraph_opt.ir import Size
from egraph_opt.ops.base import Operator
from egraph_opt.ops.kinds import Array
from egraph_opt.ops.known import constant_value, size_values
from egraph_opt.ops.registry import operator
from egraph_opt.ops.source import Builder


@dataclass(frozen=True)
class GraphBuilder(Builder):
    """Adds nodes of the operators of the table, and knows what nodes compute where no input decides."""

    def declared(self, op: str) -> Operator:
        return operator(op)

    def known(self, index: int) -> Array | None:
        return constant_value(self.graph, index, self.given)

    def sizes(self, index: int) -> tuple[Size, ...] | None:
        return size_values(self.graph, index, self.given)
