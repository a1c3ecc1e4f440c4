"""The way out: what an operator sees when it writes itself as ONNX nodes.

onnx-ir is loaded where it is needed: that takes longer than to load all of this room, most of which works without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir import NUMERIC, AttrValue, TensorType, Type
from egraph_opt.ops.kinds import Attrs

if TYPE_CHECKING:
    import onnx_ir


@dataclass
class Sink:
    """Collects the ONNX nodes and initializers of one graph; equal small constants are written once."""

    opset: int
    nodes: list[onnx_ir.Node] = field(default_factory=list)
    initializers: list[onnx_ir.Value] = field(default_factory=list)
    _constants: dict[tuple[str, tuple[int, ...], bytes], onnx_ir.Value] = field(default_factory=dict, repr=False)

    def constant(self, array: NDArray[np.generic]) -> onnx_ir.Value:
        """A nameless initializer that holds ``array``."""
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            import onnx_ir

            tensor = onnx_ir.tensor(array)
            type_, shape = onnx_ir.TensorType(tensor.dtype), onnx_ir.Shape(array.shape)
            self._constants[key] = onnx_ir.Value(type=type_, shape=shape, const_value=tensor)
            self.initializers.append(self._constants[key])
        return self._constants[key]

    def node(
        self,
        op_type: str,
        inputs: Sequence[onnx_ir.Value | None],
        attributes: Mapping[str, AttrValue],
        outputs: int = 1,
        domain: str = "",
    ) -> tuple[onnx_ir.Value, ...]:
        """Appends one ONNX node; attributes that are ``None`` are left out. Returns its outputs."""
        import onnx_ir

        given = {name: list(v) if isinstance(v, tuple) else v for name, v in attributes.items() if v is not None}
        empty = [onnx_ir.AttrInt64s(name, []) for name, v in given.items() if v == []]  # a list of unknown type
        full = {name: v for name, v in given.items() if v != []}
        attrs = [*empty, *onnx_ir.convenience.convert_attributes(full)]  # type: ignore[arg-type]
        self.nodes.append(onnx_ir.Node(domain, op_type, inputs, attrs, num_outputs=outputs))
        return tuple(self.nodes[-1].outputs)


@dataclass(frozen=True)
class Lowering:
    """One node on its way out.

    Attributes:
        opset: the opset of the default domain that the nodes must be valid in.
        attrs, operand_types, type: the node's own attributes and types.
        inputs: the ONNX values of its operands, in order.
    """

    sink: Sink
    attrs: Attrs
    inputs: tuple[onnx_ir.Value, ...]
    operand_types: tuple[Type, ...]
    type: Type

    @property
    def opset(self) -> int:
        return self.sink.opset

    def op(self, op_type: str, inputs: Sequence[onnx_ir.Value | None], **attributes: AttrValue) -> onnx_ir.Value:
        """Emits one ONNX node of the default domain with one output."""
        return self.sink.node(op_type, inputs, attributes)[0]

    def op_multi(
        self, op_type: str, inputs: Sequence[onnx_ir.Value | None], outputs: int, **attributes: AttrValue
    ) -> tuple[onnx_ir.Value, ...]:
        """Emits one ONNX node of the default domain with several outputs."""
        return self.sink.node(op_type, inputs, attributes, outputs)

    def ints(self, values: Sequence[int]) -> onnx_ir.Value:
        """A rank-1 int64 initializer, as ONNX wants axes, shapes, pads and split sizes."""
        return self.sink.constant(np.array(list(values), np.int64))

    def scalar(self, value: float | int | bool, dtype: str) -> onnx_ir.Value:
        """A rank-0 initializer of our dtype name."""
        return self.sink.constant(np.array(value, numpy_dtype(dtype)))

    def tensor_type(self, index: int) -> TensorType:
        """The type of operand ``index``, which is known to be a tensor."""
        type_ = self.operand_types[index]
        assert isinstance(type_, TensorType), type_
        return type_


_PLAIN = (NUMERIC - {"bfloat16"}) | {"bool"}


@cache
def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The NumPy dtype (ml_dtypes for bfloat16 and smaller floats) of our dtype name."""
    return np.dtype(name) if name in _PLAIN else onnx_dtype(name).numpy()


def onnx_dtype(name: str) -> onnx_ir.DataType:
    """The ONNX element type of our dtype name."""
    import onnx_ir

    return onnx_ir.DataType[_onnx_names()[name]]


def dtype_name(dtype: onnx_ir.DataType) -> str:
    """Our name of an ONNX element type: NumPy's, lower case."""
    return _OTHER_NAMES.get(dtype.name, dtype.name.lower())


_OTHER_NAMES = {"FLOAT": "float32", "DOUBLE": "float64", "UNDEFINED": "unknown"}


@cache
def _onnx_names() -> dict[str, str]:
    import onnx_ir

    return {dtype_name(member): member.name for member in onnx_ir.DataType}
