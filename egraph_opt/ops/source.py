"""The way in: what an operator sees of an ONNX node, and the builder that types nodes as they are added."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from egraph_opt.ir import AttrValue, Constant, Size, TensorGraph, TensorType, Type
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Types, Unsupported

if TYPE_CHECKING:
    import onnx_ir


class Declared(Protocol):
    """What a builder needs of an operator: ``ops.base.Operator``, which is written against this file."""

    @property
    def params(self) -> tuple[Named, ...]: ...
    def infer(self, attrs: Attrs, types: Types, /) -> Type: ...
    def opset(self, attrs: Attrs, types: Types, /) -> int: ...


class Named(Protocol):
    """An attribute of an operator."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Builder(ABC):
    """Adds typed nodes to a graph. Which operators there are, and what they compute, ``ops.building`` adds.

    Attributes:
        given: values of inputs that are known all the same, symbolic sizes among them.
    """

    graph: TensorGraph
    given: dict[int, Array] = field(default_factory=dict[int, Array])

    @abstractmethod
    def declared(self, op: str) -> Declared:
        """The operator called ``op``."""

    @abstractmethod
    def known(self, index: int) -> Array | None:
        """The value of a node that no input decides: ``constant_value``."""

    @abstractmethod
    def sizes(self, index: int) -> tuple[Size, ...] | None:
        """The integers of a node that only sizes of operands decide: ``size_values``."""

    def apply(self, op: str, operands: Sequence[int], **attributes: AttrValue) -> int:
        """Index of ``op(*operands)``; attributes by name, all of them.

        Raises:
            IllTyped: the operands do not fit.
        """
        declared = self.declared(op)
        attrs = tuple(attributes[p.name] for p in declared.params)
        assert len(attributes) == len(attrs), f"{op} takes {[p.name for p in declared.params]}"
        return self.graph.add(op, attrs, operands, declared.infer(attrs, [self.type(i) for i in operands]))

    def parts(self, index: int) -> tuple[int, ...]:
        """The outputs of a node of tuple type, as ``Get`` nodes."""
        type_ = self.graph.types[index]
        items = getattr(type_, "items", ())
        return tuple(self.graph.add("Get", (i,), (index,), item) for i, item in enumerate(items))

    def constant(self, array: Array) -> int:
        """Index of a constant."""
        return self.graph.constant(Constant.of(array))

    def type(self, index: int) -> TensorType:
        """The tensor type of a node.

        Raises:
            IllTyped: it is no tensor of known rank.
        """
        type_ = self.graph.types[index]
        if not isinstance(type_, TensorType):
            raise IllTyped(f"an operand has no known rank: {type_}")
        return type_


@dataclass(frozen=True)
class Source:
    """An ONNX node on its way in.

    Attributes:
        operands: node indices of its inputs; ``None`` where an optional input is left out.
        opset: the opset of the default domain.
    """

    builder: Builder
    node: onnx_ir.Node
    operands: tuple[int | None, ...]
    opset: int

    @property
    def op_type(self) -> str:
        return self.node.op_type

    def has(self, index: int) -> bool:
        """Whether input ``index`` is given."""
        return index < len(self.operands) and self.operands[index] is not None

    def operand(self, index: int) -> int:
        """Node index of input ``index``.

        Raises:
            Unsupported: the input is left out.
        """
        found = self.operands[index] if index < len(self.operands) else None
        if found is None:
            raise Unsupported(f"{self.op_type} without input {index}")
        return found

    def type(self, index: int) -> TensorType:
        """Type of input ``index``; Unsupported when it is missing or its rank is unknown."""
        try:
            return self.builder.type(self.operand(index))
        except IllTyped as error:
            raise Unsupported(str(error)) from None

    def attr(self, name: str, default: AttrValue = None) -> AttrValue:
        """An ONNX attribute as a Python value (lists as tuples), or ``default``.

        Raises:
            Unsupported: it refers to an attribute of the enclosing function.
        """
        attr = self.node.attributes.get(name)
        if attr is None:
            return default
        if attr.is_ref():
            raise Unsupported(f"{self.op_type}.{name} refers to a function attribute")
        value = attr.value
        if attr.type.name == "FLOAT":
            return _float32(value)
        if attr.type.name == "FLOATS":
            return tuple(_float32(v) for v in value)
        return tuple(value) if isinstance(value, list | tuple) else value

    def int_attr(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attr(name, default)
        if not isinstance(value, int):
            raise Unsupported(f"{self.op_type}.{name} is not a number")
        return value

    def ints_attr(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, ``None`` when it is not given."""
        value = self.attr(name)
        if value is None:
            return None
        if not isinstance(value, tuple):
            raise Unsupported(f"{self.op_type}.{name} is not a list")
        return tuple(int(v) for v in value)

    def only_output(self, what: str = "extra outputs are used") -> None:
        """Raises Unsupported when something reads an output after the first."""
        for value in self.node.outputs[1:]:
            if value.name and (value.uses() or value.is_graph_output()):
                raise Unsupported(f"{self.op_type}: {what}")

    def axis(self, axis: int, rank: int) -> int:
        """``axis`` counted from the front; Unsupported when there is none."""
        if not -rank <= axis < rank:
            raise Unsupported(f"{self.op_type}: no axis {axis} in a tensor of rank {rank}")
        return axis % rank

    def array(self, index: int) -> Array | None:
        """The value of input ``index`` where it is a constant or a small expression of constants."""
        return self.builder.known(self.operand(index)) if self.has(index) else None

    def ints(self, index: int, what: str) -> tuple[int, ...]:
        """Constant integers of input ``index``.

        Raises:
            Unsupported: the input is computed while the model runs.
        """
        array = self.array(index)
        if array is None:
            raise Unsupported(f"{self.op_type}: {what} are computed while the model runs")
        return tuple(int(v) for v in np.asarray(array).reshape(-1))

    def sizes(self, index: int, what: str) -> tuple[Size, ...]:
        """The sizes that input ``index`` holds: numbers, and symbolic sizes that come from the shapes of operands.

        Raises:
            Unsupported: anything else decides them while the model runs.
        """
        found = self.builder.sizes(self.operand(index))
        return self.ints(index, what) if found is None else found

    def apply(self, op: str, *operands: int, **attributes: AttrValue) -> int:
        """Index of ``op(*operands)``; Unsupported when the types do not fit, or not in the model's opset."""
        declared = self.builder.declared(op)
        attrs = tuple(attributes[p.name] for p in declared.params)
        try:
            types = [self.builder.type(i) for i in operands]
            type_ = declared.infer(attrs, types)
            least = declared.opset(attrs, types)
        except IllTyped as error:
            raise Unsupported(f"{self.op_type}: {error}") from None
        if least > self.opset:  # what comes in must be able to go out again
            raise Unsupported(
                f"{self.op_type} with these attributes and types, which opset {self.opset} does not define"
            )
        return self.builder.graph.add(op, attrs, operands, type_)

    def apply_or_type(self, result: TensorType, op: str, *operands: int, **attributes: AttrValue) -> int:
        """``apply``; where the node cannot be expressed, the one who keeps it learns that it gives ``result``."""
        try:
            return self.apply(op, *operands, **attributes)
        except Unsupported as reason:
            raise Unsupported(str(reason), result) from None


def _float32(value: float) -> float:
    return float(np.float32(value))  # what a file would hold
