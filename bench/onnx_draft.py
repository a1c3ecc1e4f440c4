"""Random ONNX models, node by node: each node is run when it is drawn, so that every model is one that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]
Rng = np.random.Generator
SYMBOL, SYMBOL_SIZE = "N", 4
"""The symbolic size, and the number it stands for while a model is drawn; no other axis has that number."""
LARGEST = 6000
"""Elements of the largest tensor."""
STEPS = ((9, 4), (12, 7), (14, 7), (16, 8), (18, 8), (20, 9), (21, 10), (25, 11))
"""Opsets, and the IR version for opsets up to each."""


class RefusedError(Exception):
    """A node that cannot be drawn here."""


@dataclass
class Draft:
    """A model in the making. ``values`` holds every tensor at the sizes it is drawn at."""

    rng: Rng
    opset: int
    symbolic: bool
    values: dict[str, Array] = field(default_factory=dict[str, Array])
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    stored: dict[str, Array] = field(default_factory=dict[str, Array])
    inputs: list[str] = field(default_factory=list[str])
    chained: bool = False  # each node takes the last tensor that fits
    count: int = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def input(self, array: Array) -> str:
        name = self.name("x")
        self.values[name] = array
        self.inputs.append(name)
        return name

    def constant(self, array: Any, dtype: str | None = None) -> str:
        """A constant: an initializer, or a node."""
        value = np.asarray(array, dtype)
        name = self.name("c")
        self.values[name] = value
        if self.rng.random() < 0.3:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)))
        else:
            self.stored[name] = value
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def apply(self, op: str, operands: Sequence[str], outputs: int = 1, **attrs: Any) -> list[str]:
        """Adds a node and returns its outputs; raises ``RefusedError`` where ONNX Runtime does not run it."""
        names = [self.name("v") for _ in range(outputs)]
        node = helper.make_node(op, operands, names, **attrs)
        got = self._run(node, [o for o in dict.fromkeys(operands) if o])
        for value in got:
            finite = value.dtype.kind != "f" or bool(np.isfinite(value.astype(np.float64)).all())
            if (
                value.size > LARGEST
                or value.ndim > 6
                or not finite
                or (value.size and value.dtype.kind == "f" and np.abs(value.astype(np.float64)).max() > 1e4)
            ):
                raise RefusedError("too large")
        self.nodes.append(node)
        self.values.update(zip(names, got, strict=True))
        return names

    def _run(self, node: onnx.NodeProto, operands: Sequence[str]) -> list[Array]:
        fixed = [o for o in operands if o in self.stored or self._is_constant(o)]
        free = [o for o in operands if o not in fixed]
        infos = [helper.make_tensor_value_info(o, _kind(self.values[o]), self.values[o].shape) for o in free]
        outputs = [onnx.ValueInfoProto(name=o) for o in node.output]
        weights = [numpy_helper.from_array(self.values[o], o) for o in fixed]
        model = self.finish(helper.make_graph([node], "g", infos, outputs, weights))
        try:
            return run(model, {o: self.values[o] for o in free})
        except Exception as error:
            raise RefusedError(str(error)) from None

    def _is_constant(self, name: str) -> bool:
        return any(n.op_type == "Constant" and name in n.output for n in self.nodes)

    def tensors(self, accept: Callable[[Array], bool]) -> list[str]:
        return [n for n, v in self.values.items() if n not in self.stored and accept(v) and not self._is_constant(n)]

    def pick(self, accept: Callable[[Array], bool]) -> str:
        """A tensor that is no constant, rather one of the last ones."""
        found = self.tensors(accept)
        if not found:
            raise RefusedError("none fits")
        if self.chained:
            return found[-1]
        return str(self.rng.choice(found[-5:] if self.rng.random() < 0.7 else found))

    def finish(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        ir = next(i for top, i in STEPS if self.opset <= top)
        return helper.make_model(graph, ir_version=ir, opset_imports=[helper.make_opsetid("", self.opset)])

    def model(self) -> onnx.ModelProto:
        """The model; what nothing uses is an output, and some of the rest too."""
        used = {o for n in self.nodes for o in n.input}
        made = [o for n in self.nodes if n.op_type != "Constant" for o in n.output if o]
        ends = [o for o in made if o not in used][-4:]
        inner = [o for o in made if o in used]
        if inner and self.rng.random() < 0.4:
            ends.append(str(self.rng.choice(inner)))
        infos = [helper.make_tensor_value_info(n, _kind(self.values[n]), self._shape(n)) for n in self.inputs]
        free = [helper.make_tensor_value_info(n, _kind(self.values[n]), [None] * self.values[n].ndim) for n in ends]
        weights = [numpy_helper.from_array(v, n) for n, v in self.stored.items()]
        return self.finish(helper.make_graph(self.nodes, "g", infos, free, weights))

    def _shape(self, name: str) -> list[int | str]:
        symbolic = self.symbolic
        return [SYMBOL if symbolic and s == SYMBOL_SIZE else s for s in self.values[name].shape]


def _kind(value: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(value.dtype))


def run(model: onnx.ModelProto, feeds: dict[str, Any], *, optimize: bool = False) -> list[Array]:
    """What ONNX Runtime computes, without optimizing if not told to."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return [np.asarray(v) for v in session.run(None, feeds)]
