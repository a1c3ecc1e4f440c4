"""A size without which the model cannot run is that size; one that only a branch or a dead node wants is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from egraph_opt.ir import TensorType, symbol
from egraph_opt.onnx_io import import_model
from egraph_opt.onnx_io.forced import solve

F32 = TensorProto.FLOAT
N, M = symbol("N"), symbol("M")


def recurrent(kind: str, layout: int, state: list[Any]) -> Any:
    """A model of one recurrent node whose initial state has this shape."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    rng = np.random.default_rng(0)
    stored = [
        numpy_helper.from_array(rng.normal(size=(1, gates * 4, n)).astype(np.float32), name)
        for name, n in (("w", 3), ("r", 4))
    ]
    inputs = ["x", "w", "r", "", "", "h"] + (["h"] if kind == "LSTM" else [])
    attributes: dict[str, Any] = {"layout": layout} if layout else {}
    nodes = [
        helper.make_node(kind, inputs, ["a", "b"], hidden_size=4, **attributes),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    x = ["N", 5, 3] if layout else [5, "N", 3]
    values = [helper.make_tensor_value_info("x", F32, x), helper.make_tensor_value_info("h", F32, state)]
    graph = helper.make_graph(nodes, "g", values, [helper.make_tensor_value_info("y", F32, [None] * 3)], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_the_batch_of_a_recurrent_node_is_that_of_its_state(tools: Any, kind: str) -> None:
    model = recurrent(kind, 0, [1, 1, 4])
    found = import_model(onnx_ir.from_proto(model))
    assert found.input_types["x"] == TensorType("float32", (5, 1, 3))
    assert found.graph.types[found.graph.outputs[0]] == TensorType("float32", (1, 1, 4))
    x = np.ones((5, 1, 3), np.float32)
    after = tools.trip(model, {"x": x, "h": np.ones((1, 1, 4), np.float32)}).after
    assert after.graph.input[0].type.tensor_type.shape.dim[1].dim_param == "N"


def test_layout_1_has_the_batch_in_front() -> None:
    found = import_model(onnx_ir.from_proto(recurrent("GRU", 1, [2, 1, 4])))
    assert found.input_types["x"] == TensorType("float32", (2, 5, 3))


def test_a_free_batch_stays_free() -> None:
    found = import_model(onnx_ir.from_proto(recurrent("GRU", 0, [1, "N", 4])))
    assert found.input_types["x"] == TensorType("float32", (5, N, 3))


CONCAT = "p = Concat<axis=1>(x, z)"


@pytest.mark.parametrize(
    ("text", "forced"),
    [
        (f"g (float[N,2] x, float[M,3] z) => (float[?,5] y) {{ {CONCAT} y = Relu(p) }}", True),
        (f"g (float[N,2] x, float[M,3] z) => (float[?,2] y) {{ {CONCAT} y = Relu(x) }}", False),
        (
            "g (float[N,2] x, float[M,3] z, bool c) => (float[?,?] y) { y = If(c) <then_branch = t () =>"
            f" (float[?,?] q) {{ {CONCAT} q = Relu(p) }}, else_branch = e () => (float[?,?] u) {{ u = Relu(x) }}> }}",
            False,
        ),
    ],
)
def test_what_a_node_wants_counts_if_the_node_must_run(tools: Any, text: str, forced: bool) -> None:
    found = import_model(onnx_ir.from_proto(tools.parse(text)))
    x, z = found.input_types["x"], found.input_types["z"]
    assert isinstance(x, TensorType)
    assert isinstance(z, TensorType)
    assert (x.shape[0] == z.shape[0]) == forced


def test_solve() -> None:
    assert solve([(N, 4)], {}) == {"N": 4}
    assert solve([(3, N), (N, M)], {}) == {"N": 3, "M": 3}
    assert solve([(N, M * 2)], {}) == {"N": M * 2}
    assert solve([(N, M), (M, 5)], {}) == {"N": 5, "M": 5}
    assert solve([(N, N + 1), (N * 2, M * 2), (3, 4)], {}) == {}
    assert solve([(N, M)], {"N": 2, "M": 2}) == {}
