"""Models of one input, node by node, and what every result of theirs must satisfy."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import egraph_opt
from egraph_opt import Outcome

Array = NDArray[Any]
Stored = dict[str, Array | onnx.TensorProto]
MICROSOFT = "com.microsoft"
SLACK = 20_000
"""Bytes that a file may grow by: a small value may be stored, and every node says where it comes from."""


def weight(*shape: int, seed: int = 0, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(dtype)


def model_of(
    nodes: list[onnx.NodeProto],
    x: tuple[int, ...],
    stored: Mapping[str, Array | onnx.TensorProto],
    *,
    opset: int,
    outputs: tuple[str, ...] = ("y",),
    kind: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """A model of one input x; initializers are stored."""
    weights = [
        onnx.TensorProto.FromString(v.SerializeToString())
        if isinstance(v, onnx.TensorProto)
        else numpy_helper.from_array(v, n)
        for n, v in stored.items()
    ]
    for name, tensor in zip(stored, weights, strict=True):
        tensor.name = name
    first = helper.make_tensor_value_info("x", kind, x)
    ends = [helper.make_empty_tensor_value_info(n) for n in outputs]
    imports = [helper.make_opsetid("", opset)]
    if any(n.domain for n in nodes):
        imports.append(helper.make_opsetid(MICROSOFT, 1))
    ir = 4 if opset < 10 else 8 if opset < 19 else 10
    return helper.make_model(
        helper.make_graph(nodes, "g", [first], ends, weights), ir_version=ir, opset_imports=imports
    )


def optimized(fuzz: ModuleType, model: onnx.ModelProto, numerics: str = "standard") -> onnx.ModelProto:
    """The result, which computes the same as the model does, at both levels of ONNX Runtime."""
    result = egraph_opt.optimize(model, target="analytic", measure=False, extractor="dag-greedy", numerics=numerics)
    after = result.model
    assert isinstance(after, onnx.ModelProto)
    assert result.report.outcome in (Outcome.OPTIMIZED, Outcome.UNCHANGED), result.report.reason
    info = model.graph.input[0].type.tensor_type
    shape = [d.dim_value for d in info.shape.dim]
    x = np.random.default_rng(1).normal(size=shape).astype(helper.tensor_dtype_to_np_dtype(info.elem_type))
    wanted = [({"x": x}, fuzz.run(model, {"x": x}))]
    assert fuzz.differences(model, after, wanted, "", fuzz.Totals()) == ""
    return after


def operators(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node if n.op_type != "Constant"]
