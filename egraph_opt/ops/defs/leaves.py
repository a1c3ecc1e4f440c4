"""Nodes that are no ONNX operator: constants and the parts of a tuple. ``Input`` and ``Opaque`` are known to the
importer alone, since their types come from the model and not from a rule."""

from __future__ import annotations

from collections.abc import Sequence

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types


class Get(Operator):
    """Output ``index`` of an operator with several outputs; costs nothing."""

    name = "Get"
    params = (Param("index", "int"),)
    ring = "exact"
    rearranges = True

    def infer(self, attrs: Attrs, types: Types) -> Type:
        items = getattr(types[0], "items", None)
        (index,) = attrs
        if items is None or not isinstance(index, int) or not 0 <= index < len(items):
            raise IllTyped(f"no output {index} in {types[0]}")
        return items[index]

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        (index,) = attrs
        assert isinstance(index, int)
        return operands[0][index]  # the operand is the tuple that the other operator returned

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        if types[0] is None:
            return None
        count = len(getattr(types[0], "items", ()))
        index = attrs[0] if attrs[0] is not None else int(rng.integers(count))
        return Sample((index,), (types[0],))

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 0

    def moves_data(self, attrs: Attrs) -> bool:
        return False


OPERATORS = (Get(),)
