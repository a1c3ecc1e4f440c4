"""What an operator says of the magnitude of its result holds, and is not so loose that nobody can use it."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from egraph_opt.ir import TensorType
from egraph_opt.ops import operator, operators

TELLING = (
    *("Add", "Sub", "Mul", "MatMul", "Gemm", "Conv", "ReduceSum", "Pad"),
    *("Reshape", "Transpose", "Concat", "Slice", "Expand", "Gather"),
)


@pytest.mark.parametrize("name", sorted(set(operators()) - {"Get"}))
def test_no_element_exceeds_the_magnitude(name: str) -> None:
    declared = operators()[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    told = 0
    for _ in range(60):
        low, high = declared.arity
        count = int(rng.integers(low, (low + 2 if high is None else high) + 1))
        sample = declared.complete(rng, [None] * len(declared.params), [None] * count)
        if sample is None or any(t.dtype not in ("float64", "int64", "bool") for t in sample.types):
            continue
        operands = [
            _drawn(rng, t, b) for t, b in zip(sample.types, declared.limits(sample.attrs, sample.types), strict=True)
        ]
        largest = [float(np.abs(x).max(initial=0.0)) if x.dtype != bool else 1.0 for x in operands]
        bound = declared.magnitude(sample.attrs, sample.types, largest)
        if np.isfinite(bound):
            value: Any = declared.evaluate(sample.attrs, operands)
            parts = value if isinstance(value, tuple) else (value,)
            told += 1
            assert all(np.abs(p.astype(np.float64)).max(initial=0.0) <= bound * (1 + 1e-9) for p in parts), sample
    assert told >= 20 or name not in TELLING


def test_the_bound_is_reached() -> None:
    ones = TensorType("float64", (4, 4))
    assert operator("MatMul").magnitude((), (ones, ones), (1.0, 1.0)) == 4.0
    assert operator("Gemm").magnitude((0, 0, 2.0, -3.0), (ones, ones, ones), (1.0, 1.0, 1.0)) == 11.0


def test_what_is_filled_in_counts() -> None:
    ones = TensorType("float64", (4, 4))
    for value, bound in ((-7.0, 7.0), (0.5, 2.0), (np.inf, np.inf), (np.nan, np.inf)):
        assert operator("Pad").magnitude(((1, 1, 1, 1), "constant", value), (ones,), (2.0,)) == bound


def _drawn(rng: np.random.Generator, type_: TensorType, limits: tuple[int, int] | None) -> np.ndarray:
    if type_.dtype == "bool":
        return rng.random(type_.numbers()) < 0.5
    if limits is not None:
        return np.asarray(rng.integers(limits[0], limits[1] + 1, type_.numbers()))
    return np.asarray(rng.integers(-5, 6, type_.numbers())).astype(type_.dtype)
