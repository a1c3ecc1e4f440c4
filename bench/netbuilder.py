"""Builds a network as ONNX, an operator a call, with seeded weights that keep activations of order one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 18
DTYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


class Net:
    """A graph under construction. Tensors are their names; ``channels`` is known of every NCHW tensor.

    Args:
        name: of the graph.
        dtype: ``float32`` or ``float16``, of inputs, weights and outputs.
        seed: of the weights.
    """

    def __init__(self, name: str, dtype: str = "float32", seed: int = 0) -> None:
        self.name, self.dtype = name, dtype
        self.channels: dict[str, int] = {}
        self._rng = np.random.default_rng([seed, *name.encode()])
        self._inputs: list[onnx.ValueInfoProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._nodes: list[onnx.NodeProto] = []

    def input(self, name: str, *shape: int | str) -> str:
        """An input of the network's dtype; a text is the name of a size that is only known when it runs."""
        self._inputs.append(helper.make_tensor_value_info(name, DTYPES[self.dtype], shape))
        if len(shape) == 4 and isinstance(shape[1], int):
            self.channels[name] = shape[1]
        return name

    def weight(self, *shape: int, scale: float, mean: float = 0.0) -> str:
        """A normal weight."""
        return self.constant(self._rng.normal(mean, scale, shape).astype(self.dtype))

    def constant(self, value: np.ndarray | float) -> str:
        """An initializer; a number gets the dtype of the network."""
        array = np.asarray(value, self.dtype if isinstance(value, float) else None)
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *operands: str, **attributes: Any) -> str:
        """A node with one output."""
        name = f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, operands, [name], name=name, **attributes))
        if operands and operands[0] in self.channels:
            self.channels[name] = self.channels[operands[0]]
        return name

    def finish(self, outputs: Iterable[str]) -> onnx.ModelProto:
        """The checked model, with all shapes inferred."""
        infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self._nodes, self.name, self._inputs, infos, self._weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        model.producer_name = "egraph-opt benchmarks"
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        onnx.checker.check_model(inferred, full_check=True)
        return inferred

    # --- layers

    def relu(self, x: str) -> str:
        return self.op("Relu", x)

    def add(self, x: str, y: str) -> str:
        return self.op("Add", x, y)

    def concat(self, parts: Sequence[str]) -> str:
        name = self.op("Concat", *parts, axis=1)
        self.channels[name] = sum(self.channels[p] for p in parts)
        return name

    def conv(
        self, x: str, out: int, kernel: int | tuple[int, int], stride: int = 1, *, pads: Sequence[int] | None = None,
        group: int = 1, bias: bool = True, gain: float = 2.0,
    ) -> str:  # fmt: skip
        """A convolution; padded to keep the size (odd kernels) unless ``pads`` [top, left, bottom, right] says else."""
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        pads = pads if pads is not None else [height // 2, width // 2] * 2
        fan_in = self.channels[x] // group * height * width
        weight = self.weight(out, self.channels[x] // group, height, width, scale=math.sqrt(gain / fan_in))
        biases = [self.weight(out, scale=0.1)] if bias else []
        name = self.op("Conv", x, weight, *biases, kernel_shape=[height, width], strides=[stride] * 2, pads=list(pads),
                       group=group)  # fmt: skip
        self.channels[name] = out
        return name

    def norm(self, x: str, scale: float = 1.0) -> str:
        """Batch normalization."""
        count = self.channels[x]
        variance = self.constant(self._rng.uniform(0.5, 1.5, count).astype(self.dtype))
        weights = [self.weight(count, scale=0.1, mean=mean) for mean in (scale, 0.0, 0.0)]
        return self.op("BatchNormalization", x, *weights, variance, epsilon=1e-5)

    def pool(self, kind: str, x: str, kernel: int, stride: int, pad: int = 0) -> str:
        extra = {"count_include_pad": 1} if kind == "AveragePool" and pad else {}
        return self.op(kind, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, **extra)

    def head(self, x: str, classes: int) -> str:
        """Global average pooling and a linear layer."""
        flat = self.op("Flatten", self.op("GlobalAveragePool", x), axis=1)
        return self.linear(flat, self.channels[x], classes, gemm=True)

    def linear(self, x: str, fan_in: int, out: int, *, bias: bool = True, gemm: bool = False) -> str:
        weight = self.weight(fan_in, out, scale=math.sqrt(1 / fan_in))
        if not bias:
            return self.op("MatMul", x, weight)
        if gemm:
            return self.op("Gemm", x, weight, self.weight(out, scale=0.1))
        return self.add(self.op("MatMul", x, weight), self.weight(out, scale=0.1))

    def layer_norm(self, x: str, width: int) -> str:
        scale, bias = self.weight(width, scale=0.1, mean=1.0), self.weight(width, scale=0.1)
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def gelu(self, x: str) -> str:
        """x/2 (1 + erf(x / sqrt 2)), as exporters spell it."""
        erf = self.op("Erf", self.op("Div", x, self.constant(math.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.add(erf, self.constant(1.0))), self.constant(0.5))

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(np.array(shape, np.int64)))
