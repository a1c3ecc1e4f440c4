"""Models of every form go through the tensor graph and come out with the same interface and the same results."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from egraph_opt.errors import InvalidModelError
from egraph_opt.onnx_io import import_model, to_ir

X = np.array([-1.5, 2.0], np.float32)
K = np.array([-0.0, 3.0], np.float32)

PLAIN = {
    "no nodes": "g (float[2] x) => (float[2] x) { }",
    "input is an output": "g (float[2] x) => (float[2] x, float[2] y) { y = Relu(x) }",
    "outputs in another order": "g (float[2] x) => (float[2] b, float[2] x, float[2] a) { a = Relu(x) b = Exp(a) }",
    "initializer is an output": "g (float[2] x) => (float[2] c, float[2] y) <float[2] c={1,2}> { y = Add(x,c) }",
    "initializer is the only output": "g (float[2] x) => (float[2] c) <float[2] c={1,2}> { }",
    "Constant is an output": "g (float[2] x) => (float[2] c, float[2] y)"
    " { c = Constant<value_floats=[1.0,2.0]>() y = Add(x,c) }",
    "equal initializers are outputs": "g (float[2] x) => (float[2] a, float[2] b)"
    " <float[2] a={1,2}, float[2] b={1,2}> { }",
    "duplicates": "g (float[2] x) => (float[2] a, float[2] b) { a = Relu(x) b = Relu(x) }",
    "three names for one value": "g (float[2] x) => (float[2] a, float[2] b, float[2] c)"
    " { a = Relu(x) b = Identity(a) c = Identity(b) }",
    "one output twice": "g (float[2] x) => (float[2] a, float[2] a) { a = Relu(x) }",
    "intermediate is an output": "g (float[2] x) => (float[2] a, float[2] b) { a = Relu(x) b = Exp(a) }",
    "identities of an input": "g (float[2] x) => (float[2] a, float[2] b) { a = Identity(x) b = Identity(a) }",
    "dead nodes": "g (float[2] x) => (float[2] y) { a = Relu(x) b = Exp(a) y = Abs(x) }",
    "names that the exporter would choose": "g (float[2] x) => (float[2] Relu_0, float[2] y)"
    " { a = Relu(x) Exp_1 = Exp(a) Relu_0 = Exp(Exp_1) y = Abs(Exp_1) }",
    "constants named like generated names": "g (float[2] x) => (float[2] y) <float[2] constant_0={1,2}>"
    " { Add_1 = Add(x, constant_0) y = Mul(Add_1, Add_1) }",
    "symbolic size": "g (float[N] x) => (float[N] y) { y = Exp(x) }",
    "unused part of a split": "g (float[2] x) => (float[1] y) <int64[2] s={1,1}> { y, z = Split<axis=0>(x, s) }",
    "last part of a split": "g (float[2] x) => (float[1] z) <int64[2] s={1,1}> { y, z = Split<axis=0>(x, s) }",
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_graphs(name: str, tools: Any) -> None:
    tools.trip(tools.parse(PLAIN[name]), {"x": X})


def test_numbers_as_names(tools: Any) -> None:
    model = tools.parse("g (float[2] a) => (float[2] c) { b = Relu(a) c = Exp(b) }")
    _rename(model, {"a": "0", "b": "1", "c": "2"})
    after = tools.trip(model, {"0": X}).after
    assert [n.output[0] for n in after.graph.node] == ["1", "2"]


def _rename(model: onnx.ModelProto, names: dict[str, str]) -> None:
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)
    for node in model.graph.node:
        node.input[:] = [names.get(n, n) for n in node.input]
        node.output[:] = [names.get(n, n) for n in node.output]


def test_unused_inputs_stay(tools: Any) -> None:
    model = tools.parse("g (float[2] u, float[2] x, int64 v) => (float[2] y) { y = Relu(x) }")
    tools.trip(model, {"x": X, "u": X, "v": np.int64(1)})


@pytest.mark.parametrize("opset", range(9, 29))
def test_every_opset(opset: int, tools: Any) -> None:
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip(f"the installed onnx knows opsets up to {onnx.defs.onnx_opset_version()}")
    ir = max(4, helper.find_min_ir_version_for([helper.make_opsetid("", opset)], ignore_unknown=True))
    model = tools.parse(
        "g (float[2,3] x) => (float[3,2] y, float[2,3] z) <float[3] w={1,-2,3}>"
        " { a = Add(x, w) b = Relu(a) y = Transpose<perm=[1,0]>(b) c = Sigmoid(a) z = Mul(b, c) }",
        ir=ir,
        opset=opset,
    )
    feeds = () if opset > 26 else ({"x": np.arange(6, dtype=np.float32).reshape(2, 3) - 2},)  # newer than ONNX Runtime
    assert tools.trip(model, *feeds).operators().count("Transpose") == 1


# --- initializers that are inputs


def test_an_initializer_stays_overridable(tools: Any) -> None:
    model = tools.parse("g (float[2] x, float[2] w) => (float[2] y) <float[2] w={1,2}> { y = Add(x,w) }")
    after = tools.trip(model, {"x": X}, {"x": X, "w": K}).after
    assert [v.name for v in after.graph.input] == ["x", "w"]
    assert [t.name for t in after.graph.initializer] == ["w"]


def test_an_overridable_initializer_is_an_output(tools: Any) -> None:
    text = "g (float[2] x, float[2] w) => (float[2] w, float[2] y) <float[2] w={1,2}> { y = Add(x,w) }"
    tools.trip(tools.parse(text), {"x": X}, {"x": X, "w": K})


def test_an_unused_overridable_initializer_stays(tools: Any) -> None:
    text = "g (float[2] x, float[2] w) => (float[2] y) <float[2] w={1,2}> { y = Relu(x) }"
    assert [t.name for t in tools.trip(tools.parse(text), {"x": X, "w": K}).after.graph.initializer] == ["w"]


@pytest.mark.parametrize("outputs", ["float[2] y", "float[2] w, float[2] y"])
def test_ir_3_weights_are_no_inputs_afterwards(outputs: str, tools: Any) -> None:
    text = f"g (float[2] x, float[2] w) => ({outputs}) <float[2] w={{1,2}}> {{ y = Add(x,w) }}"
    after = tools.trip(tools.parse(text, ir=3, opset=9), {"x": X}).after
    assert after.ir_version >= 4
    assert [v.name for v in after.graph.input] == ["x"]


# --- what a file says about itself


def test_metadata_and_documentation(tools: Any) -> None:
    model = tools.parse("g (float[2] x) => (float[2] y) { a = Relu(x) y = Exp(a) }")
    model.producer_name, model.producer_version, model.domain = "someone", "1.2", "org.example"
    model.model_version, model.doc_string, model.graph.doc_string = 7, "a\nmodel ü", "a graph"
    for key in ("license", "names"):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, f"{{'{key}': \"ü\"}}"
    model.graph.input[0].doc_string, model.graph.output[0].doc_string = "pixels", "scores"
    tools.trip(model, {"x": X})


def test_metadata_of_a_model_without_nodes(tools: Any) -> None:
    model = tools.parse("nothing_to_do (float[2] x) => (float[2] x) { }")
    model.graph.doc_string = "a graph"
    tools.trip(model, {"x": X})


def test_dimension_denotations_and_placeholders(tools: Any) -> None:
    model = tools.parse("g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "?"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "?"
    tools.trip(model, {"x": np.ones((3, 2), np.float32)})


def test_a_model_local_function_is_inlined(tools: Any) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]> g (float[2] x) => (float[2] y)'
        " { a = local.twice<k=2.0>(x) y = Relu(a) }"
        ' <opset_import: ["" : 17], domain: "local"> twice <k>(x) => (y)'
        " { c = Constant<value_float: float = @k>() y = Mul(x, c) }"
    )
    trip = tools.trip(model, {"x": X})
    assert trip.operators() == ["Mul", "Relu"]
    assert not trip.after.functions


def test_a_custom_domain_is_kept_bit_for_bit(tools: Any) -> None:
    odd = helper.make_node(
        "Odd",
        ["x", "", "w"],
        ["a", "", "b"],
        name="odd one",
        domain="org.example",
        doc_string="words",
        f=np.float32(0.1),
        i=-(2**63),
        s=b"\xff\x00bytes",
        fs=[1.0, float("inf")],
        t=numpy_helper.from_array(np.array([1, 2], np.int8), "inner"),
        strings=["a", "ü"],
    )
    odd.attribute.add(name="empty", type=onnx.AttributeProto.INTS)
    graph = helper.make_graph(
        [odd, helper.make_node("Relu", ["b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])],
        [numpy_helper.from_array(X, "w")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.example", 3)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    after = tools.trip(model, check=False).after
    onnx.checker.check_model(after)
    kept = after.graph.node[0]
    assert list(kept.input) == list(odd.input)
    assert [bool(n) for n in kept.output] == [True, False, True]
    got = {a.name: a.SerializeToString() for a in kept.attribute}
    assert got == {a.name: a.SerializeToString() for a in odd.attribute}
    assert (kept.name, kept.doc_string, kept.domain) == (odd.name, odd.doc_string, odd.domain)


def test_only_custom_operators(tools: Any) -> None:
    node = helper.make_node("Odd", ["x"], ["y"], domain="org.example")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("org.example", 1)])
    assert tools.trip(model, check=False).operators() == ["Odd"]


def test_ai_onnx_as_the_name_of_the_domain(tools: Any) -> None:
    model = tools.parse("g (float[2] x) => (float[2] y) { a = Relu(x) y = Exp(a) }")
    model.opset_import[0].domain = "ai.onnx"
    imported = import_model(onnx_ir.from_proto(model))
    assert not imported.opaque
    assert imported.opset == 17
    tools.trip(model, {"x": X})
    for node in model.graph.node:
        node.domain = "ai.onnx"  # which ONNX Runtime takes and the checker does not
    assert not import_model(onnx_ir.from_proto(model)).opaque
    tools.trip(model, {"x": X}, check=False)


# --- optional inputs and outputs


def test_an_optional_input_is_left_out(tools: Any) -> None:
    model = tools.parse("g (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s={1,1,2,2}> { y = Resize(x,,s) }")
    trip = tools.trip(model, {"x": np.ones((1, 1, 2, 2), np.float32)})
    assert list(trip.after.graph.node[0].input)[1] == ""


def test_clip_without_a_minimum(tools: Any) -> None:
    model = tools.parse("g (float[2] x) => (float[2] y) <float m={1}> { y = Clip(x,,m) }")
    tools.trip(model, {"x": X})


def test_an_optional_output_is_left_out(tools: Any) -> None:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=2)
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(size=(1, 8, n)).astype(np.float32), name) for name, n in (("w", 3), ("r", 2))
    ]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 1, 3])],
        [helper.make_tensor_value_info("h", TensorProto.FLOAT, [1, 1, 2])],
        weights,
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    trip = tools.trip(model, {"x": rng.normal(size=(4, 1, 3)).astype(np.float32)})
    assert trip.after.graph.node[0].output[0] == ""


def test_positions_of_maxima_are_kept(tools: Any) -> None:
    model = tools.parse(
        "g (float[1,1,4,4] x) => (float[1,1,2,2] y, int64[1,1,2,2] z)"
        " { y, z = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }"
    )
    tools.trip(model, {"x": np.random.default_rng(0).normal(size=(1, 1, 4, 4)).astype(np.float32)})


# --- dtypes and values

EXOTIC = {
    "bfloat16": (TensorProto.BFLOAT16, np.array([1.5, -0.0, np.nan], ml_dtypes.bfloat16), 17),
    "float16": (TensorProto.FLOAT16, np.array([1.5, -0.0, np.inf], np.float16), 17),
    "float64": (TensorProto.DOUBLE, np.array([1.5, -0.0, -np.inf], np.float64), 17),
    "int4": (TensorProto.INT4, np.array([-8, 7, 1], ml_dtypes.int4), 21),
    "uint4": (TensorProto.UINT4, np.array([15, 7, 1], ml_dtypes.uint4), 21),
    "float8": (TensorProto.FLOAT8E4M3FN, np.array([1.5, -2, 0], ml_dtypes.float8_e4m3fn), 21),
    "bool": (TensorProto.BOOL, np.array([True, False, True]), 17),
    "uint64": (TensorProto.UINT64, np.array([2**64 - 1, 0, 1], np.uint64), 17),
    "complex64": (TensorProto.COMPLEX64, np.array([1 + 2j, 0, -1j], np.complex64), 17),
    "string": (TensorProto.STRING, np.array([b"a", b"\xff\x00", "ü".encode()], object), 17),
}


@pytest.mark.parametrize("name", EXOTIC)
def test_constants_keep_every_bit(name: str, tools: Any) -> None:
    kind, array, opset = EXOTIC[name]
    if name == "string":
        tensor = TensorProto(name="c", data_type=kind, dims=array.shape, string_data=list(array))
    else:
        tensor = onnx_ir.to_proto(onnx_ir.Tensor(array, name="c"))
    graph = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["y"])], "g", [], [helper.make_tensor_value_info("y", kind, [3])], [tensor]
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])
    after = tools.trip(model).after
    (kept,) = after.graph.initializer
    assert kept.data_type == kind
    if name == "string":
        assert list(kept.string_data) == list(array)
    else:
        assert onnx_ir.from_proto(kept).tobytes() == onnx_ir.from_proto(tensor).tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "int64", "uint8", "bool"])
def test_models_of_other_dtypes(dtype: str, tools: Any) -> None:
    text = {
        "bool": "g (bool[2] x) => (bool[2] y) { y = Not(x) }",
        "uint8": "g (uint8[2] x) => (uint8[2] y) <uint8[2] c={250,3}> { y = Add(x, c) }",
    }.get(dtype, f"g ({_onnx(dtype)}[2] x) => ({_onnx(dtype)}[2] y) {{ a = Add(x, x) y = Abs(a) }}")
    tools.trip(tools.parse(text), {"x": np.array([1, 0]).astype(dtype)})


def _onnx(dtype: str) -> str:
    return {"float64": "double"}.get(dtype, dtype)


def test_strings_pass(tools: Any) -> None:
    text = 'g (string[2] x) => (string[2] y, bool[2] z) <string[2] c={"a","b"}> { y = Identity(x) z = Equal(x, c) }'
    model = tools.parse(text, opset=19, ir=9)
    tools.trip(model, {"x": np.array(["a", "ü"], object)})


def test_zero_size_and_scalar_tensors(tools: Any) -> None:
    model = tools.parse(
        "g (float[0,3] x, float s) => (float[0,3] y, float[0,3] z, float t)"
        " <float[0,3] c={}> { y = Add(x, c) z = Mul(y, s) t = Exp(s) }"
    )
    tools.trip(model, {"x": np.ones((0, 3), np.float32), "s": np.float32(2)})


def test_nan_infinite_and_negative_zero_weights(tools: Any) -> None:
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0], np.float32)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "a"], ["s"]), helper.make_node("Mul", ["s", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5])],
        [numpy_helper.from_array(odd, "a"), numpy_helper.from_array(odd[::-1].copy(), "b")],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    after = tools.trip(model, {"x": np.zeros(5, np.float32)}).after
    stored = {t.name: numpy_helper.to_array(t).tobytes() for t in after.graph.initializer}
    assert stored == {"a": odd.tobytes(), "b": odd[::-1].tobytes()}


def test_zeros_of_both_signs_are_two_constants(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] x) => (float[2] y, float[2] z) <float a={0}, float b={0}> { y = Add(x, a) z = Add(x, b) }"
    )
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.array(-0.0, np.float32), "b"))
    tools.trip(model, {"x": np.array([-0.0, 0.0], np.float32)})


def test_sparse_initializers(tools: Any) -> None:
    values = numpy_helper.from_array(np.array([3.0], np.float32), "w")
    places = numpy_helper.from_array(np.array([1], np.int64), "w_indices")
    sparse = helper.make_sparse_tensor(values, places, [2])
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        sparse_initializer=[sparse],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    with pytest.raises(InvalidModelError, match="sparse"):
        to_ir(model)


# --- what is not a tensor


def test_sequences_and_optionals_pass_through(tools: Any) -> None:
    model = tools.parse(
        "g (float[2] x) => (float[2] y) { r = Relu(x) s = SequenceConstruct(r, x) i = Constant<value_int=1>()"
        " e = SequenceAt(s, i) y = Exp(e) }"
    )
    assert tools.trip(model, {"x": X}).operators().count("SequenceConstruct") == 1


def test_a_sequence_is_an_output(tools: Any) -> None:
    model = tools.parse("g (float[2] x) => (seq(float[2]) s) { r = Relu(x) s = SequenceConstruct(r, x) }")
    tools.trip(model, {"x": X})


def test_a_cycle_is_refused() -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xb"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(InvalidModelError, match="'b' is used before"):
        import_model(onnx_ir.from_proto(model))


def test_import_names_no_tensor_of_the_caller(tools: Any) -> None:
    """Inference, which an opaque node asks for, likes to name the tensors of Constant nodes."""
    model = tools.parse(
        "g (float[2] x) => (float[2] y) { c = Constant<value = float[2] {1,2}>() a = Add(x, c)"
        " i = Constant<value = int64 {0}>() y = CumSum(a, i) }"
    )
    for node in model.graph.node:
        for attribute in node.attribute:
            attribute.t.ClearField("name")
    tools.trip(model, {"x": X})
