"""Operators that call themselves exact in a ring compute with residues what big integers say, and a fault shows."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from egraph_opt.ir import TensorType
from egraph_opt.ops import Operator, Sample, operators

P = 1_048_573  # sums of a few hundred products stay inside int64
EXACT = sorted(name for name, declared in operators().items() if declared.ring == "exact" and name != "Get")


def samples(declared: Operator, count: int) -> list[Sample]:
    rng = np.random.default_rng(zlib.crc32(declared.name.encode()) + 1)
    drawn: list[Sample] = []
    for _ in range(count):
        low, high = declared.arity
        operands = int(rng.integers(low, (low + 2 if high is None else high) + 1))
        sample = declared.complete(rng, [None] * len(declared.params), [None] * operands)
        drawn += [sample] if sample else []
    return drawn


def residues(rng: np.random.Generator, declared: Operator, sample: Sample) -> list[NDArray[Any]]:
    limits = declared.limits(sample.attrs, sample.types)
    drawn: list[NDArray[Any]] = []
    for t, bound in zip(sample.types, limits, strict=True):
        low, high = bound or ((0, 1) if t.dtype == "bool" else (0, P - 1))
        drawn.append(np.asarray(rng.integers(low, high + 1, t.numbers())))
    return drawn


def as_tuple(value: Any) -> tuple[NDArray[Any], ...]:
    return value if isinstance(value, tuple) else (value,)


def lifted(declared: Operator, operands: Sequence[NDArray[Any]], rng: np.random.Generator) -> list[NDArray[Any]]:
    """The same residues as other, negative and larger, integers: values only, not indices and conditions."""
    data = {"Gather": 1, "GatherElements": 1}.get(declared.name, len(operands))
    first = 1 if declared.name == "Where" else 0
    return [
        x + P * rng.integers(-2, 3, x.shape) if first <= i < data else x  # still exact in int64
        for i, x in enumerate(operands)
    ]


@pytest.mark.parametrize("name", EXACT)
def test_value_depends_on_residues_only(name: str) -> None:
    declared = operators()[name]
    rng = np.random.default_rng(7)
    for sample in samples(declared, 30):
        operands = residues(rng, declared, sample)
        plain = as_tuple(declared.evaluate(sample.attrs, operands))
        other = as_tuple(declared.evaluate(sample.attrs, lifted(declared, operands, rng)))
        for a, b in zip(plain, other, strict=True):
            np.testing.assert_array_equal(a % P, b % P, err_msg=str(sample))


def small(rng: np.random.Generator, declared: Operator, sample: Sample) -> list[NDArray[Any]]:
    limits = declared.limits(sample.attrs, sample.types)
    return [
        np.asarray(rng.integers(*(bound or ((0, 1) if t.dtype == "bool" else (-9, 9))), t.numbers(), endpoint=True))
        for t, bound in zip(sample.types, limits, strict=True)
    ]


@pytest.mark.parametrize("name", EXACT)
def test_residues_agree_with_float64(name: str) -> None:
    """On small whole numbers float64 is exact, so both ways of evaluating must give one integer."""
    declared = operators()[name]
    rng = np.random.default_rng(8)
    for sample in samples(declared, 20):
        whole = small(rng, declared, sample)
        floats = [x.astype("bool" if t.dtype == "bool" else t.dtype) for x, t in zip(whole, sample.types, strict=True)]
        exact = as_tuple(declared.evaluate(sample.attrs, floats))
        ring = as_tuple(declared.evaluate(sample.attrs, whole))
        for a, b in zip(exact, ring, strict=True):
            np.testing.assert_array_equal(a, b)


def matmul_by_hand(a: NDArray[Any], b: NDArray[Any]) -> list[list[int]]:
    return [
        [sum(int(a[i, k]) * int(b[k, j]) for k in range(a.shape[1])) % P for j in range(b.shape[1])]
        for i in range(a.shape[0])
    ]


def test_big_integers_agree() -> None:
    """Python's own integers, one product at a time."""
    rng = np.random.default_rng(9)
    a, b = rng.integers(0, P, (3, 5)), rng.integers(0, P, (5, 4))
    table = operators()
    product = table["MatMul"].evaluate((), [a, b])
    assert not isinstance(product, tuple)
    assert (product % P).tolist() == matmul_by_hand(a, b)
    gemm = table["Gemm"].evaluate((1, 0, 2.0, -1.0), [np.ascontiguousarray(a.T), b, np.int64(5)])  # type: ignore[list-item]
    assert not isinstance(gemm, tuple)
    assert (gemm % P).tolist() == [[(2 * v - 5) % P for v in row] for row in matmul_by_hand(a, b)]
    total = table["ReduceSum"].evaluate(((0, 1), 0), [a])
    assert not isinstance(total, tuple)
    assert int(total) % P == sum(int(v) for v in a.flat) % P


def test_convolutions_agree_with_big_integers() -> None:
    rng = np.random.default_rng(10)
    x, w = rng.integers(0, P, (1, 4, 6)), rng.integers(0, P, (6, 2, 3))
    y = operators()["Conv"].evaluate(((2,), (1, 0), (1,), 2), [x, w])
    assert not isinstance(y, tuple)
    for m in range(6):
        for place in range(y.shape[2]):
            total = 0
            for c in range(2):
                for k in range(3):
                    at = place * 2 - 1 + k
                    if 0 <= at < 6:
                        total += int(x[0, (m // 3) * 2 + c, at]) * int(w[m, c, k])
            assert int(y[0, m, place]) % P == total % P


def test_transposed_convolution_is_the_adjoint_of_convolution() -> None:
    """<conv(x, w), y> = <x, conv_transpose(y, w)> for every stride, pad, dilation and group."""
    rng = np.random.default_rng(11)
    conv, back = operators()["Conv"], operators()["ConvTranspose"]
    tried = 0
    for sample in samples(conv, 60):
        if len(sample.types) == 3:
            continue
        strides, pads, dilations, group = sample.attrs
        x, w = residues(rng, conv, sample)
        y = conv.evaluate(sample.attrs, [x, w])
        assert not isinstance(y, tuple)
        spatial = x.ndim - 2
        assert isinstance(strides, tuple)
        assert isinstance(pads, tuple)
        assert isinstance(dilations, tuple)
        rest = tuple(
            x.shape[2 + i]
            + pads[i]
            + pads[i + spatial]
            - (w.shape[2 + i] - 1) * dilations[i]
            - 1
            - (y.shape[2 + i] - 1) * strides[i]
            for i in range(spatial)
        )
        other = rng.integers(0, P, y.shape)
        z = back.evaluate((strides, pads, dilations, rest, group), [other, w])
        assert not isinstance(z, tuple)
        left = sum(int(a) * int(b) for a, b in zip((y % P).flat, other.flat, strict=True))
        right = sum(int(a) * int(b) for a, b in zip(x.flat, (z % P).flat, strict=True))
        assert left % P == right % P, sample
        tried += 1
    assert tried > 10


def test_no_operator_with_an_order_or_a_division_calls_itself_exact() -> None:
    ordered = {
        "Div",
        "Max",
        "Min",
        "Relu",
        "MaxPool",
        "AveragePool",
        "ReduceMax",
        "ReduceMean",
        "Softmax",
        "Less",
        "Clip",
    }
    assert not ordered & set(EXACT)
    assert {"Add", "Sub", "Mul", "Neg", "MatMul", "Gemm", "Conv", "ConvTranspose", "ReduceSum"} < set(EXACT)


def test_a_fault_would_show() -> None:
    """An operator that rounds, or that forgets a term, fails the same comparison."""
    declared = operators()["MatMul"]
    rng = np.random.default_rng(12)
    sample = Sample((), (TensorType("float64", (2, 3)), TensorType("float64", (3, 2))))
    a, b = residues(rng, declared, sample)
    right = matmul_by_hand(a, b)
    assert (np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.int64) % P).tolist() != right
    assert (np.matmul(a[:, :-1], b[:-1]) % P).tolist() != right
