"""Models whose size can be chosen: a deep transformer of two symbolic sizes, and a stack of gigabytes of weights."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
from netbuilder import OPSET, Net
from onnx import TensorProto, helper

WIDTH, HEADS = 160, 5
"""Of the transformer: 48 blocks of it have 57 MiB of weights."""


def transformer(blocks: int) -> onnx.ModelProto:
    """A post-norm encoder of 37 nodes a block, with symbolic batch and length; shapes are computed as exporters do."""
    net = Net("transformer")
    x = net.input("x", "B", "S", WIDTH)
    for _ in range(blocks):
        x = _block(net, x)
    return net.finish([x])


def _block(net: Net, x: str) -> str:
    size = WIDTH // HEADS
    leading = net.op("Slice", net.op("Shape", x), _sizes(net, 0), _sizes(net, 2))
    apart = net.op("Concat", leading, _sizes(net, HEADS, size), axis=0)
    joined = net.op("Concat", leading, _sizes(net, WIDTH), axis=0)

    def split(y: str, *perm: int) -> str:
        return net.op("Transpose", net.op("Reshape", y, apart), perm=perm)

    q, k, v = (net.linear(x, WIDTH, WIDTH) for _ in range(3))
    scores = net.op("MatMul", split(q, 0, 2, 1, 3), split(k, 0, 2, 3, 1))
    weights = net.op("Softmax", net.op("Div", scores, net.constant(math.sqrt(size))), axis=-1)
    mixed = net.op("Transpose", net.op("MatMul", weights, split(v, 0, 2, 1, 3)), perm=(0, 2, 1, 3))
    attended = net.linear(net.op("Reshape", mixed, joined), WIDTH, WIDTH)
    y = net.layer_norm(net.add(x, attended), WIDTH)
    fed = net.linear(net.gelu(net.linear(y, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH)
    return net.layer_norm(net.add(y, fed), WIDTH)


def _sizes(net: Net, *numbers: int) -> str:
    return net.constant(np.array(numbers, np.int64))


def stack(folder: Path, *after: str, layers: int = 9, width: int = 8192) -> Path:
    """``layers`` products with a matrix of width^2, the unary operators ``after`` each, as a file with external data.

    Nine layers of 8192 are 2.4 GB. The weights are small random numbers, written a slab at a time.
    """
    rng = np.random.default_rng(0)
    slab, slabs = 256, width // 256
    nbytes = 4 * width * width
    with (folder / "stack.data").open("wb") as data:
        for _ in range(layers * slabs):
            data.write((rng.standard_normal((slab, width), np.float32) / math.sqrt(width)).tobytes())
    weights, nodes = [], []
    for layer in range(layers):
        weights.append(_external(f"w{layer}", (width, width), "stack.data", layer * nbytes, nbytes))
        names = [f"x{layer}", *(f"y{layer}.{number}" for number in range(len(after))), f"x{layer + 1}"]
        nodes.append(helper.make_node("MatMul", [names[0], f"w{layer}"], [names[1]]))
        nodes += [helper.make_node(kind, [names[i]], [names[i + 1]]) for i, kind in enumerate(after, 1)]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ("N", width)) for n in ("x0", f"x{layers}")]
    graph = helper.make_graph(nodes, "stack", ends[:1], ends[1:], weights)
    path = folder / f"stack of MatMul {' '.join(after)}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9), path)
    return path


def _external(name: str, shape: tuple[int, ...], file: str, offset: int, length: int) -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", file), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor
