"""The kinds of faults that optimizers of ONNX are known for, drawn over axes, ranks, dtypes, opsets and forms of nodes.

Each kind is a chain of nodes; each node takes the last tensor that fits, in any form that its opset has. The whole
optimizer runs, at every level of numerics; ONNX Runtime without optimization is the judge, at several sizes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from types import ModuleType

import pytest

MODELS = 5
"""Models of each kind."""

KINDS = {
    "a transpose that is an identity, before a product": (["transpose"], ["transpose"], ["matmul", "gemm", "linear"]),
    "a product and a bias that broadcasts it": (["matmul"], ["binary"], ["binary"]),
    "a Gemm with alpha, beta and transposes, and a sum": (["gemm"], ["binary"], ["unary"]),
    "a norm whose scale broadcasts": (["layernorm"], ["binary"]),
    "a convolution and a vector that is no bias": (["conv"], ["binary"], ["binary"]),
    "a normalization after a convolution": (["conv", "conv_transpose"], ["batchnorm"], ["unary", "batchnorm"]),
    "a padding before a window": (["pad"], ["conv", "pool", "pool"]),
    "paddings": (["pad"], ["pad"], ["slice_", "reduce"]),
    "casts": (["cast"], ["cast"], ["cast"]),
    "bounds": (["unary", "clip"], ["clip", "several"], ["clip", "several"]),
    "sums and products that broadcast": (["expand", "unsqueeze"], ["binary"], ["binary"]),
    "reshapes": (["reshape", "flatten"], ["reshape", "squeeze", "flatten"], ["reshape", "unsqueeze"]),
    "sizes by Shape": (["reshape_by_shape"], ["unary"], ["reshape_by_shape", "filled", "ramp"]),
    "slices": (["slice_"], ["slice_"], ["slice_", "gather"]),
    "parts": (["split"], ["unary"], ["concat"], ["slice_", "split"]),
    "axes that come and go": (["unsqueeze"], ["unsqueeze", "reduce"], ["squeeze", "transpose"]),
    "reductions": (["reduce"], ["unsqueeze", "expand"], ["reduce", "binary"]),
    "constants": (["chain"], ["division"], ["chain"]),
    "transposes around": (["transpose"], ["unary", "softmax", "binary"], ["transpose"]),
    "reshape, transpose, reshape": (["reshape"], ["transpose"], ["reshape"]),
    "products that share an operand": (["towers"], ["unary"], ["towers"]),
    "integers": (["shape_of", "places"], ["integer_unary", "binary"], ["division", "remainder"]),
    "conditions": (["compare"], ["logic"], ["where"]),
    "quantized": (["quantized"], ["linear", "conv"], ["quantized"]),
    "what is not declared": (["top", "sums_of_prefixes", "triangle", "einsum"], ["unary"], ["slice_", "norms"]),
    "dropout": (["dropout"], ["unary"], ["dropout"]),
}


@pytest.fixture(scope="module")
def models(fuzz_models: ModuleType) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuzz_models.pipeline, "Worker", fuzz_models.Here)  # the same saturation, without a process
        yield fuzz_models


@pytest.mark.parametrize("kind", KINDS)
def test_no_fault_of_a_kind(kind: str, models: ModuleType) -> None:
    totals = models.Totals()
    seed = zlib.crc32(kind.encode())
    for number in range(MODELS):
        before, _, fault = models.one(seed, number, totals, KINDS[kind])
        assert not fault, f"{fault}\n{models.onnx.printer.to_text(before)}"
    assert totals.models >= MODELS - 1
    assert totals.compared >= 2 * totals.models


def test_no_fault_of_random_models(models: ModuleType) -> None:
    totals = models.Totals()
    for number in range(40):
        _, _, fault = models.one(2024, number, totals)
        assert not fault, f"model {number}: {fault}"
    assert totals.models >= 38
    assert totals.outcomes["optimized"] >= 10
    assert len(totals.nodes) >= 50
