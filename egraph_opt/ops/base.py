"""What one operator declares. Everything else in the program reads it from here.

An operator is a subclass of ``Operator`` (or a row of a family such as ``Unary``) in one file of this room; the file
ends with ``OPERATORS = (...)`` and the registry finds it. Operators keep ONNX's names and, where they have them, ONNX's
attributes, with every default written out; what ONNX passes as a constant operand (axes, target shapes, split sizes) is
an attribute here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, final

import numpy as np

from egraph_opt.ir import INTEGERS, AttrValue, Size, SizeExpr, TensorType, Type, evaluate
from egraph_opt.ir.sizes import Floor
from egraph_opt.ops.draws import integers, shuffled
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types, Unsupported
from egraph_opt.ops.schema import first_opset

if TYPE_CHECKING:
    import onnx_ir

    from egraph_opt.ops.lowering import Lowering
    from egraph_opt.ops.source import Source


@dataclass(frozen=True, slots=True)
class Param:
    """An attribute. ``int`` ones are written as numbers in rules and in egglog; others are ids of a value table.

    ``single``: a float that ONNX stores in 32 bits, whatever the operands are.
    """

    name: str
    kind: Literal["int", "value"] = "value"
    single: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """Attributes and operand types that fit an operator; what gates and fuzzers draw their cases from.

    ``result``: the type of the operator applied to them, if it has been inferred.
    """

    attrs: Attrs
    types: tuple[TensorType, ...]
    result: Type | None = None


class Operator:
    """One operator: parameters, type rule, semantics, ONNX in and out, cost in operations and bytes.

    ``ring`` says how the operator acts on numbers modulo a prime, which is how rules are checked on many shapes:
    ``exact`` (additions, multiplications and data movement only), ``oracle`` (element-wise and non-linear: any
    function will do) or ``no`` (needs an order or a division).
    """

    name: str
    params: tuple[Param, ...] = ()
    arity: tuple[int, int | None] = (1, 1)
    outputs: int | None = 1  # None: the attributes decide, and the type is a TupleType
    ring: Literal["exact", "oracle", "no"] = "no"
    preserves_type: bool = False  # element-wise on one operand: the result has its type, whatever that is
    rearranges: bool = False  # every element of the result is an element of an operand that is no index
    alike: bool = False  # operands have one shape but for one axis, or for axes along which they broadcast
    indices: tuple[int, ...] = ()  # operands that are indices: integers within ``limits``
    min_opset: int = 9
    onnx_names: tuple[str, ...] = ()  # ONNX operators of the default domain that ``from_onnx`` understands

    def infer(self, attrs: Attrs, types: Types) -> Type:
        """The type of the result.

        Raises:
            IllTyped: the operands do not fit.
        """
        raise NotImplementedError(self.name)

    def is_storable(self, attrs: Attrs, types: Types) -> bool:
        """Whether ONNX holds the attributes well enough: 32 bits of a float are too few beside operands of float64."""
        if not any(isinstance(t, TensorType) and t.dtype == "float64" for t in types):
            return True
        floats = [v for p, v in zip(self.params, attrs, strict=True) if p.single and isinstance(v, float)]
        return all(math.isnan(v) or float(np.float32(v)) == v for v in floats)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array | tuple[Array, ...]:
        """The value in NumPy, in the operands' own dtype; also on float64 and on int64 residues."""
        raise NotImplementedError(self.name)

    @final
    def evaluate(self, attrs: Attrs, operands: Sequence[Array]) -> Array | tuple[Array, ...]:
        """What ``compute`` says, without NumPy's warnings of overflow and NaNs. Who computes many values switches those
        off once."""
        with np.errstate(all="ignore"):
            return self.compute(attrs, operands)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        """Fills in what is ``None`` among ``attrs`` and ``types`` at random, so that ``infer`` accepts it.

        Sizes are small and differ between axes; ``None`` when what is given cannot be completed.
        """
        raise NotImplementedError(self.name)

    def from_onnx(self, source: Source) -> int | tuple[int, ...]:
        """Node index (one per output) that computes the ONNX node ``source`` in the graph under construction.

        Raises:
            Unsupported: with the reason, in words for the user.
        """
        raise Unsupported(f"{source.op_type} has no importer")

    def to_onnx(self, low: Lowering) -> onnx_ir.Value | tuple[onnx_ir.Value, ...]:
        """Emits ONNX nodes for this operator; by default one node of the same name and attributes."""
        attributes = {p.name: value for p, value in zip(self.params, low.attrs, strict=True)}
        return low.op(self.name, low.inputs, **attributes)

    def opset(self, attrs: Attrs, types: Types) -> int:
        """The lowest opset that ``to_onnx`` can write for these attributes and operand types."""
        return max(self.min_opset, first_opset(self.name, tuple(t.dtype for t in types)))

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        """Arithmetic operations for static types; one per element of the result by default."""
        return math.prod(result.numbers()) if isinstance(result, TensorType) else 0

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        """A number that no element of the result exceeds in magnitude, where none of operand i exceeds ``largest[i]``.

        Infinite where only the value itself tells; rounding is not counted.
        """
        return max(largest) if self.rearranges else math.inf

    def moves_data(self, attrs: Attrs) -> bool:
        """False when a runtime can answer without touching the elements (a reshape)."""
        return True

    def limits(self, attrs: Attrs, types: Types) -> tuple[tuple[int, int] | None, ...]:
        """Per operand the lowest and highest value that it may hold (indices), ``None`` where anything goes."""
        return (None,) * len(types)


def ints(value: AttrValue) -> tuple[int, ...]:
    """``value`` as a tuple of numbers.

    Raises:
        IllTyped: it is something else (a symbolic size, for example).
    """
    if not isinstance(value, tuple):
        raise IllTyped(f"{value!r} is not a list of numbers")
    for v in value:  # a loop: types of millions of cases are inferred
        if not isinstance(v, int):
            raise IllTyped(f"{value!r} is not a list of numbers")
    return value  # type: ignore[return-value]


def integer(value: AttrValue) -> int:
    """``value`` as a number; raises IllTyped otherwise."""
    if not isinstance(value, int):
        raise IllTyped(f"{value!r} is not a number")
    return value


def require(condition: bool, message: str) -> None:
    """Raises IllTyped with ``message`` unless ``condition`` holds."""
    if not condition:
        raise IllTyped(message)


def broadcast(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """NumPy's and ONNX's multidirectional broadcasting; two different symbols do not broadcast.

    Raises:
        IllTyped: the shapes do not fit.
    """
    if len(shapes) == 2 and shapes[0] == shapes[1]:
        return shapes[0]
    rank = max((len(s) for s in shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if result[axis] == 1:
                result[axis] = size
            elif size not in (1, result[axis]):
                raise IllTyped(f"shapes {[list(s) for s in shapes]} do not broadcast")
    return tuple(result)


def concrete(value: AttrValue, sizes: dict[str, int]) -> AttrValue:
    """``value`` with every symbolic size replaced by its number."""
    if isinstance(value, SizeExpr):
        return evaluate(value, sizes)
    if isinstance(value, tuple):
        return tuple(concrete(v, sizes) for v in value)
    return value


def concrete_type(type_: TensorType, sizes: dict[str, int]) -> TensorType:
    """``type_`` with every symbolic size replaced by its number."""
    return TensorType(type_.dtype, tuple(evaluate(s, sizes) for s in type_.shape))


def random_shape(rng: Rng, rank: int | None = None, low: int = 1, high: int = 4) -> tuple[int, ...]:
    """A small shape; sizes are drawn independently, 1 included."""
    count = int(rng.integers(0, 5)) if rank is None else rank
    return integers(rng, low, high + 1, count)


def distinct_shape(rng: Rng, rank: int | None = None) -> tuple[int, ...]:
    """A small shape with a different size on every axis, sometimes with a 1 among them."""
    count = int(rng.integers(1, 5)) if rank is None else rank
    shape = shuffled(rng, range(2, 4 + count))[:count]
    if count and rng.random() < 0.25:
        shape[int(rng.integers(count))] = 1
    return tuple(shape)


def sizes(value: AttrValue) -> tuple[Size, ...]:
    """``value`` as a shape; raises IllTyped otherwise."""
    if not isinstance(value, tuple):
        raise IllTyped(f"{value!r} is not a shape")
    for size in value:
        require(isinstance(size, SizeExpr) or (isinstance(size, int) and size >= 0), f"{size!r} is not a size")
    return value  # type: ignore[return-value]


def fitting(declared: Operator, attrs: Sequence[AttrValue], types: Sequence[TensorType]) -> Sample | None:
    """The sample of these attributes and types, or ``None`` when ``declared`` does not accept them."""
    attrs, types = tuple(attrs), tuple(types)
    try:
        return Sample(attrs, types, declared.infer(attrs, types))
    except IllTyped:
        return None


def wide(x: Array) -> Array:
    """``x`` in the precision that sums are taken in: float32 for 16-bit floats, unchanged otherwise."""
    return x.astype(np.float32) if _is_half(x.dtype) else x


@cache
def _is_half(dtype: np.dtype[np.generic]) -> bool:
    return dtype.name in ("float16", "bfloat16")  # NumPy builds the name anew each time it is asked


def lower_bound(size: Size) -> int:
    """A number that ``size`` is never below (every symbol is a size, so it is 0 or more)."""
    if isinstance(size, int):
        return size
    constant = 0
    for monomial, coefficient in size.terms:
        if not monomial:
            constant = coefficient
        elif coefficient < 0 or not all(_never_negative(atom) for atom in monomial):
            return -(1 << 62)
    return constant


def _never_negative(atom: str | Floor) -> bool:
    if isinstance(atom, str):
        return True
    return lower_bound(atom.numerator) >= 0 and lower_bound(atom.denominator) >= 1


@cache
def numpy_limits(dtype: np.dtype[np.generic]) -> tuple[float | int, float | int]:
    """The lowest and the highest value of a NumPy number type; the infinities for floats."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype.name)
        return int(limits.min), int(limits.max)
    return -np.inf, np.inf


def holds(dtype: str, value: AttrValue) -> bool:
    """Whether ``value`` is written as an element of ``dtype`` is: a bool, an int in its range, or a float."""
    if dtype == "bool":
        return isinstance(value, bool)
    if dtype in INTEGERS:
        low, high = numpy_limits(np.dtype(dtype))
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    return isinstance(value, float)


def as_element(dtype: str, value: AttrValue) -> AttrValue:
    """``value`` written as ``holds`` wants it, where that loses nothing but its type."""
    assert isinstance(value, bool | int | float)
    return bool(value) if dtype == "bool" else int(value) if dtype in INTEGERS else float(value)
