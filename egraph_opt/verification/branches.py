"""Input values that a model compares with constants: the ones that decide which branch it takes."""

from __future__ import annotations

import numpy as np
import onnx_ir

from egraph_opt.ops import numpy_dtype
from egraph_opt.runtime import Array
from egraph_opt.verification.feeds import input_types

_PASSING = frozenset({"Cast", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"})
"""Operators whose result holds values of their first operand."""

_MOST = 4


def branch_values(model: onnx_ir.Model) -> list[dict[str, Array]]:
    """Values for single integer inputs (a sample rate, a mode) that the main graph compares with; four at most.

    Each fills one input; the input must have a static shape.
    """
    types = {
        n: t for n, t in input_types(model).items() if t.is_static and np.issubdtype(numpy_dtype(t.dtype), np.integer)
    }
    found: dict[tuple[str, int], dict[str, Array]] = {}
    for node in model.graph:
        if node.op_type != "Equal" or len(node.inputs) != 2:
            continue
        for side, other in (node.inputs, node.inputs[::-1]):
            name, number = _source(side), _number(other)
            if name in types and number is not None:
                type_ = types[name]
                found[name, number] = {name: np.full(type_.numbers(), number, numpy_dtype(type_.dtype))}
    return list(found.values())[:_MOST]


def _source(value: onnx_ir.Value | None) -> str | None:
    """The graph input whose values ``value`` holds, if that is plain to see."""
    while value is not None:
        producer = value.producer()
        if producer is None:
            return value.name if value.is_graph_input() else None
        value = producer.inputs[0] if producer.op_type in _PASSING and producer.inputs else None
    return None


def _number(value: onnx_ir.Value | None) -> int | None:
    tensor = value.const_value if value is not None else None
    producer = value.producer() if value is not None else None
    if producer is not None and producer.op_type == "Constant" and "value" in producer.attributes:
        tensor = producer.attributes["value"].as_tensor()  # onnx_ir's own helper would name the caller's tensor
    if tensor is None or tensor.size != 1 or not np.issubdtype(tensor.dtype.numpy(), np.integer):
        return None
    return int(tensor.numpy().reshape(-1)[0])
