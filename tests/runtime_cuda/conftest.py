"""Cases for the GPU executor, run by the emulator here and by the GPU where there is one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorGraph, TensorType, TupleType
from egraph_opt.ops import IllTyped, numpy_dtype, operator, operators
from egraph_opt.runtime import cuda

sys.path.insert(0, str(Path(__file__).parent))

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


@pytest.fixture(scope="session")
def gpu() -> cuda.Machine:
    """The GPU; tests that want it are skipped where there is none."""
    try:
        return cuda.machine()
    except UsageError as error:
        pytest.skip(str(error))
