"""A signature as a model of one operator, with values to run it on."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import numpy_dtype, operator
from egraph_opt.ops.kinds import Array
from egraph_opt.runtime.signature import Signature

OPSET = 21
_POSITIVE = frozenset({"BatchNormalization", "Div", "Log", "Mod", "Pow", "Reciprocal", "Sqrt"})
_BLOCK = 1 << 18  # values drawn; larger tensors repeat them, since drawing a gigabyte takes seconds


@dataclass(frozen=True)
class Single:
    """A serialized model, what to feed it, and the types it returns."""

    model: bytes
    feeds: Mapping[str, Array]
    outputs: Mapping[str, TensorType]


def single_operator_model(signature: Signature) -> Single:
    """The model whose one operator has this signature; weights are initializers, the other operands inputs.

    Where every operand is a weight, all are inputs: the runtime would otherwise compute nothing.

    Raises:
        ValueError: a size is symbolic.
    """
    import onnx_ir

    from egraph_opt.onnx_io import export_graph

    rng = np.random.default_rng(zlib.crc32(signature.key.encode()))
    graph, feeds, inputs = TensorGraph(), dict[str, Array](), list[tuple[str, TensorType]]()
    operands: list[int] = []
    for position, type_ in enumerate(signature.tensors):
        array = _values(signature, position, rng)
        if signature.constant[position] and not all(signature.constant):
            # equal weights must stay two weights, so the key names the position
            operands.append(graph.constant(Constant(type_, f"weight{position}", lambda a=array: a)))
            continue
        name = f"x{position}"
        operands.append(graph.add("Input", (name,), (), type_))
        feeds[name] = array
        inputs.append((name, type_))
    node = graph.add(signature.op, signature.attrs, operands, signature.result)
    results = signature.results
    many = operator(signature.op).outputs != 1
    graph.outputs = tuple(graph.add("Get", (i,), (node,), t) for i, t in enumerate(results)) if many else (node,)
    names = [f"y{i}" for i in range(len(results))]
    opset = max(OPSET, operator(signature.op).opset(signature.attrs, signature.tensors))
    model = export_graph(graph, inputs, names, opset=opset)
    return Single(onnx_ir.to_proto(model).SerializeToString(), feeds, dict(zip(names, results, strict=True)))


def values_of(signature: Signature, position: int) -> Array:
    """Values for one operand, the same ones every time."""
    return _values(signature, position, np.random.default_rng([position, zlib.crc32(signature.key.encode())]))


def _values(signature: Signature, position: int, rng: np.random.Generator) -> Array:
    """Values that the operator can take: positive where it needs that, indices in range."""
    type_ = signature.tensors[position]
    shape, dtype = type_.numbers(), numpy_dtype(type_.dtype)
    count = min(_BLOCK, int(np.prod(shape, dtype=np.int64)))
    if type_.dtype == "bool":
        block = rng.random(count) < 0.5
    elif type_.dtype == "string":
        block = np.array(["text"] * count, object)
    elif np.issubdtype(dtype, np.integer):
        block = rng.integers(int(signature.op in _POSITIVE), _integer_limit(signature, position), count)
    else:
        block = rng.standard_normal(count, np.float32)
        if signature.op in _POSITIVE:
            block = np.abs(block) + 0.5
    return np.resize(block.astype(dtype), shape)


def _integer_limit(signature: Signature, position: int) -> int:
    """One more than the largest value; indices reach the whole axis, since locality decides their cost."""
    if position and signature.op.startswith(("Gather", "Scatter")):
        shape = signature.tensors[0].numbers()
        axis = signature.attr("axis")
        size = shape[axis] if isinstance(axis, int) and shape else min(shape, default=1)
        return max(1, size)
    return 2
