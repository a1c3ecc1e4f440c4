"""Types with symbolic sizes, and what is written to ONNX for them runs at every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from egraph_opt.ir import Size, TensorType, TupleType, floordiv, product, symbol
from egraph_opt.ops import IllTyped, Sample, operator
from egraph_opt.ops.base import concrete, concrete_type

N, H, W = symbol("N"), symbol("H"), symbol("W")


def f32(*shape: Size) -> TensorType:
    return TensorType("float32", shape)


CASES: list[tuple[str, tuple[Any, ...], list[TensorType], TensorType | None]] = [
    ("MatMul", (), [f32(N, 4, H), f32(H, 5)], f32(N, 4, 5)),
    ("MatMul", (), [f32(N, 4, H), f32(1, H, W)], f32(N, 4, W)),
    ("MatMul", (), [f32(N, 4, H), f32(W, 5)], None),
    ("MatMul", (), [f32(N, 4, 4), f32(H, 4, 4)], None),
    ("Gemm", (1, 0, 1.0, 1.0), [f32(H, N), f32(H, 3), f32(3)], f32(N, 3)),
    ("Gemm", (0, 0, 1.0, 1.0), [f32(1, 4), f32(4, 3), f32(N, 3)], None),  # c may not enlarge the product
    ("Add", (), [f32(N, 1, W), f32(H, 1)], f32(N, H, W)),
    ("Add", (), [f32(N), f32(H)], None),
    (
        "Conv",
        ((2, 1), (1, 0, 1, 0), (1, 1), 1),
        [f32(N, 3, H, W), f32(8, 3, 3, 3)],
        f32(N, 8, floordiv(H - 1, 2) + 1, W - 2),
    ),
    (
        "ConvTranspose",
        ((2,), (1, 1), (1,), (1,), 1),
        [f32(N, 3, H), f32(3, 8, 3)],
        f32(N, 8, H * 2),
    ),
    (
        "MaxPool",
        ((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 0),
        [f32(N, 3, H, W)],
        f32(N, 3, floordiv(H, 2), floordiv(W, 2)),
    ),
    ("MaxPool", ((3,), (2,), (0, 0), (1,), 1), [f32(N, 3, H)], f32(N, 3, floordiv(H - 2, 2) + 1)),
    ("AveragePool", ((3,), (1,), (1, 1), (1,), 0, 1), [f32(N, 3, H)], f32(N, 3, H)),
    ("GlobalAveragePool", (), [f32(N, 3, H, W)], f32(N, 3, 1, 1)),
    ("Concat", (1,), [f32(N, 3, H), f32(N, W, H), f32(N, 1, H)], f32(N, W + 4, H)),
    ("Concat", (1,), [f32(N, 3), f32(H, 3)], None),
    ("Transpose", ((2, 0, 1),), [f32(N, H, W)], f32(W, N, H)),
    ("Tile", ((1, 2),), [f32(N, H)], f32(N, H * 2)),
    ("Pad", ((0, 1, 0, 2), "constant", 0.0), [f32(N, H)], f32(N, H + 3)),
    ("Expand", ((N, 3, H),), [f32(N, 1, H)], f32(N, 3, H)),
    ("Expand", ((N, 3),), [f32(1, 3)], None),  # ONNX cannot name N here
    ("Gather", (1,), [f32(N, 5, H), TensorType("int64", (W, 2))], f32(N, W, 2, H)),
    ("ReduceMean", ((1, 2), 0), [f32(N, H, W)], f32(N)),
    ("Softmax", (1,), [f32(N, H, W)], f32(N, H, W)),
    ("Slice", ((1,), (1,), (H + 2,), (1,)), [f32(N, H + 3)], f32(N, H + 1)),
    ("Slice", ((1,), (H - 1,), (-1,), (-2,)), [f32(N, H)], f32(N, floordiv(H + 1, 2))),
    ("Slice", ((1,), (1,), (H,), (1,)), [f32(N, H)], None),  # H may be 0
    ("Slice", ((1,), (0,), (W,), (1,)), [f32(N, H)], None),
    ("Reshape", ((N, 12),), [f32(N, 3, 4)], f32(N, 12)),
    ("Reshape", ((N * 3, 4),), [f32(N, 3, 4)], f32(N * 3, 4)),
    ("Reshape", ((N, H * W),), [f32(N, H, W)], f32(N, H * W)),
    ("Reshape", ((N * H, W),), [f32(N, H, W)], f32(N * H, W)),
    ("Reshape", ((N, 1, H, W),), [f32(N, H, W)], f32(N, 1, H, W)),
    ("Reshape", ((N, H),), [f32(1, N, 1, H, 1)], f32(N, H)),
    ("Reshape", ((N, 1, H),), [f32(1, N, H)], f32(N, 1, H)),
    ("Reshape", ((N * H, W * 3),), [f32(N, H, W, 3)], f32(N * H, W * 3)),
    ("Reshape", ((N, H, 2, 6, W),), [f32(N, H, 12, W)], f32(N, H, 2, 6, W)),  # W moves, the others stay: one -1
    ("Reshape", ((H, N),), [f32(N, H)], None),
    ("Reshape", ((N * 4,),), [f32(N, 3)], None),
    ("Reshape", ((N, 0),), [f32(0, N)], None),
    ("Reshape", ((H,),), [f32(N)], None),
]


@pytest.mark.parametrize(("name", "attrs", "types", "expected"), CASES)
def test_type_rule(name: str, attrs: tuple[Any, ...], types: list[TensorType], expected: TensorType | None) -> None:
    declared = operator(name)
    if expected is None:
        with pytest.raises(IllTyped):
            declared.infer(attrs, types)
        return
    assert declared.infer(attrs, types) == expected
    for sizes in ({"N": 2, "H": 5, "W": 7}, {"N": 3, "H": 6, "W": 4}):
        numbers = [concrete_type(t, sizes) for t in types]
        chosen = concrete(attrs, sizes)
        assert isinstance(chosen, tuple)
        assert declared.infer(chosen, numbers) == concrete_type(expected, sizes)


@pytest.mark.parametrize(("name", "attrs", "types", "expected"), [case for case in CASES if case[3] is not None])
@pytest.mark.parametrize("opset", [9, 13, 18])
def test_written_for_every_size(
    bench: Any, name: str, attrs: tuple[Any, ...], types: list[TensorType], expected: TensorType, opset: int
) -> None:
    declared = operator(name)
    if opset < declared.opset(attrs, types):
        pytest.skip("the form is newer")
    emitted = bench.emit(declared, Sample(attrs, tuple(types)), opset)
    for value in (*emitted.proto.graph.input, *emitted.proto.graph.output):
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):  # a name of its own: checkers cannot read formulas
                dim.dim_param = f"{value.name}_{i}"
    onnx.checker.check_model(emitted.proto)
    rng = np.random.default_rng(5)
    for sizes in ({"N": 2, "H": 5, "W": 7}, {"N": 3, "H": 6, "W": 4}):
        chosen = concrete(attrs, sizes)
        assert isinstance(chosen, tuple)
        sample = Sample(chosen, tuple(concrete_type(t, sizes) for t in types))
        operands = bench.draw(rng, declared, sample)
        (got,) = bench.run(emitted.proto, operands)
        want = declared.evaluate(sample.attrs, operands)
        assert got.shape == concrete_type(expected, sizes).shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_split_of_a_tensor_with_a_symbolic_axis() -> None:
    split = operator("Split")
    assert split.infer((1, (1, 2)), [f32(N, 3)]) == TupleType((f32(N, 1), f32(N, 2)))
    with pytest.raises(IllTyped):
        split.infer((0, (1, 2)), [f32(N, 3)])


def test_element_counts_are_polynomials() -> None:
    reshape = operator("Reshape")
    assert reshape.infer((((N + 1) * 4,),), [f32(N + 1, 4)]) == f32(N * 4 + 4)
    with pytest.raises(IllTyped):
        reshape.infer((product([N, N]),), [f32(N, H)])
