"""Cases for the GPU executor, run by the emulator here and by the GPU where there is one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime as ort
import pytest

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorGraph, TensorType, TupleType
from egraph_opt.onnx_io import import_model
from egraph_opt.ops import IllTyped, numpy_dtype, operator, operators
from egraph_opt.runtime import cuda

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "bench")]

SKIPPED = {"Opaque", "Get", "Shape", "ConvTranspose"}
NAMES = tuple(name for name in operators() if name not in SKIPPED)
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-12}

Case = tuple[TensorGraph, dict[str, np.ndarray], list[np.ndarray]]


def case(name: str, seed: int, dtype: str = "float32") -> Case | None:
    """One operator as a graph of inputs and weights, values to run it on, and its results by the operator table."""
    rng, declared = np.random.default_rng([seed, *name.encode()]), operator(name)
    arity = declared.arity[0] if declared.arity[1] == declared.arity[0] else declared.arity[0] + int(rng.integers(2))
    sample = declared.complete(rng, (None,) * len(declared.params), (None,) * arity)
    if sample is None:
        return None
    types = [TensorType(dtype if t.dtype == "float64" else t.dtype, t.shape) for t in sample.types]
    try:
        result = declared.infer(sample.attrs, types)
    except IllTyped:
        return None
    graph, feeds, operands, values = TensorGraph(), dict[str, np.ndarray](), list[int](), list[np.ndarray]()
    limits = declared.limits(sample.attrs, types)
    for position, (type_, limit) in enumerate(zip(types, limits, strict=True)):
        value = _values(rng, type_, limit, positive=name in ("Log", "Sqrt", "Pow", "BatchNormalization"))
        values.append(value)
        weight = position > 0 and name in ("Conv", "FusedConv", "BatchNormalization", "LayerNormalization")
        if weight:
            from egraph_opt.ir import Constant

            operands.append(graph.constant(Constant.of(value, type_.dtype)))
        else:
            feeds[f"x{position}"] = value
            operands.append(graph.add("Input", (f"x{position}",), (), type_))
    node = graph.add(name, sample.attrs, operands, result)
    wanted = declared.evaluate(sample.attrs, values)
    if isinstance(result, TupleType):
        graph.outputs = tuple(graph.add("Get", (i,), (node,), t) for i, t in enumerate(result.items))
    else:
        graph.outputs = (node,)
    return graph, feeds, list(wanted) if isinstance(wanted, tuple) else [wanted]


def _values(
    rng: np.random.Generator, type_: TensorType, limit: tuple[int, int] | None, *, positive: bool
) -> np.ndarray:
    dtype, shape = np.dtype(numpy_dtype(type_.dtype)), type_.numbers()
    if type_.dtype == "bool":
        return rng.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        low, high = limit or (1, 5)
        return rng.integers(low, high + 1, shape).astype(dtype)
    value = rng.standard_normal(shape)
    return (np.abs(value) + 0.5 if positive else value).astype(dtype)


def check(
    run: Callable[[TensorGraph, dict[str, np.ndarray]], list[np.ndarray]], name: str, seed: int, dtype: str
) -> None:
    """Runs a case; the results must be those of the operator table within the dtype's tolerance."""
    made = case(name, seed, dtype)
    if made is None:
        pytest.skip("no case")
    graph, feeds, wanted = made
    if any(t.dtype == "string" or 0 in t.numbers() for t in graph.types if isinstance(t, TensorType)):
        pytest.skip("strings and empty tensors")
    for got, want in zip(run(graph, feeds), wanted, strict=True):
        assert got.shape == want.shape
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want)
        else:
            bound = TOLERANCE.get(want.dtype.name, 2e-5)
            np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=bound, atol=bound)


def small_networks(dtype: str) -> dict[str, onnx.ModelProto]:
    """Networks with everything that the planner looks for, of sizes that are no powers of two."""
    models, netbuilder = importlib.import_module("models"), importlib.import_module("netbuilder")
    encoder, nasrnn, Net = models.encoder, models.nasrnn, netbuilder.Net

    def cells(net: Any, batch: int) -> list[str]:
        x = net.relu(net.norm(net.conv(net.input("x", batch, 3, 17, 15), 16, 3, 2, bias=False)))
        y = net.pool("MaxPool", x, 3, 2, 1)
        left, right = net.relu(net.conv(y, 8, 1)), net.relu(net.conv(y, 24, (1, 3)))
        joined = net.concat([left, net.concat([right, net.pool("AveragePool", y, 3, 1, 1)])])
        deep = net.conv(joined, 48, 5, group=48, bias=False)
        z = net.relu(net.add(net.norm(net.conv(deep, 48, 1, bias=False)), joined))
        grouped = net.relu(net.add(net.conv(z, 48, 3, group=4), net.pool("AveragePool", z, 3, 1, 1)))
        return [net.head(grouped, 10), net.op("Sigmoid", z)]

    def built(name: str, make: Callable[[Any], list[str]]) -> onnx.ModelProto:
        net = Net(name, dtype)
        return net.finish(make(net))

    return {
        "cells": built("cells", lambda net: cells(net, 2)),
        "encoder": built("encoder", lambda net: encoder(net, 1, layers=1, width=48, heads=3, inner=80, length=20)),
        "encoder-long": built(
            "encoder-long", lambda net: encoder(net, 2, layers=1, width=64, heads=2, inner=64, length=70)
        ),
        "encoder-wide": built(
            "encoder-wide", lambda net: encoder(net, 1, layers=1, width=1024, heads=8, inner=2048, length=40)
        ),
        "nasrnn": built("nasrnn", lambda net: nasrnn(net, 1, steps=2, hidden=64)),
        "nasrnn-batch": built("nasrnn-batch", lambda net: nasrnn(net, 3, steps=2, hidden=32)),
    }


NETWORKS = ("cells", "encoder", "encoder-long", "encoder-wide", "nasrnn", "nasrnn-batch")


def check_network(
    run: Callable[[TensorGraph, dict[str, np.ndarray]], list[np.ndarray]], name: str, dtype: str, tolerance: float
) -> None:
    """Runs a small network; every output is that of ONNX Runtime in float32, up to ``tolerance`` of its norm."""
    model, wide = small_networks(dtype)[name], small_networks("float32")[name]
    rng, feeds = np.random.default_rng(0), dict[str, np.ndarray]()
    for value in model.graph.input:
        feeds[value.name] = rng.standard_normal([d.dim_value for d in value.type.tensor_type.shape.dim]).astype(dtype)
    session = ort.InferenceSession(wide.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {k: v.astype(np.float32) for k, v in feeds.items()})
    got = run(import_model(onnx_ir.from_proto(model)).graph, feeds)
    for a, b in zip(got, wanted, strict=True):
        b = np.asarray(b, np.float64)
        assert np.linalg.norm(a.astype(np.float64) - b) <= tolerance * np.linalg.norm(b)


@pytest.fixture(scope="session")
def gpu() -> cuda.Machine:
    """The GPU; tests that want it are skipped where there is none."""
    try:
        return cuda.machine()
    except UsageError as error:
        pytest.skip(str(error))
