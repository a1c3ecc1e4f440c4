"""Products by one factor per channel, written so that ONNX Runtime keeps them in the layout of its convolutions.

Its CPU convolutions keep channels in blocks. What follows them stays in blocks where it can; a product does where its
operands have one shape, so a gate (N, C, 1, 1) takes the image (N, C, H, W) out of its blocks, and the next convolution
puts it back. The gate repeated over the image, by a ``Resize`` to the nearest place, stays in blocks as well. For that
H and W have to be numbers.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from egraph_opt.ir import AttrValue, TensorGraph, TensorType, Type
from egraph_opt.ops import Sink
from egraph_opt.ops.lowering import onnx_dtype

OPSET = 11
"""The lowest one whose ``Resize`` says which place is the nearest."""

_UNARY = frozenset({"Relu", "Sigmoid", "Tanh"})
_DEEPEST = 4
"""How many operators behind a convolution are looked at."""


def spread_factors(graph: TensorGraph, opset: int) -> dict[int, int]:
    """Products (by their index) of an image and a factor per channel, both in blocks; which operand is the factor."""
    found: dict[int, int] = {}
    for index in graph.live() if opset >= OPSET else ():
        node = graph.nodes[index]
        if node.op == "Mul":
            for image, factor in ((0, 1), (1, 0)):
                x, g = node.operands[image], node.operands[factor]
                if _is_factor(graph, x, g) and _in_blocks(graph, x) and _in_blocks(graph, g):
                    found[index] = factor
    return found


def write_spread(sink: Sink, factor: onnx_ir.Value, image: TensorType) -> onnx_ir.Value:
    """A factor (N, C, 1, 1) repeated over the shape (N, C, H, W) of ``image``; H and W are numbers."""
    scales = sink.constant(np.array([1, 1, *image.shape[2:]], np.float32))
    nowhere = sink.constant(np.zeros(0, np.float32))
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    (made,) = sink.node("Resize", [factor, nowhere, scales], how)
    made.type = onnx_ir.TensorType(onnx_dtype(image.dtype))
    made.shape = onnx_ir.Shape([s if isinstance(s, int) else str(s) for s in image.shape])  # inference forgets symbols
    return made


def _is_factor(graph: TensorGraph, image: int, factor: int) -> bool:
    x, g = graph.types[image], graph.types[factor]
    if not isinstance(x, TensorType) or not isinstance(g, TensorType) or x.dtype != "float32" or x.rank != 4:
        return False
    places = x.shape[2:]
    return g.shape == (*x.shape[:2], 1, 1) and all(isinstance(n, int) and n > 0 for n in places) and places != (1, 1)


def _in_blocks(graph: TensorGraph, index: int, deepest: int = _DEEPEST) -> bool:
    """Whether ONNX Runtime has this value in blocks, as far as its operators tell."""
    node = graph.nodes[index]
    if node.op in ("Conv", "FusedConv"):
        return _is_blocked(graph, index)
    if not deepest:
        return False
    if node.op in _UNARY:
        return _in_blocks(graph, node.operands[0], deepest - 1)
    if node.op in ("Add", "Mul"):
        same = graph.types[node.operands[0]] == graph.types[node.operands[1]]
        return same and all(_in_blocks(graph, i, deepest - 1) for i in node.operands)
    return False


def _is_blocked(graph: TensorGraph, index: int) -> bool:
    node = graph.nodes[index]
    stored = all(graph.nodes[i].op == "Const" for i in node.operands[1:])
    return stored and keeps_blocks(node.attrs[3], graph.types[node.operands[1]])


def keeps_blocks(group: AttrValue, weight: Type | None) -> bool:
    """Whether ONNX Runtime runs a convolution of stored ``weight`` in blocks: 4 divides its channels, or they are fewer
    than 8, which are read as they lie; or each channel is by itself."""
    if not isinstance(weight, TensorType) or weight.rank != 4 or not weight.is_static:
        return False
    filters, channels = weight.numbers()[:2]
    if group != 1:
        return channels == 1 and filters == group and filters % 4 == 0
    return channels < 8 or channels % 4 == 0
