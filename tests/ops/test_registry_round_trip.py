"""Every operator of the table: random samples are typed as they compute, and survive the way to ONNX and back."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NotImplementedByRuntime

from egraph_opt.ir import TensorType, TupleType
from egraph_opt.ops import Operator, Sample, operators

# operators without a node of their own in ONNX, and why
NO_ROUND_TRIP = {
    "Get": "it has no ONNX node",
    "FusedConv": "it is written as two nodes",
    "Shape": "numbers come back as a constant",
}
OPSETS = (9, 10, 11, 12, 13, 14, 17, 18, 20, 23, 24)
SAMPLES = 40
EXPORTED = 16


def samples(declared: Operator, count: int) -> list[Sample]:
    rng = np.random.default_rng(zlib.crc32(declared.name.encode()))
    found: list[Sample] = []
    for _ in range(4 * count):
        low, high = declared.arity
        operands = int(rng.integers(low, (low + 2 if high is None else high) + 1))
        sample = declared.complete(rng, [None] * len(declared.params), [None] * operands)
        if sample is not None:
            found.append(sample)
    return found[:count]


def in_float32(declared: Operator, sample: Sample) -> Sample:
    """ONNX Runtime has few kernels for float64."""
    types = tuple(TensorType("float32", t.shape) if t.dtype == "float64" else t for t in sample.types)
    attrs = (*sample.attrs[:2], "float32") if declared.name == "Fill" else sample.attrs
    return Sample(attrs, types)


NAMES = sorted(set(operators()) - {"Get"})


@pytest.mark.parametrize("name", NAMES)
def test_type_is_the_type_of_the_value(name: str, bench: Any) -> None:
    declared = operators()[name]
    rng = np.random.default_rng(1)
    found = samples(declared, SAMPLES)
    assert len(found) >= SAMPLES // 2
    for sample in found:
        for one in (sample, in_float32(declared, sample)):
            inferred = declared.infer(one.attrs, one.types)
            value = declared.evaluate(one.attrs, bench.draw(rng, declared, one))
            items = inferred.items if isinstance(inferred, TupleType) else (inferred,)
            arrays = value if isinstance(value, tuple) else (value,)
            assert items == tuple(TensorType(a.dtype.name, a.shape) for a in arrays), one


@pytest.mark.parametrize("name", NAMES)
def test_completes_what_is_left_open(name: str) -> None:
    """Attributes alone, or types alone, are completed again, and nothing that was given changes."""
    declared = operators()[name]
    rng = np.random.default_rng(2)
    done = 0
    for sample in samples(declared, SAMPLES):
        open_types = [None] * len(sample.types)
        for attrs, types in (
            (sample.attrs, open_types),
            ([None] * len(sample.attrs), sample.types),
            (sample.attrs, [*sample.types[:1], *open_types[1:]]),
            (sample.attrs, sample.types),
        ):
            again = declared.complete(rng, attrs, types)
            if again is None:
                continue
            done += 1
            assert all(a is None or repr(a) == repr(b) for a, b in zip(attrs, again.attrs, strict=True))
            assert all(t is None or t == u for t, u in zip(types, again.types, strict=True))
            declared.infer(again.attrs, again.types)
        assert declared.complete(rng, sample.attrs, sample.types) == sample
    assert done > SAMPLES


@pytest.mark.parametrize("name", NAMES)
def test_onnx_runtime_agrees_and_the_node_comes_back(name: str, bench: Any) -> None:
    declared = operators()[name]
    rng = np.random.default_rng(3)
    seen: set[int] = set()
    for number, sample in enumerate(samples(declared, EXPORTED)):
        sample = in_float32(declared, sample)
        least = declared.opset(sample.attrs, sample.types)
        usable = [opset for opset in OPSETS if opset >= least]
        opset = usable[number % len(usable)]
        seen.add(opset)
        emitted = bench.emit(declared, sample, opset)
        onnx.checker.check_model(emitted.proto, full_check=True)
        operands = bench.draw(rng, declared, sample)
        try:
            actual = bench.run(emitted.proto, operands)
        except NotImplementedByRuntime:
            assert name in NO_KERNEL, f"{name} at opset {opset} with {sample}"
            actual = None
        expected = declared.evaluate(sample.attrs, operands)
        arrays = expected if isinstance(expected, tuple) else (expected,)
        for got, want in zip(actual or (), arrays, strict=actual is not None):
            assert (got.dtype, got.shape) == (want.dtype, want.shape), sample
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5, err_msg=f"{sample} at opset {opset}")
        if name not in NO_ROUND_TRIP:
            back = bench.read(emitted.proto, sample.types)
            node = back.node
            assert (node.op, repr(node.attrs)) == (name, repr(sample.attrs)), f"opset {opset}"
            assert node.operands == tuple(range(len(sample.types)))
    assert len(seen) > 1, "only one opset was tried"


# operators for which ONNX Runtime has no CPU kernel in some opset
NO_KERNEL: dict[str, str] = {}
