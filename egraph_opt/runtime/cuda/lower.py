"""The graph as the planner wants it: constants folded, shapes as numbers, a few operators written as simpler ones."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from egraph_opt.errors import UsageError
from egraph_opt.ir import AttrValue, Constant, TensorGraph, TensorType
from egraph_opt.ir.types import Type
from egraph_opt.ops import operator
from egraph_opt.ops.base import concrete
from egraph_opt.ops.kinds import Array
from egraph_opt.runtime.cuda.scaled import scaled

_SMALL = 4096
"""Elements of a constant expression that is evaluated at once, so that equal values are one constant."""


def lowered(graph: TensorGraph, sizes: Mapping[str, int] | None = None) -> TensorGraph:
    """``graph`` with ``sizes`` put in for its symbols and every expression over constants evaluated.

    ``FusedConv`` becomes a convolution and its activation, ``Attention`` its products and softmax,
    ``RotaryEmbedding`` its products and sums, ``Gemm`` loses its third operand to an addition, and what scales the
    channels of a convolution goes into its weight.

    Raises:
        UsageError: a size is still symbolic, or the graph holds an operator that the table does not know.
    """
    return lowered_places(graph, sizes)[0]


def lowered_places(graph: TensorGraph, sizes: Mapping[str, int] | None = None) -> tuple[TensorGraph, Mapping[int, int]]:
    """As ``lowered``, and which node has the value of each node of ``graph`` that is an input or live."""
    new, place, live = TensorGraph(), dict[int, int](), graph.live()
    uses = Counter(i for index in live for i in graph.nodes[index].operands) + Counter(graph.outputs)
    for index, node in enumerate(graph.nodes):
        if node.op == "Input":  # inputs stay, used or not
            place[index] = new.add(node.op, node.attrs, (), _static(graph.types[index], sizes))
    for index in live:
        node = graph.nodes[index]
        if index in place:
            continue
        if node.op == "Opaque":
            opaque = getattr(graph.opaques[int(str(node.attrs[0]))], "node", None)
            said = getattr(opaque, "op_type", "an unknown operator")
            raise UsageError(f"the GPU executor has no kernel for {said}, which computes {graph.types[index]}")
        if node.op == "Const":
            place[index] = new.constant(graph.constants[int(str(node.attrs[0]))])
        else:
            attrs, operands = tuple(_number(a, sizes) for a in node.attrs), [place[i] for i in node.operands]
            alone = all(uses[i] == 1 or graph.nodes[i].op == "Const" for i in node.operands)
            folded = scaled(new, node.op, attrs, operands) if alone else None
            place[index] = _apply(new, node.op, attrs, operands) if folded is None else folded
    new.outputs = tuple(place[i] for i in graph.outputs)
    return new, place


def apply(graph: TensorGraph, op: str, attrs: Sequence[object], operands: Sequence[int]) -> int:
    """The node ``op(attrs, operands)`` of ``graph``, typed by the operator table."""
    types = [graph.types[i] for i in operands]
    return graph.add(op, attrs, operands, operator(op).infer(tuple(attrs), types))  # type: ignore[arg-type]


def _result(graph: TensorGraph, op: str, attrs: Sequence[object], operands: Sequence[int]) -> Type:
    return operator(op).infer(tuple(attrs), [graph.types[i] for i in operands])  # type: ignore[arg-type]


def _apply(new: TensorGraph, op: str, attrs: tuple[object, ...], operands: list[int]) -> int:
    folded = _folded(new, op, attrs, operands)
    if folded is not None:
        return folded
    if op == "Max" and len(operands) == 2:  # with 0 it is Relu, which libraries compute on the way out
        for zero, other in (operands, reversed(operands)):
            if new.splat(zero) == 0 and new.types[other] == _result(new, op, attrs, operands):
                return apply(new, "Relu", (), [other])
    if op == "FusedConv":
        inner = apply(new, "Conv", attrs[:4], operands)
        return apply(new, str(attrs[4]), attrs[5], [inner])  # type: ignore[arg-type]
    if op == "Attention":
        return _attention(new, attrs, operands)
    if op == "RotaryEmbedding":
        return _rotary(new, attrs, operands)
    if op == "Gemm" and len(operands) == 3:
        product = apply(new, "Gemm", attrs, operands[:2])
        added = operands[2]
        if attrs[3] != 1:
            dtype = new.types[added].dtype  # type: ignore[union-attr]
            scale = np.asarray(attrs[3]).astype(_numpy(dtype))
            added = _apply(new, "Mul", (), [added, new.constant(Constant.of(scale, dtype))])
        return apply(new, "Add", (), [product, added])
    return apply(new, op, attrs, operands)


def _attention(new: TensorGraph, attrs: Sequence[object], operands: Sequence[int]) -> int:
    """``Attention`` as the products and the softmax that it is, which fusion puts together again."""
    q_heads, kv_heads, causal, scale = attrs
    dtype, result = _shape(new, operands[0])[0], _result(new, "Attention", attrs, operands)
    q, k, v = (_heads(new, i, int(str(n))) for i, n in zip(operands, (q_heads, kv_heads, kv_heads), strict=True))
    many = _shape(new, q)[1][1]
    k, v = (_repeated(new, i, many) for i in (k, v))
    scores = _apply(new, "MatMul", (), [q, _apply(new, "Transpose", ((0, 1, 3, 2),), [k])])
    scores = _apply(new, "Mul", (), [scores, new.constant(Constant.of(np.asarray(scale).astype(_numpy(dtype)), dtype))])
    if causal:
        mask = np.triu(np.full(_shape(new, scores)[1][2:], -np.inf), 1).astype(_numpy(dtype))
        scores = _apply(new, "Add", (), [scores, new.constant(Constant.of(mask, dtype))])
    y = _apply(new, "MatMul", (), [_apply(new, "Softmax", (3,), [scores]), v])
    return _flat(new, y, result) if q_heads else y


def _rotary(new: TensorGraph, attrs: Sequence[object], operands: Sequence[int]) -> int:
    """``RotaryEmbedding`` as the element-wise operators that it is."""
    x = _heads(new, operands[0], int(str(attrs[0])))
    *outer, size = _shape(new, x)[1]
    half, interleaved = size // 2, attrs[1]
    axis, pairs = (4, (*outer, half, 2)) if interleaved else (3, (*outer, 2, half))
    parted, flat = _apply(new, "Reshape", (pairs,), [x]), (*outer, half)
    first, second = (
        _apply(new, "Reshape", (flat,), [_apply(new, "Slice", ((axis,), (i,), (i + 1,), (1,)), [parted])])
        for i in (0, 1)
    )
    cosine, sine = (_apply(new, "Reshape", ((outer[0], 1, outer[2], half),), [i]) for i in operands[1:])

    def sum_of(op: str, cosine_of: int, sine_of: int) -> int:
        products = [_apply(new, "Mul", (), pair) for pair in ([cosine_of, cosine], [sine_of, sine])]
        return _apply(new, "Reshape", ((*flat, 1),) if interleaved else (flat,), [_apply(new, op, (), products)])

    turned = [sum_of("Sub", first, second), sum_of("Add", second, first)]
    y = _apply(new, "Reshape", ((*outer, size),), [_apply(new, "Concat", (axis,), turned)])
    return _flat(new, y, new.types[operands[0]]) if attrs[0] else y


def _flat(new: TensorGraph, y: int, result: Type) -> int:
    """(batch, heads, length, size) as an operand of ``result``, in which the heads are in the last axis."""
    y = _apply(new, "Transpose", ((0, 2, 1, 3),), [y])
    return _apply(new, "Reshape", (result.shape,), [y])  # type: ignore[union-attr]


def _shape(new: TensorGraph, index: int) -> tuple[str, tuple[int, ...]]:
    type_ = new.types[index]
    assert isinstance(type_, TensorType)
    return type_.dtype, type_.numbers()


def _heads(new: TensorGraph, index: int, heads: int) -> int:
    """An operand as (batch, heads, length, size)."""
    if not heads:
        return index
    batch, length, hidden = _shape(new, index)[1]
    parted = _apply(new, "Reshape", ((batch, length, heads, hidden // heads),), [index])
    return _apply(new, "Transpose", ((0, 2, 1, 3),), [parted])


def _repeated(new: TensorGraph, index: int, heads: int) -> int:
    """Each head as often in a row as there are heads of queries for it."""
    batch, own, length, size = _shape(new, index)[1]
    if own == heads:
        return index
    apart = _apply(new, "Reshape", ((batch, own, 1, length, size),), [index])
    many = _apply(new, "Expand", ((batch, own, heads // own, length, size),), [apart])
    return _apply(new, "Reshape", ((batch, heads, length, size),), [many])


def _folded(new: TensorGraph, op: str, attrs: tuple[object, ...], operands: list[int]) -> int | None:
    """The constant that an expression over constants is, if it is one; its value is computed when it is asked for."""
    values: list[Callable[[], Array | tuple[Array, ...]]] = []
    for i in operands:
        value = constant_value(new, i)
        if value is None:
            return None
        values.append(value)
    declared = operator(op)
    type_ = declared.infer(attrs, [new.types[i] for i in operands])  # type: ignore[arg-type]
    if not isinstance(type_, TensorType):
        return None  # a Split of a constant stays; its parts are folded
    shape = type_.numbers()

    @cache
    def load() -> Array:
        result = declared.evaluate(attrs, [value() for value in values])  # type: ignore[arg-type]
        assert not isinstance(result, tuple)
        return np.ascontiguousarray(result).reshape(shape)

    said = repr((op, attrs, [_said(new, i) for i in operands]))
    key = f"{type_.dtype}{shape}:{hashlib.sha256(said.encode()).hexdigest()}"
    sizes = [new.types[i] for i in operands]
    small = all(isinstance(t, TensorType) and math.prod(t.numbers()) <= _SMALL for t in [type_, *sizes])
    return new.constant(Constant.of(load(), type_.dtype) if small else Constant(type_, key, load))


def _said(graph: TensorGraph, index: int) -> str:
    """What a constant node, or a ``Split`` of one, holds."""
    node = graph.nodes[index]
    if node.op == "Const":
        return graph.constants[int(str(node.attrs[0]))].key
    return repr((node.op, node.attrs, [_said(graph, i) for i in node.operands]))


def constant_value(graph: TensorGraph, index: int) -> Callable[[], Array | tuple[Array, ...]] | None:
    """What computes the value of a constant node, or of a ``Split`` of one."""
    node = graph.nodes[index]
    if node.op == "Const":
        return graph.constants[int(str(node.attrs[0]))].load
    if node.op == "Split" and graph.nodes[node.operands[0]].op == "Const":
        source = graph.constants[int(str(graph.nodes[node.operands[0]].attrs[0]))].load
        return lambda: operator("Split").evaluate(node.attrs, [source()])
    return None


def _numpy(dtype: str) -> np.dtype:
    from egraph_opt.ops import numpy_dtype

    return np.dtype(numpy_dtype(dtype))


def _number(value: AttrValue, sizes: Mapping[str, int] | None) -> AttrValue:
    """``value`` with numbers for its symbols."""
    try:
        return concrete(value, dict(sizes or {}))
    except KeyError as missing:
        raise UsageError(f"the GPU executor needs the size of every axis: give a number for {missing}") from None


def _static(type_: Type, sizes: Mapping[str, int] | None) -> TensorType:
    if not isinstance(type_, TensorType):
        raise UsageError(f"the GPU executor cannot run this model: an input has the type {type_}")
    shape = tuple(_number(s, sizes) for s in type_.shape)
    if not all(isinstance(s, int) for s in shape):
        raise UsageError(f"the GPU executor needs the size of every axis, and {type_} has symbols: give their sizes")
    return TensorType(type_.dtype, shape)  # type: ignore[arg-type]
