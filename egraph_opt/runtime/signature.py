"""What a cost depends on: an operator, its attributes, the static types of its operands, and which are weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from egraph_opt.ir import AttrValue, TensorGraph, TensorType, TupleType, Type
from egraph_opt.ops import operator, operators

FREE = frozenset({"Const", "Get", "Input"})
"""Nodes that do nothing when the model runs."""


@dataclass(frozen=True, eq=False)
class Signature:
    """One thing to price.

    Attributes:
        types: static types of the operands.
        constant: per operand, whether it is a weight (runtimes pack weights once, when the session starts).
    """

    op: str
    attrs: tuple[AttrValue, ...] = ()
    types: tuple[Type, ...] = ()
    constant: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if len(self.constant) != len(self.types):
            raise ValueError(f"{self.op} has {len(self.types)} operands and {len(self.constant)} constant marks")

    @staticmethod
    def of(graph: TensorGraph, index: int) -> Signature:
        """The signature of a node of a graph whose sizes are numbers."""
        node = graph.nodes[index]
        types = tuple(graph.types[i] for i in node.operands)
        return Signature(node.op, node.attrs, types, tuple(graph.nodes[i].op == "Const" for i in node.operands))

    @cached_property
    def key(self) -> str:
        """The signature as one line of text, the same in every process; a star marks a weight."""
        operands = (("*" if c else "") + str(t) for t, c in zip(self.types, self.constant, strict=True))
        return f"{self.op}{self.attrs!r} {' '.join(operands)}"

    def __eq__(self, other: object) -> bool:
        # by text, because 0.0 == -0.0 and nan != nan
        return isinstance(other, Signature) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def is_known(self) -> bool:
        """Whether the operator table can type it; opaque nodes and values of unknown rank are not known."""
        return self.op in operators() and all(isinstance(t, TensorType) for t in self.types)

    @cached_property
    def tensors(self) -> tuple[TensorType, ...]:
        """The operand types of a known signature."""
        return tuple(t for t in self.types if isinstance(t, TensorType))

    @cached_property
    def result(self) -> Type:
        """The type of the result of a known signature, from the operator table.

        Raises:
            KeyError: the operator is not in the table.
            IllTyped: the operands do not fit.
        """
        return operator(self.op).infer(self.attrs, self.tensors)

    @property
    def results(self) -> tuple[TensorType, ...]:
        """The tensors that the operator returns, one per output."""
        result = self.result
        items = result.items if isinstance(result, TupleType) else (result,)
        return tuple(t for t in items if isinstance(t, TensorType))

    def attr(self, name: str) -> AttrValue:
        """The attribute called ``name``, or ``None`` where the operator has none of that name."""
        names = [p.name for p in operator(self.op).params]
        return self.attrs[names.index(name)] if name in names else None
