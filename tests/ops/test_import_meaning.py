"""What old and new forms of ONNX nodes mean: ONNX Runtime and the graph that was read give the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from egraph_opt.ir import TensorType, symbol
from egraph_opt.ops import Unsupported

RNG = np.random.default_rng(0)


def r(*shape: int) -> Any:
    return np.asarray(RNG.normal(size=shape) * 2).astype(np.float32)


def i64(*values: int) -> Any:
    return np.array(values, np.int64)


FAR = (1 << 63) - 1

# operator, operands, opset, outputs, how many of the last operands are constants, attributes
CASES: list[tuple[str, list[Any], int, int, int, dict[str, Any]]] = [
    ("Softmax", [r(2, 3, 1)], 12, 1, 0, {}),
    ("Softmax", [r(2, 1, 4)], 11, 1, 0, {"axis": -2}),
    ("LogSoftmax", [r(3, 4)], 9, 1, 0, {}),
    ("Softmax", [r(2, 3, 4)], 13, 1, 0, {}),
    ("Softmax", [r(2, 3, 4)], 13, 1, 0, {"axis": 0}),
    ("Flatten", [r(2, 3, 4)], 11, 1, 0, {"axis": -1}),
    ("Flatten", [r(2, 3, 4)], 9, 1, 0, {"axis": 0}),
    ("Squeeze", [r(1, 3, 1)], 11, 1, 0, {}),
    ("Squeeze", [r(1, 3, 1)], 13, 1, 1, {}),
    ("Unsqueeze", [r(2, 3), i64(-1, 0)], 13, 1, 1, {}),
    ("Unsqueeze", [r(2, 3)], 11, 1, 0, {"axes": (0, 2)}),
    ("Reshape", [r(2, 3, 4), i64(0, -1)], 9, 1, 1, {}),
    ("Reshape", [r(0, 3), i64(5, 0)], 14, 1, 1, {"allowzero": 1}),
    ("Transpose", [r(2, 3, 4)], 9, 1, 0, {}),
    ("Split", [r(7, 2)], 18, 3, 0, {"num_outputs": 3}),
    ("Split", [r(2, 6)], 11, 2, 0, {"axis": -1, "split": (2, 4)}),
    ("Split", [r(2, 6), i64(5, 1)], 13, 2, 1, {"axis": 1}),
    ("Slice", [r(5, 7), i64(-1, 6), i64(-FAR, 1), i64(0, 1), i64(-2, -3)], 10, 1, 4, {}),
    ("Slice", [r(5, 7), i64(3), i64(-1), i64(-1), i64(2)], 13, 1, 4, {}),
    ("Slice", [r(5, 7), i64(9), i64(99)], 13, 1, 2, {}),
    ("Slice", [r(5, 7)], 9, 1, 0, {"starts": (-3,), "ends": (100,), "axes": (1,)}),
    ("Pad", [r(2, 3), i64(1, 0, 0, 2), np.float32(7), i64(1, 0)], 18, 1, 3, {}),
    ("Pad", [r(2, 4), i64(0, 2, 0, 3)], 13, 1, 1, {"mode": "reflect"}),
    ("Pad", [r(2, 4), i64(0, -1, 1, -2)], 11, 1, 1, {}),
    ("Pad", [r(2, 4)], 9, 1, 0, {"pads": (0, 2, 1, 3), "mode": "edge"}),
    ("Gather", [r(4, 3), np.int64(-1)], 13, 1, 0, {}),
    ("Gather", [r(4, 3), np.array([[0, -1]], np.int32)], 13, 1, 1, {"axis": -1}),
    ("GatherElements", [r(4, 3), i64(-1, 0, 2)[None]], 13, 1, 1, {}),
    ("ReduceSum", [r(2, 3), i64()], 13, 1, 1, {}),
    ("ReduceSum", [r(2, 3), i64()], 13, 1, 1, {"noop_with_empty_axes": 1}),
    ("ReduceMean", [r(2, 3, 4)], 11, 1, 0, {"axes": (-1, 0), "keepdims": 0}),
    ("ReduceMax", [r(2, 3)], 18, 1, 0, {}),
    ("ReduceMean", [np.array([[-7, 2]], np.int32)], 13, 1, 0, {}),
    ("ArgMax", [np.array([[1, 3, 3]], np.float32)], 12, 1, 0, {"axis": -1, "select_last_index": 1}),
    ("ArgMin", [np.array([[1, 3, 1]], np.float32)], 9, 1, 0, {"axis": 1, "keepdims": 0}),
    ("Expand", [r(3, 1), i64(2, 1, 4)], 9, 1, 1, {}),
    ("Expand", [r(3, 4), i64(1)], 9, 1, 1, {}),
    ("Gemm", [r(3, 4), r(3, 5), r(4, 1)], 9, 1, 0, {"transA": 1, "alpha": 0.5, "beta": -2.0}),
    ("Gemm", [r(3, 4), r(5, 4), r(5)], 13, 1, 0, {"transB": 1}),
    ("MatMul", [r(4), r(2, 4, 3)], 13, 1, 0, {}),
    ("Clip", [r(3, 4)], 9, 1, 0, {"max": 0.5}),
    ("Clip", [r(3, 4), np.float32(1), np.float32(-1)], 13, 1, 2, {}),
    ("Div", [np.array([-7, 7, -7, 7], np.int32), np.array([2, -2, -2, 2], np.int32)], 13, 1, 0, {}),
    ("Cast", [np.array([-1.7, 0.0, 0.3, 2.9], np.float32)], 13, 1, 0, {"to": 7}),
    ("Cast", [np.array([-1.7, 0.0, 0.3, np.nan], np.float32)], 13, 1, 0, {"to": 9}),
    ("Cast", [np.array([True, False])], 9, 1, 0, {"to": 1}),
    ("Add", [r(3, 1), r(2, 1, 4)], 13, 1, 0, {}),
    ("Sum", [r(3, 1), r(4), r(3, 4)], 9, 1, 0, {}),
    ("Sum", [r(3, 1)], 9, 1, 0, {}),
    ("Max", [r(3, 1), r(4), r(3, 4)], 9, 1, 0, {}),
    ("PRelu", [r(2, 3, 4), r(3, 1)], 9, 1, 0, {}),
    ("Where", [np.array([[True], [False]]), r(2, 3), r(3)], 9, 1, 0, {}),
    ("LRN", [r(1, 7, 2, 2)], 9, 1, 0, {"size": 5, "alpha": 0.3, "bias": 2.0}),
    ("Dropout", [r(3, 4)], 9, 1, 0, {"ratio": 0.9}),
    ("Range", [np.float32(1), np.float32(-2), np.float32(-0.7)], 11, 1, 3, {}),
    ("Shape", [r(2, 3, 4)], 15, 1, 0, {"start": -2}),
    ("Size", [r(2, 3, 4)], 13, 1, 0, {}),
    ("ConstantOfShape", [i64(2, 3)], 9, 1, 1, {}),
    ("Tile", [r(2, 3), i64(2, 0)], 13, 1, 1, {}),
    ("BatchNormalization", [r(2, 3, 4), r(3), r(3), r(3), np.abs(r(3))], 9, 1, 0, {"epsilon": 0.1}),
    ("BatchNormalization", [r(2, 3), r(3), r(3), r(3), np.abs(r(3))], 15, 1, 0, {}),
    ("LayerNormalization", [r(2, 3, 4), r(3, 4), r(3, 4)], 17, 1, 0, {"axis": -2}),
    ("LayerNormalization", [r(2, 3, 4), r(4)], 17, 1, 0, {}),
    ("Conv", [r(1, 2, 7, 6), r(3, 2, 2, 3)], 11, 1, 0, {"auto_pad": "SAME_UPPER", "strides": (2, 2)}),
    ("Conv", [r(1, 2, 7, 6), r(3, 2, 2, 3)], 11, 1, 0, {"auto_pad": "SAME_LOWER", "strides": (2, 3)}),
    ("Conv", [r(1, 2, 9), r(3, 2, 3), r(3)], 11, 1, 0, {"auto_pad": "VALID", "dilations": (2,)}),
    ("MaxPool", [r(1, 2, 7)], 9, 1, 0, {"kernel_shape": (4,), "auto_pad": "SAME_LOWER"}),
    ("MaxPool", [r(1, 2, 7)], 10, 1, 0, {"kernel_shape": (2,), "strides": (2,), "ceil_mode": 1}),
    ("AveragePool", [r(1, 2, 8, 5)], 11, 1, 0, {"kernel_shape": (3, 2), "auto_pad": "SAME_UPPER", "strides": (2, 2)}),
    (
        "AveragePool",
        [r(1, 2, 7)],
        11,
        1,
        0,
        {"kernel_shape": (3,), "strides": (2,), "pads": (1, 2), "count_include_pad": 1},
    ),
    (
        "AveragePool",
        [r(1, 2, 6)],
        10,
        1,
        0,
        {"kernel_shape": (3,), "strides": (2,), "ceil_mode": 1, "count_include_pad": 1},
    ),
    ("ConvTranspose", [r(1, 2, 5), r(2, 3, 3)], 11, 1, 0, {"strides": (2,), "output_shape": (10,)}),
    ("ConvTranspose", [r(1, 2, 5), r(2, 3, 4)], 11, 1, 0, {"strides": (2,), "auto_pad": "SAME_UPPER"}),
    ("ConvTranspose", [r(1, 2, 5), r(2, 3, 3)], 11, 1, 0, {"strides": (2,), "auto_pad": "SAME_LOWER"}),
    ("ConvTranspose", [r(1, 4, 5), r(4, 3, 3), r(6)], 11, 1, 0, {"group": 2, "strides": (3,), "output_padding": (2,)}),
]


@pytest.mark.parametrize(("op", "operands", "opset", "outputs", "fixed", "attributes"), CASES)
def test_runtime_agrees(
    bench: Any, op: str, operands: list[Any], opset: int, outputs: int, fixed: int, attributes: dict[str, Any]
) -> None:
    if op == "Squeeze" and fixed:
        operands = [operands[0], i64(-1)]
    bench.agrees(op, [np.asarray(x) for x in operands], opset, outputs, fixed, **attributes)


def reshaped(chain: list[onnx.NodeProto], constants: dict[str, Any]) -> onnx.ModelProto:
    """A model that reshapes x0 to the shape ``t`` that ``chain`` computes."""
    tensors = [onnx.numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()]
    graph = helper.make_graph(
        [helper.make_node("Shape", ["x0"], ["s"]), *chain, helper.make_node("Reshape", ["x0", "t"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["N", 3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


FIRST = [
    helper.make_node("Cast", ["s"], ["s32"], to=TensorProto.INT32),
    helper.make_node("Gather", ["s32", "zero"], ["n"]),
    helper.make_node("Cast", ["n"], ["n64"], to=TensorProto.INT64),
]


def test_shapes_computed_from_shapes_are_known(bench: Any) -> None:
    """Exporters write Shape, Gather and Concat where the target of a Reshape is known all the same."""
    chain = [
        *FIRST,
        helper.make_node("Unsqueeze", ["n64", "zeros"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["t"], axis=0),
    ]
    proto = reshaped(chain, {"zero": 0, "zeros": [0], "rest": [-1]})
    static = bench.read(proto, [TensorType("float32", (2, 3, 4))])
    assert (static.node.op, static.node.attrs) == ("Reshape", ((2, 12),))
    assert sum(node.op == "Concat" for node in static.graph.nodes) == 1  # nothing is folded on the way in
    n = symbol("N")
    symbolic = bench.read(proto, [TensorType("float32", (n, 3, 4))])
    assert (symbolic.node.op, symbolic.node.attrs) == ("Reshape", ((n, 12),))


def test_arithmetic_of_sizes(bench: Any) -> None:
    chain = [
        *FIRST,
        helper.make_node("Mul", ["n64", "three"], ["m"]),
        helper.make_node("Reshape", ["m", "ones"], ["m1"]),
        helper.make_node("Concat", ["m1", "four"], ["t"], axis=0),
    ]
    proto = reshaped(chain, {"zero": 0, "three": 3, "ones": [1], "four": [4]})
    n = symbol("N")
    assert bench.read(proto, [TensorType("float32", (n, 3, 4))]).type == TensorType("float32", (n * 3, 4))
    np.testing.assert_array_equal(bench.run(proto, [np.zeros((5, 3, 4), np.float32)])[0].shape, (15, 4))


def test_comparisons_of_sizes_are_not_guessed(bench: Any) -> None:
    """Whether N is 1 is not known, so a shape that asks is not either."""
    chain = [
        *FIRST,
        helper.make_node("Equal", ["n64", "one"], ["e"]),
        helper.make_node("Where", ["e", "flat", "s"], ["t"]),
    ]
    proto = reshaped(chain, {"zero": 0, "one": 1, "flat": [1, 3, 4]})
    with pytest.raises(Unsupported, match="while the model runs"):
        bench.read(proto, [TensorType("float32", (symbol("N"), 3, 4))])
    assert bench.read(proto, [TensorType("float32", (1, 3, 4))]).type == TensorType("float32", (1, 3, 4))
