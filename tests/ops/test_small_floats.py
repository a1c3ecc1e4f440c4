"""16-bit floats: sums are taken in float32, and results keep the dtype; so do empty tensors and scalars."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from egraph_opt.ir import TensorType
from egraph_opt.ops import IllTyped, Sample, operator, operators

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("name", sorted(set(operators()) - {"Get", "Cast", "Fill"}))
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_float_operator_keeps_16_bits_and_is_near_float64(name: str, dtype: str, bench: Any) -> None:
    declared = operators()[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    tolerance = 4e-3 if dtype == "float16" else 3e-2
    tried = 0
    for _ in range(12):
        low, high = declared.arity
        drawn = declared.complete(rng, [None] * len(declared.params), [None] * (low + 2 if high is None else high))
        if drawn is None:
            continue
        sample = Sample(
            drawn.attrs, tuple(TensorType(dtype, t.shape) if t.dtype == "float64" else t for t in drawn.types)
        )
        try:
            declared.infer(sample.attrs, sample.types)
        except IllTyped:
            continue
        operands = bench.draw(rng, declared, sample)
        if name in ("Tan", "Pow", "Div", "ReduceProd"):  # what amplifies the rounding of operands is no test
            operands = [np.abs(x) / x.dtype.type(8) + x.dtype.type(0.5) for x in operands]
        small = declared.evaluate(sample.attrs, operands)
        wide = declared.evaluate(
            sample.attrs, [x.astype(np.float64) if x.dtype in (np.float16, BF16) else x for x in operands]
        )
        parts = small if isinstance(small, tuple) else (small,)
        for a, b in zip(parts, wide if isinstance(wide, tuple) else (wide,), strict=True):
            if b.dtype == np.float64:
                assert a.dtype.name == dtype
                finite = np.isfinite(b)
                got = a.astype(np.float64)[finite]
                np.testing.assert_allclose(got, b[finite], rtol=tolerance, atol=tolerance, err_msg=str(sample))
        tried += 1
    known_for_other_types = {"And", "Or", "Not", "Xor"}
    assert tried or name in known_for_other_types


def test_sums_do_not_overflow_or_stall_in_float16() -> None:
    many = np.full((1, 4096), 16, np.float16)
    ones = np.ones((4096, 1), np.float16) / np.float16(16)
    assert operator("MatMul").evaluate((), [many, ones])[0, 0] == 4096  # type: ignore[index]
    assert operator("ReduceMean").evaluate(((1,), 0), [np.full((1, 8192), 60000, np.float16)])[0] == 60000  # type: ignore[index]
    assert operator("ReduceSum").evaluate(((1,), 0), [np.ones((1, 1000), BF16)])[0] == 1000  # type: ignore[index]


EMPTY = [
    ("MatMul", (), [(2, 0), (0, 3)], (2, 3)),
    ("Gemm", (0, 0, 1.0, 1.0), [(0, 4), (4, 3), (3,)], (0, 3)),
    ("ReduceSum", ((1,), 0), [(2, 0)], (2,)),
    ("ReduceMax", ((1,), 1), [(2, 0)], (2, 1)),
    ("Concat", (1,), [(2, 0), (2, 3)], (2, 3)),
    ("Transpose", ((1, 0),), [(0, 3)], (3, 0)),
    ("Reshape", ((0, 5),), [(0, 3)], (0, 5)),
    ("Reshape", ((3, 0),), [(0, 3)], (3, 0)),
    ("Softmax", (1,), [(2, 0)], (2, 0)),
    ("Expand", ((0, 3),), [(1, 3)], (0, 3)),
    ("Tile", ((0, 2),), [(2, 3)], (0, 6)),
    ("Pad", ((1, 0, 1, 0), "constant", 2.0), [(0, 3)], (2, 3)),
    ("Slice", ((0,), (0,), (0,), (1,)), [(2, 3)], (0, 3)),
    ("Add", (), [(0, 3), (1,)], (0, 3)),
    ("Conv", ((1,), (0, 0), (1,), 1), [(0, 2, 5), (3, 2, 3)], (0, 3, 3)),
    ("Transpose", ((),), [()], ()),
    ("Reshape", ((),), [(1, 1)], ()),
    ("Relu", (), [()], ()),
    ("MatMul", (), [(3,), (3,)], ()),
    ("Expand", ((),), [()], ()),
    ("Tile", ((),), [()], ()),
    ("Where", (), [(), (), ()], ()),
]


@pytest.mark.parametrize(("name", "attrs", "shapes", "expected"), EMPTY)
def test_empty_tensors_and_scalars(
    name: str, attrs: tuple[Any, ...], shapes: list[tuple[int, ...]], expected: tuple[int, ...], bench: Any
) -> None:
    declared = operator(name)
    types = tuple(TensorType("bool" if name == "Where" and i == 0 else "float32", s) for i, s in enumerate(shapes))
    assert declared.infer(attrs, types) == TensorType("float32", expected)
    sample = Sample(attrs, types)
    operands = bench.draw(np.random.default_rng(0), declared, sample)
    value = declared.evaluate(attrs, operands)
    assert not isinstance(value, tuple)
    assert (value.dtype, value.shape) == (np.float32, expected)
    for opset in (13, 18):
        if declared.opset(attrs, types) > opset:
            continue
        emitted = bench.emit(declared, sample, opset)
        (got,) = bench.run(emitted.proto, operands)
        assert got.shape == expected
        np.testing.assert_allclose(got, value, rtol=1e-5)
        node = bench.read(emitted.proto, types).node
        assert (node.op, node.attrs) == (name, attrs)
