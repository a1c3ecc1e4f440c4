"""Random nests of If, Loop and Scan: whatever they capture, from however far outside, the model computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
SHAPE = [2, 3]


class Nest:
    """Writes graphs of values of one shape; names are unique, or are taken again in the other branch."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.count = rng, 0

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def pick(self, values: list[str]) -> str:
        return values[int(self.rng.integers(len(values)))]

    def nodes(self, values: list[str], depth: int) -> tuple[list[onnx.NodeProto], list[str]]:
        """A few nodes over ``values``; returns them, and ``values`` with the new ones."""
        made: list[onnx.NodeProto] = []
        for _ in range(int(self.rng.integers(1, 4))):
            kind = int(self.rng.integers(7)) if depth else int(self.rng.integers(4))
            result = self.name()
            if kind < 2:
                made.append(helper.make_node(["Relu", "Abs"][kind], [self.pick(values)], [result]))
            elif kind < 4:
                operands = [self.pick(values), self.pick(values)]
                made.append(helper.make_node(["Add", "Sub"][kind - 2], operands, [result]))
            else:
                made.append([self.branches, self.loop, self.scan][kind - 4](values, depth - 1, result))
            values = [*values, result]
        return made, values

    def body(
        self, values: list[str], depth: int, inputs: list[Any], before: list[Any], outputs: int
    ) -> onnx.GraphProto:
        """A body with ``outputs`` results of the shape, after those that ``before`` names."""
        made, found = self.nodes(values, depth)
        stored: list[onnx.TensorProto] = []
        if self.rng.random() < 0.5:
            stored.append(numpy_helper.from_array(np.full(SHAPE, 0.5, np.float32), self.name("w")))
            made.append(helper.make_node("Mul", [found[-1], stored[0].name], [self.name()]))
            found = [*found, made[-1].output[0]]
        results = [self.name("r") for _ in range(outputs)]
        made += [helper.make_node("Identity", [self.pick(found[-3:])], [r]) for r in results]
        declared = [*before, *(helper.make_tensor_value_info(r, F32, SHAPE) for r in results)]
        return helper.make_graph(made, self.name("g"), inputs, declared, stored)

    def branches(self, values: list[str], depth: int, result: str) -> onnx.NodeProto:
        start = self.count
        one = self.body(values, depth, [], [], 1)
        if self.rng.random() < 0.5:
            self.count = start  # the other branch has values of the same names
        other = self.body(values, depth, [], [], 1)
        self.count += 1000
        condition = self.pick(["c", "t"])
        return helper.make_node("If", [condition], [result], then_branch=one, else_branch=other)

    def loop(self, values: list[str], depth: int, result: str) -> onnx.NodeProto:
        number, going, state, on = (self.name(s) for s in ("i", "k", "s", "on"))
        inputs = [
            helper.make_tensor_value_info(number, I64, []),
            helper.make_tensor_value_info(going, BOOL, []),
            helper.make_tensor_value_info(state, F32, SHAPE),
        ]
        body = self.body([*values, state], depth, inputs, [helper.make_tensor_value_info(on, BOOL, [])], 1)
        body.node.append(helper.make_node("Identity", [going], [on]))
        return helper.make_node("Loop", ["n", "", self.pick(values)], [result], body=body)

    def scan(self, values: list[str], depth: int, result: str) -> onnx.NodeProto:
        state, row = self.name("s"), self.name("x")
        inputs = [helper.make_tensor_value_info(state, F32, SHAPE), helper.make_tensor_value_info(row, F32, SHAPE)]
        body = self.body([*values, state, row], depth, inputs, [], 1)
        return helper.make_node("Scan", [self.pick(values), "rows"], [result], body=body, num_scan_inputs=1)


def model(seed: int, opset: int) -> onnx.ModelProto:
    nest = Nest(np.random.default_rng([seed, opset]))
    made, values = nest.nodes(["x", "w"], 2)
    while not {"If", "Loop", "Scan"} & {node.op_type for node in made}:
        made, values = nest.nodes(["x", "w"], 2)
    made.append(helper.make_node("Add", [values[-1], nest.pick(values)], ["y"]))
    inputs = [
        helper.make_tensor_value_info("x", F32, SHAPE),
        helper.make_tensor_value_info("rows", F32, [4, *SHAPE]),
        helper.make_tensor_value_info("c", BOOL, []),
        helper.make_tensor_value_info("n", I64, []),
    ]
    stored = [
        numpy_helper.from_array(np.linspace(-1, 1, 6, dtype=np.float32).reshape(SHAPE), "w"),
        numpy_helper.from_array(np.array(bool(seed % 2)), "t"),
    ]
    graph = helper.make_graph(made, "g", inputs, [helper.make_tensor_value_info("y", F32, SHAPE)], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [11, 13, 16])
@pytest.mark.parametrize("seed", range(16))
def test_a_nest_computes_the_same(tools: Any, seed: int, opset: int) -> None:
    rng = np.random.default_rng(seed)
    x, rows = rng.normal(size=SHAPE).astype(np.float32), rng.normal(size=(4, *SHAPE)).astype(np.float32)
    feeds = [{"x": x, "rows": rows, "c": c, "n": np.int64(n)} for c in (True, False) for n in (0, 1, 3)]
    tools.trip(model(seed, opset), *feeds)
