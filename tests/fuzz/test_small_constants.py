"""Constants that are small as long as they are spelled out, and quantized weights: no file grows, and what a runtime
makes an integer product of stays. ONNX Runtime without optimization is the judge."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.kept import SLACK, Stored, model_of, operators, optimized, weight

# --- constants that are small as long as they are spelled out

WIDE = 300_000
BLOAT: dict[str, tuple[list[onnx.NodeProto], Stored]] = {
    "ConstantOfShape": (
        [helper.make_node("ConstantOfShape", ["n"], ["c"], value=numpy_helper.from_array(np.array([0.5], np.float32)))],
        {"n": np.array([WIDE])},
    ),
    "Expand": ([helper.make_node("Expand", ["k", "n"], ["c"])], {"k": weight(1), "n": np.array([WIDE])}),
    "Expand of a row": (
        [
            helper.make_node("Expand", ["k", "n"], ["e"]),
            helper.make_node("Reshape", ["e", "s"], ["c"]),
        ],
        {"k": weight(1, 100), "n": np.array([WIDE // 100, 100]), "s": np.array([WIDE])},
    ),
    "Tile": ([helper.make_node("Tile", ["k", "n"], ["c"])], {"k": weight(10), "n": np.array([WIDE // 10])}),
    "Range": (
        [
            helper.make_node("Range", ["a", "b", "d"], ["r"]),
            helper.make_node("Cast", ["r"], ["c"], to=TensorProto.FLOAT),
        ],
        {"a": np.array(0), "b": np.array(WIDE), "d": np.array(1)},
    ),
    "Range of floats": (
        [helper.make_node("Range", ["a", "b", "d"], ["c"])],
        {"a": np.array(0, np.float32), "b": np.array(WIDE, np.float32), "d": np.array(1, np.float32)},
    ),
    "Pad": (
        [helper.make_node("Pad", ["k", "n"], ["c"])],
        {"k": weight(10), "n": np.array([WIDE - 100, 90])},
    ),
    "Concat": (
        [
            *(helper.make_node("Concat", [f"k{i}"] * 10, [f"k{i + 1}"], axis=0) for i in range(4)),
            helper.make_node("Concat", ["k4"] * 3, ["c"], axis=0),
        ],
        {"k0": weight(10)},
    ),
    "OneHot": (
        [
            helper.make_node("OneHot", ["i", "d", "v"], ["o"]),
            helper.make_node("Reshape", ["o", "s"], ["c"]),
        ],
        {
            "i": np.arange(30),
            "d": np.array(WIDE // 30),
            "v": np.array([0, 1], np.float32),
            "s": np.array([WIDE]),
        },
    ),
    "EyeLike": (
        [
            helper.make_node("ConstantOfShape", ["n"], ["z"]),
            helper.make_node("EyeLike", ["z"], ["e"]),
            helper.make_node("Reshape", ["e", "s"], ["c"]),
        ],
        {"n": np.array([300, 1000]), "s": np.array([WIDE])},
    ),
    "Resize": (
        [
            helper.make_node("Resize", ["k", "", "f"], ["e"], mode="nearest"),
            helper.make_node("Reshape", ["e", "s"], ["c"]),
        ],
        {"k": weight(1, 1, 30), "f": np.array([1, 1, WIDE / 30], np.float32), "s": np.array([WIDE])},
    ),
    "Gather": (
        [
            helper.make_node("ConstantOfShape", ["n"], ["i"], value=numpy_helper.from_array(np.array([3]))),
            helper.make_node("Gather", ["k", "i"], ["c"]),
        ],
        {"k": weight(10), "n": np.array([WIDE])},
    ),
    "an outer product": (
        [
            helper.make_node("Mul", ["k", "l"], ["e"]),
            helper.make_node("Reshape", ["e", "s"], ["c"]),
        ],
        {"k": weight(1000, 1), "l": weight(1, 300), "s": np.array([WIDE])},
    ),
}
USES = {
    "as it is": [helper.make_node("Mul", ["x", "c"], ["y"])],
    "after a function": [helper.make_node("Sqrt", ["c"], ["u1"]), helper.make_node("Add", ["x", "u1"], ["y"])],
    "twice": [
        helper.make_node("Mul", ["x", "c"], ["u1"]),
        helper.make_node("Neg", ["c"], ["u2"]),
        helper.make_node("Mul", ["u1", "u2"], ["y"]),
    ],
    "as an output": [helper.make_node("Identity", ["c"], ["u2"]), helper.make_node("Relu", ["u2"], ["y"])],
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", BLOAT)
def test_the_file_does_not_grow(name: str, use: str, fuzz: ModuleType) -> None:
    made, stored = BLOAT[name]
    model = model_of([*made, *USES[use]], (WIDE,), stored, opset=17)
    assert model.ByteSize() < SLACK
    after = optimized(fuzz, model)
    assert after.ByteSize() < model.ByteSize() + SLACK


@pytest.mark.parametrize("kind", ["float16", "float64", "int32", "int64", "uint8", "bool"])
def test_no_dtype_makes_it_grow(kind: str, fuzz: ModuleType) -> None:
    value = numpy_helper.from_array(np.array([1], kind))
    nodes = [
        helper.make_node("ConstantOfShape", ["n"], ["c"], value=value),
        helper.make_node("Concat", ["c", "c"], ["d"], axis=0),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "e"], ["y"]),
    ]
    model = model_of(nodes, (2 * WIDE,), {"n": np.array([WIDE])}, opset=13)
    assert optimized(fuzz, model).ByteSize() < model.ByteSize() + SLACK


# --- quantized weights

INTEGERS = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int4": TensorProto.INT4, "uint4": TensorProto.UINT4}
ROWS, COLUMNS = 64, 96


def stored_weight(kind: str, shape: tuple[int, ...], seed: int = 0) -> onnx.TensorProto:
    low, high = (
        (-8, 8) if kind == "int4" else (0, 16) if kind == "uint4" else (-100, 100) if kind == "int8" else (0, 200)
    )
    values = np.random.default_rng(seed).integers(low, high, shape)
    return helper.make_tensor("", INTEGERS[kind], list(shape), values.reshape(-1).tolist())


GRAIN: dict[str, tuple[tuple[int, ...], dict[str, Any], int]] = {
    "one scale": ((), {}, 13),
    "of each row": ((ROWS,), {"axis": 0}, 13),
    "of each column": ((COLUMNS,), {"axis": 1}, 13),
    "of each column, counted from the end": ((COLUMNS,), {"axis": -1}, 13),
    "blocks of rows": ((ROWS // 16, COLUMNS), {"axis": 0, "block_size": 16}, 21),
    "blocks of columns": ((ROWS, COLUMNS // 32), {"axis": 1, "block_size": 32}, 21),
}
AROUND = {
    "a product": [helper.make_node("MatMul", ["x", "d"], ["y"])],
    "a Gemm": [helper.make_node("Gemm", ["x", "d"], ["g"], alpha=0.5), helper.make_node("Relu", ["g"], ["y"])],
    "a transpose of a transpose": [
        helper.make_node("Transpose", ["d"], ["t"], perm=[1, 0]),
        helper.make_node("Transpose", ["t"], ["u"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "u"], ["y"]),
    ],
    "a scale behind it": [
        helper.make_node("MatMul", ["x", "d"], ["m"]),
        helper.make_node("Mul", ["m", "f"], ["y"]),
    ],
}


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("grain", GRAIN)
def test_quantized_weights_stay_quantized(grain: str, kind: str, zero: bool, fuzz: ModuleType) -> None:
    """Their integers stay what is stored; in float32 they take four or eight times as much."""
    shape, attrs, opset = GRAIN[grain]
    opset = 21 if kind.endswith("4") else opset
    stored: Stored = {
        "q": stored_weight(kind, (ROWS, COLUMNS)),
        "s": weight(*shape, seed=1) / 100,
    }
    if zero:
        stored["z"] = stored_weight("uint4" if kind == "uint4" else kind, shape, seed=2)
    first = helper.make_node("DequantizeLinear", ["q", "s", *(["z"] if zero else [])], ["d"], **attrs)
    for around in AROUND.values():
        more = {"f": np.array(0.5, np.float32)} if any("f" in n.input for n in around) else {}
        model = model_of([first, *around], (5, ROWS), stored | more, opset=opset)
        after = optimized(fuzz, model)
        (kept,) = [n for n in after.graph.node if n.op_type == "DequantizeLinear"]
        held = {t.name: t for t in after.graph.initializer}
        assert held[kept.input[0]].data_type == INTEGERS[kind]
        assert len([n for n in kept.input if n]) == (3 if zero else 2)
        floats = sum(int(np.prod(t.dims)) for t in held.values() if t.data_type == TensorProto.FLOAT)
        assert floats <= int(np.prod(shape)) + 2
        assert "Transpose" not in operators(after)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_a_quantized_convolution_stays_quantized(kind: str, fuzz: ModuleType) -> None:
    """Also where a normalization and a scale behind it could go into its weights."""
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["k"], axis=0),
        helper.make_node("Conv", ["x", "k"], ["v"]),
        helper.make_node("BatchNormalization", ["v", "bs", "bb", "bm", "bw"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    stored: Stored = {
        "q": stored_weight(kind, (16, 8, 3, 3)),
        "s": weight(16, seed=1) / 100,
        "z": stored_weight(kind, (16,), 2),
        **{f"b{n}": weight(16, seed=3) for n in "sbmw"},
    }
    model = model_of(nodes, (1, 8, 6, 6), stored, opset=13)
    after = optimized(fuzz, model)
    assert "DequantizeLinear" in operators(after)
    assert after.ByteSize() < model.ByteSize() + SLACK
    assert {t.data_type for t in after.graph.initializer if len(t.dims) == 4} == {INTEGERS[kind]}


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_quantizing_around_a_product_stays(kind: str, fuzz: ModuleType) -> None:
    """What a runtime makes an integer product of: nothing moves between the two and the product."""
    nodes = [
        helper.make_node("Relu", ["x"], ["x1"]),
        helper.make_node("Relu", ["x1"], ["x2"]),
        helper.make_node("QuantizeLinear", ["x2", "sx", "zx"], ["qx"]),
        helper.make_node("DequantizeLinear", ["qx", "sx", "zx"], ["dx"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], axis=1),
        helper.make_node("MatMul", ["dx", "d"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "sy", "zx"], ["qy"]),
        helper.make_node("DequantizeLinear", ["qy", "sy", "zx"], ["y"]),
    ]
    stored: Stored = {
        "q": stored_weight(kind, (ROWS, COLUMNS)),
        "s": weight(COLUMNS, seed=1) / 100,
        "z": stored_weight(kind, (COLUMNS,), 2),
        "sx": np.array(0.05, np.float32),
        "sy": np.array(0.5, np.float32),
        "zx": np.array(10, kind),
    }
    after = optimized(fuzz, model_of(nodes, (5, ROWS), stored, opset=13))
    assert operators(after).count("DequantizeLinear") == 3
    assert operators(after).count("QuantizeLinear") == 2
    (product,) = [n for n in after.graph.node if n.op_type == "MatMul"]
    makers = {o: n.op_type for n in after.graph.node for o in n.output}
    assert [makers[i] for i in product.input] == ["DequantizeLinear", "DequantizeLinear"]
