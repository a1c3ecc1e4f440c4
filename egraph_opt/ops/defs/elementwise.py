"""Element-wise operators: two families and the activations that carry attributes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from egraph_opt.ir import FLOATS, INTEGERS, NUMERIC, AttrValue, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample, broadcast, fitting, holds, random_shape, require
from egraph_opt.ops.draws import one_of
from egraph_opt.ops.kinds import Array, Attrs, IllTyped, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir

Ring = Literal["exact", "oracle", "no"]
_erf = np.vectorize(math.erf, otypes=[np.float64])


class Unary(Operator):
    """``y[i] = f(x[i])``, same type; attributes are numbers with defaults, taken over from ONNX."""

    preserves_type = True

    def __init__(
        self,
        name: str,
        function: Callable[..., Array],
        *,
        ring: Ring = "oracle",
        dtypes: frozenset[str] = FLOATS,
        defaults: dict[str, float] | None = None,
        weight: int = 1,
        min_opset: int = 9,
    ) -> None:
        self.name, self.function, self.ring, self.dtypes = name, function, ring, dtypes
        self.defaults, self.weight, self.min_opset = defaults or {}, weight, min_opset
        self.params = tuple(Param(p, single=True) for p in self.defaults)
        self.onnx_names = (name,)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        if types[0].dtype not in self.dtypes:
            raise IllTyped(f"{self.name} is not defined on {types[0].dtype}")
        return types[0]

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x = operands[0]
        return np.asarray(self.function(x, *attrs)).astype(x.dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        chosen = tuple(
            float(np.float32(default * one_of(rng, (1.0, 0.5, 2.0)))) if given is None else given
            for given, default in zip(attrs, self.defaults.values(), strict=True)
        )
        dtype = "float64" if "float64" in self.dtypes else "bool"
        return fitting(self, chosen, (types[0] or TensorType(dtype, random_shape(rng)),))

    def from_onnx(self, source: Source) -> int:
        given = {name: source.attr(name, float(np.float32(v))) for name, v in self.defaults.items()}
        return source.apply(self.name, source.operand(0), **given)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return self.weight * super().flops(attrs, types, result)


class Binary(Operator):
    """``z = f(x, y)`` with broadcasting; both operands have one dtype."""

    arity = (2, 2)
    alike = True

    def __init__(
        self,
        name: str,
        function: Callable[[Array, Array], Array],
        *,
        ring: Ring = "no",
        dtypes: frozenset[str] = NUMERIC,
        result: str | None = None,
        weight: int = 1,
        fold: bool = False,
        magnitude: Callable[[float, float], float] | None = None,
    ) -> None:
        self.name, self.function, self.ring, self.dtypes = name, function, ring, dtypes
        self.result, self.weight, self.fold, self._magnitude = result, weight, fold, magnitude
        self.onnx_names = (name, "Sum") if name == "Add" else (name,)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        x, y = types
        if x.dtype != y.dtype:
            raise IllTyped(f"{self.name} of {x.dtype} and {y.dtype}")
        if x.dtype not in self.dtypes:
            raise IllTyped(f"{self.name} is not defined on {x.dtype}")
        return TensorType(self.result or x.dtype, broadcast([x.shape, y.shape]))

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x, y = operands
        z = np.asarray(self.function(x, y))
        return z if self.result else z.astype(x.dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        known = [t for t in types if t is not None]
        dtype = known[0].dtype if known else "float64" if "float64" in self.dtypes else "bool"
        if len(known) == 2:
            return fitting(self, (), (known[0], known[1]))
        base = known[0] if known else TensorType(dtype, random_shape(rng))
        other = TensorType(dtype, _compatible_shape(rng, base.numbers()))
        return fitting(self, (), (base, other) if types[1] is None else (other, base))

    def from_onnx(self, source: Source) -> int:
        count = len(source.operands)
        if count > 2 and not self.fold:
            raise Unsupported(f"{source.op_type} of {count} operands")
        total = source.operand(0)
        for index in range(1, count):
            total = source.apply(self.name, total, source.operand(index))
        return total

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return self.weight * super().flops(attrs, types, result)

    def magnitude(self, attrs: Attrs, types: Types, largest: Sequence[float]) -> float:
        return self._magnitude(*largest) if self._magnitude else math.inf


class Clip(Operator):
    """``min(max(x, low), high)``; ``None`` leaves a side open. ONNX's crossed bounds give ``high`` everywhere."""

    name = "Clip"
    preserves_type = True
    params = (Param("min"), Param("max"))
    onnx_names = ("Clip",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        dtype = types[0].dtype
        require(dtype in NUMERIC, f"Clip is not defined on {dtype}")
        require(all(bound is None or holds(dtype, bound) for bound in attrs), f"Clip of {dtype} to {attrs}")
        return types[0]

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x, (low, high) = operands[0], attrs
        if low is not None:
            x = np.maximum(x, np.array(low, x.dtype))
        return x if high is None else np.minimum(x, np.array(high, x.dtype))

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        low, high = sorted(float(v) for v in np.round(rng.normal(size=2) * 8) / 8)
        x = types[0] or TensorType("float64", random_shape(rng))
        if x.dtype in INTEGERS:
            low, high = (abs(int(v)) for v in (low, high))
        return fitting(self, (low if attrs[0] is None else attrs[0], high if attrs[1] is None else attrs[1]), (x,))

    def from_onnx(self, source: Source) -> int:
        if source.opset < 11:
            # the old attributes have limits of float32 as defaults, which change nothing but infinities
            limits = np.finfo(np.float32)
            bounds: tuple[AttrValue, AttrValue] = (
                source.attr("min", float(limits.min)),
                source.attr("max", float(limits.max)),
            )
        else:
            bounds = (self._bound(source, 1), self._bound(source, 2))
        if any(isinstance(bound, float) and math.isnan(bound) for bound in bounds):
            raise Unsupported("a bound of Clip is not a number")  # runtimes differ, and no law holds
        return source.apply(self.name, source.operand(0), min=bounds[0], max=bounds[1])

    @staticmethod
    def _bound(source: Source, index: int) -> float | int | None:
        if not source.has(index):
            return None
        array = source.array(index)
        if array is None or array.size != 1 or array.ndim > 1:
            raise Unsupported("Clip bounds are computed while the model runs")
        return array.reshape(-1)[0].item()

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        bounds = dict(zip(("min", "max"), low.attrs, strict=True))
        if low.opset < 11:
            return low.op("Clip", low.inputs, **bounds)
        dtype = low.tensor_type(0).dtype
        operands = [None if v is None else low.scalar(v, dtype) for v in bounds.values()]  # type: ignore[arg-type]
        while operands and operands[-1] is None:
            operands.pop()
        return low.op("Clip", [*low.inputs, *operands])

    def opset(self, attrs: Attrs, types: Types) -> int:
        # the attributes of old opsets are float32
        fits = all(isinstance(bound, int | float) and _is_float32(bound) for bound in attrs)
        return max(super().opset(attrs, types), 9 if fits else 11)


class PRelu(Binary):
    """``x if x >= 0 else slope * x``; the slope broadcasts to x, never the other way."""

    def __init__(self) -> None:
        super().__init__("PRelu", lambda x, s: np.where(x < 0, x * s, x), dtypes=FLOATS)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        result = super().infer(attrs, types)
        require(result == types[0], "the slope of PRelu must broadcast to its input")
        return result

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        x = types[0] or TensorType("float64", random_shape(rng))
        slope = types[1] or TensorType(x.dtype, tuple(n if rng.random() < 0.5 else 1 for n in x.numbers()))
        return fitting(self, (), (x, slope))


class Gelu(Unary):
    """Gaussian error linear unit; ``approximate`` is ``none`` (erf) or ``tanh``."""

    def __init__(self) -> None:
        super().__init__("Gelu", _gelu, weight=8, min_opset=20)
        self.params = (Param("approximate"),)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        kind = attrs[0] if attrs[0] is not None else one_of(rng, ("none", "tanh"))
        return fitting(self, (kind,), (types[0] or TensorType("float64", random_shape(rng)),))

    def from_onnx(self, source: Source) -> int:
        return source.apply("Gelu", source.operand(0), approximate=source.attr("approximate", "none"))


def _is_float32(value: float) -> bool:
    with np.errstate(over="ignore"):
        return float(np.float32(value)) == value


def _gelu(x: Array, approximate: str) -> Array:
    wide = x.astype(np.float64)
    if approximate == "tanh":
        return 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    return 0.5 * wide * (1 + _erf(wide / math.sqrt(2)))


def _compatible_shape(rng: Rng, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with ``shape``: equal, per-axis, a scalar, or larger."""
    kind = rng.random()
    if kind < 0.5:
        return shape
    picked = tuple(
        n if rng.random() < 0.5 else (int(rng.integers(2, 4)) if n == 1 and rng.random() < 0.3 else 1) for n in shape
    )
    return picked[int(rng.integers(0, len(picked) + 1)) :] if kind < 0.75 else picked


def _divide(x: Array, y: Array) -> Array:
    if np.issubdtype(x.dtype, np.integer):  # C's truncation towards zero; division by zero is undefined in ONNX
        safe = np.where(y == 0, 1, y)
        quotient = np.abs(x) // np.abs(safe)
        return np.where((x < 0) != (safe < 0), -quotient, quotient)
    return x / y


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), 0, 1)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, np.zeros_like(x))


_SIGNED = FLOATS | {"int8", "int16", "int32", "int64"}
_BOOL = frozenset({"bool"})

OPERATORS = (
    Unary("Neg", np.negative, ring="exact", dtypes=_SIGNED),
    Unary("Abs", np.abs, dtypes=NUMERIC),
    Unary("Relu", lambda x: np.maximum(x, 0), dtypes=_SIGNED),
    Unary("LeakyRelu", lambda x, alpha: np.where(x < 0, x * x.dtype.type(alpha), x), defaults={"alpha": 0.01}),
    Unary("Elu", lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x), defaults={"alpha": 1.0}, weight=4),
    Unary("Sigmoid", _sigmoid, weight=6),
    Unary("HardSigmoid", _hard_sigmoid, defaults={"alpha": 0.2, "beta": 0.5}, weight=3),
    Unary("HardSwish", lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5), weight=4, min_opset=14),
    Unary("Tanh", np.tanh, weight=6),
    Unary("Softplus", _softplus, weight=8),
    Unary("Erf", lambda x: _erf(x), weight=6),
    Unary("Exp", np.exp, weight=4),
    Unary("Log", np.log, weight=4),
    Unary("Sqrt", np.sqrt, weight=2),
    Unary("Reciprocal", lambda x: 1 / x, weight=2),
    Unary("Sin", np.sin, weight=4),
    Unary("Cos", np.cos, weight=4),
    Unary("Floor", np.floor),
    Unary("Ceil", np.ceil),
    Unary("Round", np.round, min_opset=11),
    Unary("Sign", np.sign, dtypes=NUMERIC),
    Unary("Tan", np.tan, weight=6),
    Unary("Softsign", lambda x: x / (1 + np.abs(x)), weight=3),
    Unary("Mish", lambda x: x * np.tanh(_softplus(x)), weight=12, min_opset=18),
    Unary("Not", np.logical_not, dtypes=_BOOL),
    Gelu(),
    Binary("Add", np.add, ring="exact", fold=True, magnitude=operator.add),
    Binary("Sub", np.subtract, ring="exact", magnitude=operator.add),
    Binary("Mul", np.multiply, ring="exact", magnitude=operator.mul),
    Binary("Div", _divide, weight=2),
    Binary("Pow", np.power, dtypes=FLOATS, weight=8),
    Binary("Min", np.minimum, fold=True),
    Binary("Max", np.maximum, fold=True),
    Binary("Equal", np.equal, dtypes=NUMERIC | _BOOL, result="bool"),
    Binary("Less", np.less, result="bool"),
    Binary("Greater", np.greater, result="bool"),
    Binary("LessOrEqual", np.less_equal, result="bool"),
    Binary("GreaterOrEqual", np.greater_equal, result="bool"),
    Binary("Xor", np.logical_xor, dtypes=_BOOL, result="bool"),
    Binary("And", np.logical_and, dtypes=_BOOL, result="bool"),
    Binary("Or", np.logical_or, dtypes=_BOOL, result="bool"),
    PRelu(),
    Clip(),
)
