"""How ONNX nodes of every opset and form are read: attributes that became operands, defaults that changed, traps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egraph_opt.ir import TensorType, TupleType, floordiv, symbol
from egraph_opt.ops import Unsupported

N, S = symbol("N"), symbol("S")


def f32(*shape: Any) -> TensorType:
    return TensorType("float32", shape)


def i64(*shape: Any) -> TensorType:
    return TensorType("int64", shape)


# Reshape and its relatives


@pytest.mark.parametrize(
    ("x", "target", "expected"),
    [
        (f32(2, 3, 4), [0, -1], (2, 12)),
        (f32(2, 3, 4), [4, 0, -1], (4, 3, 2)),
        (f32(N, 3, 4), [0, 12], (N, 12)),
        (f32(N, 3, 4), [-1, 4], (N * 3, 4)),
        (f32(N, S, 12), [0, 0, 3, 4], (N, S, 3, 4)),
        (f32(N, S, 12), [0, -1, 4], (N, S * 3, 4)),
        (f32(N, S + 1, 8), [0, -1, 2, 4], (N, S + 1, 2, 4)),
        (f32(0, 3), [0, 3], (0, 3)),
        (f32(0, 3), [3, 0], None),  # 0 copies the 3
        (f32(2, 3), [0, 0, 0], None),
        (f32(2, 3), [-1, -1], None),
        (f32(2, 3), [4, -1], None),
        (f32(0, 3), [0, -1], None),
        (f32(), [1, 1], (1, 1)),
        (f32(1), [], ()),
    ],
)
def test_reshape(bench: Any, x: TensorType, target: list[int], expected: tuple[Any, ...] | None) -> None:
    if expected is None:
        with pytest.raises(Unsupported):
            bench.importing("Reshape", [x, target], 13)
    else:
        assert bench.importing("Reshape", [x, target], 13).type == f32(*expected)


def test_reshape_allowzero_makes_zero_a_size(bench: Any) -> None:
    read = bench.importing("Reshape", [f32(0, 3), [3, 0]], 14, allowzero=1)
    assert read.node.attrs == ((3, 0),)
    with pytest.raises(Unsupported):
        bench.importing("Reshape", [f32(2, 3), [0, 3]], 14, allowzero=1)


def test_reshape_of_a_computed_shape_is_opaque(bench: Any) -> None:
    with pytest.raises(Unsupported, match="while the model runs"):
        bench.importing("Reshape", [f32(2, 3), i64(2)], 13)


@pytest.mark.parametrize("opset", [9, 11, 12, 13, 21])
def test_squeeze_and_unsqueeze_axes(bench: Any, opset: int) -> None:
    def both(op: str, x: TensorType, axes: list[int]) -> TensorType:
        if opset < 13:
            return bench.importing(op, [x], opset, axes=tuple(axes)).type
        return bench.importing(op, [x, axes], opset).type

    assert both("Unsqueeze", f32(N, 3), [0, 3]) == f32(1, N, 3, 1)
    assert both("Squeeze", f32(1, N, 1), [0]) == f32(N, 1)
    if opset >= 11:
        assert both("Unsqueeze", f32(N, 3), [-1]) == f32(N, 3, 1)
        assert both("Squeeze", f32(1, N, 1), [-1]) == f32(1, N)
    with pytest.raises(Unsupported):
        both("Squeeze", f32(2, 1), [0])
    with pytest.raises(Unsupported):
        both("Squeeze", f32(N, 1), [0])


def test_squeeze_without_axes(bench: Any) -> None:
    assert bench.importing("Squeeze", [f32(1, 3, 1)], 13).type == f32(3)
    with pytest.raises(Unsupported, match="symbolic"):
        bench.importing("Squeeze", [f32(1, N)], 13)


@pytest.mark.parametrize(
    ("axis", "expected"), [(None, (N, 12)), (0, (1, N * 12)), (3, (N * 12, 1)), (-1, (N * 3, 4)), (2, (N * 3, 4))]
)
def test_flatten(bench: Any, axis: int | None, expected: tuple[Any, ...]) -> None:
    attributes = {} if axis is None else {"axis": axis}
    assert bench.importing("Flatten", [f32(N, 3, 4)], 13, **attributes).type == f32(*expected)
    assert bench.importing("Flatten", [f32(N, 3, S)], 13, axis=1).type == f32(N, S * 3)


# Axes, splits, slices, pads


def test_negative_axes_are_normalised(bench: Any) -> None:
    assert bench.importing("Concat", [f32(2, 3), f32(2, 1)], 11, axis=-1).node.attrs == (1,)
    assert bench.importing("Softmax", [f32(2, 3, 4)], 13, axis=-2).node.attrs == (1,)
    assert bench.importing("Gather", [f32(2, 3), i64()], 13, axis=-1).node.attrs == (1,)
    assert bench.importing("ArgMax", [f32(2, 3)], 13, axis=-1).node.attrs == (1, 1, 0)
    with pytest.raises(Unsupported, match="no axis"):
        bench.importing("Concat", [f32(2, 3), f32(2, 1)], 11, axis=2)


@pytest.mark.parametrize(
    ("opset", "size", "outputs", "attributes", "operand", "expected"),
    [
        (9, 6, 2, {}, None, (3, 3)),
        (9, 6, 2, {"split": (2, 4)}, None, (2, 4)),
        (13, 6, 2, {}, [1, 5], (1, 5)),
        (13, 6, 3, {}, None, (2, 2, 2)),
        (13, 7, 2, {}, None, None),
        (18, 7, 2, {"num_outputs": 2}, None, (4, 3)),
        (18, 7, 3, {"num_outputs": 3}, None, (3, 3, 1)),
        (18, 5, 4, {"num_outputs": 4}, None, None),
        (13, 6, 2, {}, [1, 4], None),
        (13, 6, 2, {}, [6, 0], (6, 0)),
    ],
)
def test_split_forms(
    bench: Any, opset: int, size: int, outputs: int, attributes: Any, operand: Any, expected: Any
) -> None:
    operands = [f32(2, size)] if operand is None else [f32(2, size), operand]
    if expected is None:
        with pytest.raises(Unsupported):
            bench.importing("Split", operands, opset, outputs, axis=-1, **attributes)
        return
    read = bench.importing("Split", operands, opset, outputs, axis=-1, **attributes)
    assert read.node.attrs == (1, expected)
    assert [read.graph.types[i] for i in read.outputs] == [f32(2, n) for n in expected]


MAX, MIN = (1 << 63) - 1, -(1 << 63)


@pytest.mark.parametrize(
    ("size", "start", "end", "step", "row"),
    [
        (10, 2, 5, 1, (2, 5, 1)),
        (10, -3, MAX, 1, (7, 10, 1)),
        (10, 0, MAX, 1, None),
        (10, -99, 99, 1, None),
        (10, 7, 3, 1, (0, 0, 1)),
        (10, 1, 8, 3, (1, 8, 3)),
        (10, 1, 10, 3, (1, 8, 3)),
        (10, 4, 6, 5, (4, 5, 1)),
        (10, -1, MIN, -1, (9, -1, -1)),
        (10, 99, 0, -2, (9, 0, -2)),
        (10, 3, -11, -1, (3, -1, -1)),
        (10, 3, -1, -1, (0, 0, 1)),
        (0, 0, 5, 1, None),
        (N, 0, MAX, 1, None),
        (N, 0, (1 << 31) - 1, 1, None),
        (N, -1, MIN, -1, (N - 1, -1, -1)),
        (N + 2, 1, MAX, 1, (1, N + 2, 1)),
        (N + 2, 0, -1, 1, (0, N + 1, 1)),
        (N + 2, 0, 2, 1, (0, 2, 1)),
        (N, 1, MAX, 1, "unsupported"),  # nothing is left when N is 0, so the size is not N - 1
        (N, 0, 5, 1, "unsupported"),
    ],
)
def test_slice_bounds(bench: Any, size: Any, start: int, end: int, step: int, row: Any) -> None:
    operands = [f32(3, size), [start], [end], [1], [step]]
    if row == "unsupported":
        with pytest.raises(Unsupported):
            bench.importing("Slice", operands, 13)
        return
    read = bench.importing("Slice", operands, 13)
    if row is None:
        assert read.node.op == "Input"
    else:
        assert read.node.attrs == ((1,), *((bound,) for bound in row))
    if isinstance(size, int):
        assert read.type == f32(3, np.zeros(size)[start:end:step].size)


def test_slice_of_opset_9_has_attributes(bench: Any) -> None:
    read = bench.importing("Slice", [f32(4, 5)], 9, starts=(1, -2), ends=(3, 99))
    assert read.node.attrs == ((0, 1), (1, 3), (3, 5), (1, 1))
    assert bench.importing("Slice", [f32(4, 5)], 9, starts=(1,), ends=(3,), axes=(1,)).type == f32(4, 2)


def test_pad_forms(bench: Any) -> None:
    old = bench.importing("Pad", [f32(2, 3)], 9, pads=(0, 1, 2, 0), value=0.5)
    new = bench.importing("Pad", [f32(2, 3), [0, 1, 2, 0], np.array(0.5, np.float32)], 13)
    axes = bench.importing("Pad", [f32(2, 3), [1, 0, 0, 2], np.array(0.5, np.float32), [-1, 0]], 18)
    assert old.node.attrs == new.node.attrs == axes.node.attrs == ((0, 1, 2, 0), "constant", 0.5)
    assert bench.importing("Pad", [f32(N, 3), [0, -1, 1, -1]], 13).type == f32(N + 1, 1)
    for broken in ({"mode": "wrap"}, {"mode": "reflect"}):
        with pytest.raises(Unsupported):
            bench.importing("Pad", [f32(2, 3), [0, 3, 0, 0]], 19, **broken)
    with pytest.raises(Unsupported):
        bench.importing("Pad", [f32(N, 3), [-1, 0, 0, 0]], 13)  # N may be 0


# Reductions


@pytest.mark.parametrize(("op", "since"), [("ReduceSum", 13), ("ReduceMean", 18), ("ReduceMax", 18)])
@pytest.mark.parametrize("opset", [9, 12, 13, 17, 18, 21])
def test_reduction_forms(bench: Any, op: str, since: int, opset: int) -> None:
    def read(axes: list[int] | None, **attributes: int) -> Any:
        if axes is None:
            return bench.importing(op, [f32(N, 3, 4)], opset, **attributes)
        if opset < since:
            return bench.importing(op, [f32(N, 3, 4)], opset, axes=tuple(axes), **attributes)
        return bench.importing(op, [f32(N, 3, 4), axes], opset, **attributes)

    assert read(None).node.attrs == ((0, 1, 2), 1)
    assert read(None, keepdims=0).type == f32()
    assert read([2, 1], keepdims=0).node.attrs == ((1, 2), 0)
    if opset >= 11:
        assert read([-1]).type == f32(N, 3, 1)
    if opset >= since:
        assert read(None, noop_with_empty_axes=1).node.op == "Input"
        assert read([], noop_with_empty_axes=1).node.op == "Input"
        assert read([]).node.attrs == ((0, 1, 2), 1)


def test_reduction_of_a_scalar_is_the_scalar(bench: Any) -> None:
    assert bench.importing("ReduceMean", [f32()], 13).node.op == "Input"


# Softmax: before opset 13 everything from the axis on is one row


@pytest.mark.parametrize(
    ("opset", "shape", "attributes", "axis"),
    [
        (13, (2, 3, 4), {}, 2),
        (12, (2, 3), {}, 1),
        (12, (2, 3, 4), {}, None),
        (12, (2, 3, 4), {"axis": 2}, 2),
        (12, (2, 3, 4), {"axis": -1}, 2),
        (12, (2, 3, 1, 1), {"axis": 1}, 1),
        (12, (2, 1, 4), {"axis": 1}, None),  # the same as axis 2
        (12, (N, S), {}, 1),
        (12, (N, S, 1), {}, 1),
        (12, (N, S, S), {}, None),
        (12, (3,), {}, None),  # the default axis does not exist
    ],
)
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_softmax_axis(bench: Any, op: str, opset: int, shape: Any, attributes: Any, axis: int | None) -> None:
    if axis is None and shape != (2, 1, 4):
        with pytest.raises(Unsupported):
            bench.importing(op, [f32(*shape)], opset, **attributes)
    else:
        assert bench.importing(op, [f32(*shape)], opset, **attributes).node.attrs == (2 if axis is None else axis,)


# Pools and convolutions


def test_pool_defaults_and_auto_pad(bench: Any) -> None:
    plain = bench.importing("MaxPool", [f32(1, 2, 7, 6)], 11, kernel_shape=(3, 2))
    assert plain.node.attrs == ((3, 2), (1, 1), (0, 0, 0, 0), (1, 1), 0)
    same = {"kernel_shape": (3, 2), "strides": (2, 2)}
    upper = bench.importing("MaxPool", [f32(1, 2, 7, 6)], 11, auto_pad="SAME_UPPER", **same)
    lower = bench.importing("AveragePool", [f32(1, 2, 8, 5)], 11, auto_pad="SAME_LOWER", **same)
    assert upper.node.attrs[2] == (1, 0, 1, 0)
    assert lower.node.attrs[2] == (1, 1, 0, 0)
    with pytest.raises(Unsupported, match="unknown size"):
        bench.importing("MaxPool", [f32(1, 2, N, 6)], 11, auto_pad="SAME_UPPER", **same)


def test_pool_with_positions_is_opaque_only_if_they_are_used(bench: Any) -> None:
    with pytest.raises(Unsupported, match="positions"):
        bench.importing("MaxPool", [f32(1, 2, 7)], 11, 2, kernel_shape=(3,))


def test_ceil_mode_where_specification_and_runtime_differ(bench: Any) -> None:
    # a third window would start in the padding: ONNX counted it until opset 22, ONNX Runtime never did
    window = {"kernel_shape": (2,), "strides": (3,), "pads": (0, 1), "ceil_mode": 1}
    assert bench.importing("MaxPool", [f32(1, 1, 5)], 22, **window).type == f32(1, 1, 2)
    with pytest.raises(Unsupported, match="opset"):
        bench.importing("MaxPool", [f32(1, 1, 5)], 12, **window)
    with pytest.raises(Unsupported, match="ceil_mode"):
        bench.importing("MaxPool", [f32(1, 1, N)], 22, **window)
    fits = bench.importing("MaxPool", [f32(1, 1, N)], 12, kernel_shape=(3,), strides=(2,), ceil_mode=1)
    assert fits.type == f32(1, 1, floordiv(N - 2, 2) + 1)


def test_conv_transpose_output_shape(bench: Any) -> None:
    operands = [f32(1, 2, 5), f32(2, 3, 3)]
    for shape in ((10,), (1, 3, 10)):
        lower = bench.importing("ConvTranspose", operands, 11, strides=(2,), output_shape=shape)
        assert lower.type == f32(1, 3, 10)
        assert lower.node.attrs[1] == (1, 0)
    upper = bench.importing("ConvTranspose", operands, 11, strides=(2,), auto_pad="SAME_UPPER")
    assert upper.node.attrs[1] == (0, 1)
    symbolic = [f32(1, 2, N), f32(2, 3, 3)]
    assert bench.importing("ConvTranspose", symbolic, 11, strides=(2,), auto_pad="SAME_LOWER").type.shape[2] == N * 2


# Constants and nodes that vanish


def test_constant_forms(bench: Any) -> None:
    for attributes, expected in (
        ({"value_float": 1.5}, np.float32(1.5)),
        ({"value_floats": (1.5, 2.0)}, np.array([1.5, 2], np.float32)),
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": (3, 4)}, np.array([3, 4], np.int64)),
    ):
        read = bench.importing("Constant", [], 13, **attributes)
        value = read.graph.value(read.outputs[0])
        assert value.dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)
    with pytest.raises(Unsupported):
        bench.importing("Constant", [], 13, value_string="x")


def test_shape_and_size(bench: Any) -> None:
    read = bench.importing("Shape", [f32(N, 3, 4)], 15, start=-2)
    np.testing.assert_array_equal(read.graph.value(read.outputs[0]), [3, 4])
    read = bench.importing("Size", [f32(2, 3)], 13)
    assert read.graph.value(read.outputs[0]) == 6
    assert bench.importing("Shape", [f32(N, 3)], 13).node.attrs == (0, 2)
    assert bench.importing("Size", [f32(N, 3)], 13).node.op == "ReduceProd"


def test_identity_and_dropout_vanish(bench: Any) -> None:
    assert bench.importing("Identity", [f32(2)], 13).node.op == "Input"
    assert bench.importing("Dropout", [f32(2)], 9, ratio=0.5).node.op == "Input"
    assert bench.importing("Dropout", [f32(2), np.float32(0.5), np.array(False)], 13).node.op == "Input"
    with pytest.raises(Unsupported, match="mask"):
        bench.importing("Dropout", [f32(2)], 13, 2)
    with pytest.raises(Unsupported, match="training"):
        bench.importing("Dropout", [f32(2), np.float32(0.5), np.array(True)], 13)


def test_range_and_fill(bench: Any) -> None:
    read = bench.importing("Range", [np.int64(7), np.int64(1), np.int64(-2)], 13)
    np.testing.assert_array_equal(read.graph.value(read.outputs[0]), [7, 5, 3])
    with pytest.raises(Unsupported):
        bench.importing("Range", [np.int64(0), i64(), np.int64(1)], 13)
    assert bench.importing("ConstantOfShape", [[2, 0]], 9).node.attrs == ((2, 0), 0.0, "float32")
    with pytest.raises(Unsupported):
        bench.importing("ConstantOfShape", [i64(2)], 9)


# Other traps


def test_expand_keeps_what_the_target_does_not_enlarge(bench: Any) -> None:
    assert bench.importing("Expand", [f32(3, 4), [1, 4]], 13).type == f32(3, 4)
    assert bench.importing("Expand", [f32(3, 1), [2, 1, 5]], 13).type == f32(2, 3, 5)
    assert bench.importing("Expand", [f32(N, 1), [1, 5]], 13).type == f32(N, 5)
    assert bench.importing("Expand", [f32(3), []], 13).type == f32(3)
    for x in (f32(3, 4), f32(N, 4)):
        with pytest.raises(Unsupported):
            bench.importing("Expand", [x, [2, 4]], 13)


def test_clip_forms(bench: Any) -> None:
    limit = float(np.finfo(np.float32).max)
    assert bench.importing("Clip", [f32(2)], 9).node.attrs == (-limit, limit)
    assert bench.importing("Clip", [f32(2)], 9, min=0.0).node.attrs == (0.0, limit)
    assert bench.importing("Clip", [f32(2), None, np.float32(6)], 11).node.attrs == (None, 6.0)
    with pytest.raises(Unsupported, match="while the model runs"):
        bench.importing("Clip", [f32(2), f32()], 13)
    with pytest.raises(Unsupported, match="not a number"):
        bench.importing("Clip", [f32(2), None, np.float32("nan")], 13)


def test_training_and_extra_outputs_are_opaque(bench: Any) -> None:
    x, c = f32(2, 3, 4), f32(3)
    assert bench.importing("BatchNormalization", [x, c, c, c, c], 9).type == x
    with pytest.raises(Unsupported, match="training"):
        bench.importing("BatchNormalization", [x, c, c, c, c], 15, training_mode=1)
    with pytest.raises(Unsupported, match="statistics"):
        bench.importing("BatchNormalization", [x, c, c, c, c], 9, 2)
    with pytest.raises(Unsupported, match="deviation"):
        bench.importing("LayerNormalization", [x, f32(4)], 17, 2)


def test_float_attributes_are_what_a_file_would_hold(bench: Any) -> None:
    read = bench.importing("LayerNormalization", [f32(2, 4), f32(4)], 17, epsilon=1e-6)
    assert read.node.attrs == (1, float(np.float32(1e-6)))


def test_what_the_opset_does_not_define_stays_opaque(bench: Any) -> None:
    bf16 = TensorType("bfloat16", (2, 2))
    with pytest.raises(Unsupported, match="opset 12"):
        bench.importing("MatMul", [bf16, bf16], 12)
    assert bench.importing("MatMul", [bf16, bf16], 13).type == bf16


def test_cast(bench: Any) -> None:
    assert bench.importing("Cast", [f32(2)], 9, to=7).type == i64(2)
    assert bench.importing("CastLike", [f32(2), i64()], 15).node.attrs == ("int64",)
    with pytest.raises(Unsupported):
        bench.importing("Cast", [f32(2)], 13, to=8)


def test_split_is_one_node_of_tuple_type(bench: Any) -> None:
    read = bench.importing("Split", [f32(4, N)], 13, 2)
    assert read.node.op == "Split"
    assert read.graph.types[1] == TupleType((f32(2, N), f32(2, N)))
