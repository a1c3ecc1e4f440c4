"""Normalisations, in inference form: BatchNormalization, LayerNormalization and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from egraph_opt.ir import FLOATS, AttrValue, TensorType, Type
from egraph_opt.ops.base import Operator, Param, Sample, broadcast, distinct_shape, fitting, integer, require, wide
from egraph_opt.ops.draws import one_of
from egraph_opt.ops.kinds import Array, Attrs, Rng, Types, Unsupported
from egraph_opt.ops.lowering import Lowering
from egraph_opt.ops.source import Source

if TYPE_CHECKING:
    import onnx_ir

_EPSILONS = tuple(float(np.float32(v)) for v in (1e-5, 1e-3, 0.1))


class Normalization(Operator):
    """What the family shares: one float type, ``epsilon`` as the last attribute, parameters per channel."""

    ranks = 2

    def infer(self, attrs: Attrs, types: Types) -> Type:
        x = types[0]
        require(x.dtype in FLOATS and x.rank >= self.ranks, f"{self.name} of {x}")
        for t in types[1:]:
            require(t == TensorType(x.dtype, x.shape[1:2]), f"a parameter of {self.name} is {t}")
        require(isinstance(attrs[-1], float), "epsilon is a number")
        return x

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        given = next((t for t in types[1:] if t), None)
        shape = distinct_shape(rng, int(rng.integers(self.ranks, 5)))
        if given and given.rank == 1:
            shape = (shape[0], given.numbers()[0], *shape[2:])
        x = types[0] or TensorType(given.dtype if given else "float64", shape)
        channel = TensorType(x.dtype, x.shape[1:2])
        chosen = _EPSILONS[int(rng.integers(3))] if attrs[-1] is None else attrs[-1]
        return fitting(self, (chosen,), (x, *(t or channel for t in types[1:])))

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 8 * super().flops(attrs, types, result)


class BatchNormalization(Normalization):
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` with stored statistics per channel (axis 1)."""

    name = "BatchNormalization"
    params = (Param("epsilon", single=True),)
    arity = (5, 5)
    onnx_names = ("BatchNormalization",)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x = wide(operands[0])
        scale, bias, mean, variance = (_per_channel(wide(p), x.ndim) for p in operands[1:])
        factor = scale / np.sqrt(variance + _epsilon(attrs, x))
        return ((x - mean) * factor + bias).astype(operands[0].dtype, copy=False)

    def from_onnx(self, source: Source) -> int:
        source.only_output("its statistics are used (training)")
        if source.int_attr("training_mode", 0):
            raise Unsupported("BatchNormalization in training mode")
        epsilon = source.attr("epsilon", _EPSILONS[0])
        return source.apply("BatchNormalization", *(source.operand(i) for i in range(5)), epsilon=epsilon)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return super().flops(attrs, types, result) // 4


class InstanceNormalization(Normalization):
    """Every plane of every sample to mean 0 and variance 1, then ``* scale + bias`` per channel."""

    name = "InstanceNormalization"
    params = (Param("epsilon", single=True),)
    arity = (3, 3)
    ranks = 3
    onnx_names = ("InstanceNormalization",)

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x = wide(operands[0])
        scale, bias = (_per_channel(wide(p), x.ndim) for p in operands[1:])
        y = _standard(x, tuple(range(2, x.ndim)), _epsilon(attrs, x))
        return (y * scale + bias).astype(operands[0].dtype, copy=False)

    def from_onnx(self, source: Source) -> int:
        epsilon = source.attr("epsilon", _EPSILONS[0])
        return source.apply("InstanceNormalization", *(source.operand(i) for i in range(3)), epsilon=epsilon)


class LayerNormalization(Normalization):
    """Axes from ``axis`` on to mean 0 and variance 1, then ``* scale`` and ``+ bias``, which broadcast to them."""

    name = "LayerNormalization"
    params = (Param("axis", "int"), Param("epsilon", single=True))
    arity = (2, 3)
    ranks = 1
    min_opset = 17
    onnx_names = ("LayerNormalization",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        axis, x = integer(attrs[0]), types[0]
        require(x.dtype in FLOATS and 0 <= axis < x.rank, f"{self.name} of {x} from axis {axis}")
        inner = x.shape[axis:]
        require(0 not in inner, f"{self.name} over nothing")
        for t in types[1:]:
            fits = t.dtype == x.dtype and t.rank <= len(inner) and broadcast([inner, t.shape]) == inner
            require(fits, f"a parameter of {self.name} over {list(inner)} is {t}")
        require(isinstance(attrs[1], float), "epsilon is a number")
        return x

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x, axis = wide(operands[0]), integer(attrs[0])
        y = self.normalize(x, tuple(range(axis, x.ndim)), _epsilon(attrs, x)) * wide(operands[1])
        if len(operands) == 3:
            y = y + wide(operands[2])
        return y.astype(operands[0].dtype, copy=False)

    def normalize(self, x: Array, axes: tuple[int, ...], epsilon: Array) -> Array:
        """The normalised values, before scale and bias."""
        return _standard(x, axes, epsilon)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        given = next((t for t in types[1:] if t), None)
        least = 1 if attrs[0] is None else integer(attrs[0]) + 1
        outer = distinct_shape(rng, least if given else max(least, int(rng.integers(1, 5))))
        x = types[0]
        if x is None and given is not None:
            x = TensorType(given.dtype, (*outer[: least - 1], *given.numbers()))
            attrs = (least - 1 if attrs[0] is None else attrs[0], attrs[1])
        x = x or TensorType("float64", outer)
        if x.rank == 0:
            return None
        axis = int(rng.integers(x.rank)) if attrs[0] is None else integer(attrs[0])
        parameter = TensorType(x.dtype, x.shape[axis:])
        epsilon = _EPSILONS[int(rng.integers(3))] if attrs[1] is None else attrs[1]
        return fitting(self, (axis, epsilon), (x, *(t or parameter for t in types[1:])))

    def from_onnx(self, source: Source) -> int:
        source.only_output("its mean and deviation are used")
        if source.int_attr("stash_type", 1) != 1:
            raise Unsupported(f"{self.name} with another stash_type than float32")
        axis = source.axis(source.int_attr("axis", -1), source.type(0).rank)
        operands = [source.operand(i) for i in range(self.arity[1] or 2) if i < 2 or source.has(i)]
        return source.apply(self.name, *operands, axis=axis, epsilon=source.attr("epsilon", _EPSILONS[0]))


class RMSNormalization(LayerNormalization):
    """Axes from ``axis`` on divided by the root of their mean square, then ``* scale``."""

    name = "RMSNormalization"
    arity = (2, 2)
    min_opset = 23
    onnx_names = ("RMSNormalization",)

    def normalize(self, x: Array, axes: tuple[int, ...], epsilon: Array) -> Array:
        """See the base class."""
        return x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + epsilon)


class LRN(Operator):
    """``x / (bias + alpha / size * s) ** beta``, s the sum of squares over ``size`` neighbouring channels."""

    name = "LRN"
    params = (*(Param(p, single=True) for p in ("alpha", "beta", "bias")), Param("size", "int"))
    onnx_names = ("LRN",)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        require(types[0].dtype in FLOATS and types[0].rank >= 2, f"LRN of {types[0]}")
        require(integer(attrs[3]) >= 1 and all(isinstance(a, float) for a in attrs[:3]), f"LRN with {attrs}")
        return types[0]

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        alpha, beta, bias = (a for a in attrs[:3] if isinstance(a, float))
        size, x = integer(attrs[3]), wide(operands[0])
        before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
        squares = np.pad(x * x, [(0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)])
        total = np.stack([squares[:, i : i + x.shape[1]] for i in range(size)]).sum(axis=0)
        kind = x.dtype.type
        return (x / (kind(bias) + kind(alpha / size) * total) ** kind(beta)).astype(operands[0].dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        x = types[0] or TensorType("float64", distinct_shape(rng, 4))
        fresh = (
            float(np.float32(one_of(rng, (1e-4, 0.5)))),
            0.75,
            float(one_of(rng, (1, 2))),
            one_of(rng, (1, 3, 5)),
        )
        return fitting(self, [f if a is None else a for a, f in zip(attrs, fresh, strict=True)], (x,))

    def from_onnx(self, source: Source) -> int:
        size = source.int_attr("size", 0)
        alpha = source.attr("alpha", float(np.float32(1e-4)))
        beta, bias = source.attr("beta", 0.75), source.attr("bias", 1.0)
        return source.apply("LRN", source.operand(0), alpha=alpha, beta=beta, bias=bias, size=size)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return (2 * integer(attrs[3]) + 10) * super().flops(attrs, types, result)


class Softmax(Operator):
    """Softmax (or its logarithm) along one ``axis``, counted from the front.

    Before opset 13 ONNX flattened to a matrix at ``axis``; that is the same when at most one of the flattened axes has
    another size than 1.
    """

    params = (Param("axis", "int"),)

    def __init__(self, name: str, logarithm: bool) -> None:
        self.name, self.logarithm = name, logarithm
        self.onnx_names = (name,)

    def infer(self, attrs: Attrs, types: Types) -> Type:
        x, axis = types[0], integer(attrs[0])
        require(x.dtype in FLOATS and 0 <= axis < x.rank, f"{self.name} of {x} along axis {axis}")
        return x

    def compute(self, attrs: Attrs, operands: Sequence[Array]) -> Array:
        x, axis = wide(operands[0]), integer(attrs[0])
        if not x.size:
            return operands[0]
        shifted = x - x.max(axis=axis, keepdims=True)
        total = np.exp(shifted).sum(axis=axis, keepdims=True)
        y = shifted - np.log(total) if self.logarithm else np.exp(shifted) / total
        return y.astype(operands[0].dtype, copy=False)

    def complete(self, rng: Rng, attrs: Sequence[AttrValue], types: Sequence[TensorType | None]) -> Sample | None:
        least = 1 if attrs[0] is None else integer(attrs[0]) + 1
        x = types[0] or TensorType("float64", distinct_shape(rng, max(least, int(rng.integers(1, 5)))))
        if x.rank == 0:
            return None
        return fitting(self, (int(rng.integers(x.rank)) if attrs[0] is None else attrs[0],), (x,))

    def from_onnx(self, source: Source) -> int:
        x = source.type(0)
        axis = source.axis(source.int_attr("axis", -1 if source.opset >= 13 else 1), x.rank)
        if source.opset < 13:
            long = [i for i in range(axis, x.rank) if x.shape[i] != 1]
            if len(long) > 1:
                raise Unsupported(f"{self.name} of opset {source.opset} over several axes at once")
            axis = long[0] if long else axis
        return source.apply(self.name, source.operand(0), axis=axis)

    def to_onnx(self, low: Lowering) -> onnx_ir.Value:
        return low.op(self.name, low.inputs, axis=low.attrs[0])

    def opset(self, attrs: Attrs, types: Types) -> int:
        last = all(size == 1 for size in types[0].shape[integer(attrs[0]) + 1 :])
        return max(super().opset(attrs, types), 9 if last else 13)

    def flops(self, attrs: Attrs, types: Types, result: Type) -> int:
        return 8 * super().flops(attrs, types, result)


def _per_channel(parameter: Array, rank: int) -> Array:
    return parameter.reshape(1, -1, *[1] * (rank - 2))


def _epsilon(attrs: Attrs, x: Array) -> Array:
    assert isinstance(attrs[-1], float)
    return x.dtype.type(attrs[-1])


def _standard(x: Array, axes: tuple[int, ...], epsilon: Array) -> Array:
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=axes, keepdims=True) + epsilon)


OPERATORS = (
    BatchNormalization(),
    InstanceNormalization(),
    LayerNormalization(),
    RMSNormalization(),
    LRN(),
    Softmax("Softmax", logarithm=False),
    Softmax("LogSoftmax", logarithm=True),
)
