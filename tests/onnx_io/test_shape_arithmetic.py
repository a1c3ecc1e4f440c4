"""Shape arithmetic is worked out for every size: random chains against ONNX Runtime, sizes 0 and 1 included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from egraph_opt.ir import evaluate
from egraph_opt.onnx_io import import_model
from egraph_opt.ops import size_values

SIZES = [(2, 3), (5, 2), (1, 4), (4, 1), (0, 3), (3, 0), (1, 1), (0, 0)]
F32, I64 = TensorProto.FLOAT, TensorProto.INT64


class Chain:
    """ONNX nodes that compute small int64 vectors from the shape of ``x``."""

    def __init__(self, opset: int) -> None:
        self.opset, self.nodes, self.stored = opset, list[onnx.NodeProto](), list[onnx.TensorProto]()

    def const(self, value: Any, dtype: Any = np.int64) -> str:
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def unsqueezed(self, scalar: str) -> str:
        if self.opset < 13:
            return self.op("Unsqueeze", scalar, axes=[0])
        return self.op("Unsqueeze", scalar, self.const([0]))

    def squeezed(self, vector: str) -> str:
        if self.opset < 13:
            return self.op("Squeeze", vector, axes=[0])
        return self.op("Squeeze", vector, self.const([-1]))

    def cut(self, vector: str, start: int, end: int) -> str:
        if self.opset < 10:
            return self.op("Slice", vector, starts=[start], ends=[end], axes=[0])
        return self.op("Slice", vector, self.const([start]), self.const([end]), self.const([0]))

    def model(self, shape: list[int | str], outputs: Sequence[tuple[str, int, int]]) -> onnx.ModelProto:
        """``outputs``: name, element type, rank."""
        values = [helper.make_tensor_value_info(n, t, [None] * rank) for n, t, rank in outputs]
        inputs = [helper.make_tensor_value_info("x", F32, shape)]
        graph = helper.make_graph(self.nodes, "g", inputs, values, self.stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def scalar_from_shape(chain: Chain, rng: np.random.Generator, rank: int) -> str:
    """A size of ``x`` as a scalar, read in one of the ways of exporters."""
    whole = chain.op("Shape", "x")
    axis = int(rng.integers(-rank, rank))
    match rng.integers(4):
        case 0:
            found = chain.op("Gather", whole, chain.const(axis if chain.opset >= 11 else axis % rank), axis=0)
        case 1:
            indices = chain.const([axis % rank], np.int32)
            found = chain.squeezed(chain.op("Gather", whole, indices))
        case 2:
            start = axis % rank
            found = chain.squeezed(chain.cut(whole, start, start + 1))
        case _:
            part = chain.op("Cast", whole, to=TensorProto.INT32)
            picked = chain.op("Gather", part, chain.const(axis % rank), axis=0)
            found = chain.op("Cast", picked, to=I64)
    return found


def random_scalar(chain: Chain, rng: np.random.Generator, rank: int, depth: int) -> str:
    if depth == 0:
        return scalar_from_shape(chain, rng, rank) if rng.random() < 0.7 else chain.const(int(rng.integers(0, 5)))
    left = random_scalar(chain, rng, rank, depth - 1)
    kind = str(rng.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Neg", "Abs", "Where"]))
    if kind in ("Neg", "Abs"):
        return chain.op(kind, left)
    if kind == "Div":
        return chain.op("Div", left, chain.const(int(rng.integers(1, 4))))
    right = random_scalar(chain, rng, rank, int(rng.integers(depth)))
    if kind in ("Max", "Min") and chain.opset < 12:
        kind = "Add"
    if kind == "Where":
        asked = chain.op(str(rng.choice(["Equal", "Less", "Greater"])), left, right)
        return chain.op("Where", asked, left, right)
    return chain.op(kind, left, right)


@pytest.mark.parametrize("opset", [9, 11, 13, 17])
def test_what_is_known_of_sizes_is_true_for_all_of_them(tools: Any, opset: int) -> None:
    rng = np.random.default_rng(opset)
    decided = 0
    for _ in range(60):
        chain = Chain(opset)
        parts = [chain.unsqueezed(random_scalar(chain, rng, 3, int(rng.integers(3)))) for _ in range(3)]
        joined = chain.op("Concat", *parts, axis=0)
        result = chain.op("Gather", joined, chain.const(rng.integers(0, 3, 4)), axis=0)
        model = chain.model(["N", "M", 4], [(result, I64, 1)])
        graph = import_model(onnx_ir.from_proto(model)).graph
        known = size_values(graph, graph.outputs[0])
        if known is None:
            continue
        decided += 1
        for n, m in SIZES:
            (real,) = tools.run(model, {"x": np.zeros((n, m, 4), np.float32)})
            assert [evaluate(size, {"N": n, "M": m}) for size in known] == real.tolist()
    assert decided > 20


def view(*target: Any) -> Callable[[Chain], str]:
    """A Reshape whose target joins numbers and functions of the sizes."""

    def build(chain: Chain) -> str:
        whole = chain.op("Shape", "x")
        parts = [chain.const([t]) if isinstance(t, int) else chain.unsqueezed(t(chain, whole)) for t in target]
        return chain.op("Reshape", "x", chain.op("Concat", *parts, axis=0))

    return build


def dim(axis: int) -> Callable[[Chain, str], str]:
    return lambda chain, whole: chain.op("Gather", whole, chain.const(axis), axis=0)


def times(*axes: int, by: int = 1) -> Callable[[Chain, str], str]:
    def build(chain: Chain, whole: str) -> str:
        found = chain.const(by)
        for axis in axes:
            found = chain.op("Mul", found, dim(axis)(chain, whole))
        return found

    return build


VIEWS = {
    "flatten": (["N", 3, 4], view(dim(0), 12), True),
    "flatten, the size inferred": (["N", 3, 4], view(dim(0), -1), True),
    "batch inferred": (["N", 3, 4], view(-1, 12), True),
    "two symbolic sizes stay": (["N", "M", 8], view(dim(0), dim(1), 2, 4), True),
    "merged batch": (["N", "M", 8], view(times(0, 1), 8), True),
    "merged after a copy": (["N", 3, "M"], view(dim(0), times(2, by=3)), None),
    "grown": (["N", 3, 4], view(times(0, by=12)), True),
    "the other axis": ([2, "N"], view(dim(1), 2), None),
    "swapped with an inferred size": ([2, "N"], view(dim(1), -1), False),
    "a copy of another axis": (["N", "M", 4], view(dim(1), dim(0), 4), False),
    "a middle size moves": ([2, "N", 3], view(2, times(1, by=3)), True),
    "zero copies": (["N", 3, 4], view(0, 12), True),
    "halved": (["N", 4], view(times(0, by=2), 2), True),
}
"""Shape of x, the reshape, and whether its target must be worked out (None: either will do)."""
RANKS = {"two symbolic sizes stay": 4, "a copy of another axis": 3, "grown": 1}


@pytest.mark.parametrize("opset", [9, 13, 17])
@pytest.mark.parametrize("name", VIEWS)
def test_reshape_to_a_computed_shape(tools: Any, name: str, opset: int) -> None:
    """Where the model runs, the rewritten one gives the same, also at size 0."""
    shape, build, folded = VIEWS[name]
    chain = Chain(opset)
    model = chain.model(shape, [(build(chain), F32, RANKS.get(name, 2))])
    after = tools.through(model)
    onnx.checker.check_model(after, full_check=True)
    left = {node.op_type for node in after.graph.node} & {"Shape", "Gather", "Concat", "Mul"}
    assert folded is None or bool(left) != folded
    ran = 0
    for n, m in SIZES:
        concrete = [size if isinstance(size, int) else {"N": n, "M": m}[size] for size in shape]
        x = np.arange(int(np.prod(concrete)), dtype=np.float32).reshape(concrete)
        try:
            (expected,) = tools.run(model, {"x": x})
        except Exception:  # noqa: BLE001 - ONNX Runtime refuses the reshape at this size
            continue
        (got,) = tools.run(after, {"x": x})
        assert got.shape == expected.shape
        np.testing.assert_array_equal(got, expected)
        ran += 1
    assert ran >= 4


def test_values_of_inputs_are_never_taken_for_sizes(tools: Any) -> None:
    chain = Chain(13)
    target = chain.op("Concat", chain.op("Shape", "x"), "t", axis=0)
    model = chain.model([2, 3], [(chain.op("Reshape", "x", target), F32, 3)])
    model.graph.input.append(helper.make_tensor_value_info("t", I64, [1]))
    trip = tools.trip(model, {"x": np.ones((2, 3), np.float32), "t": np.array([1])}, check=False)
    assert "Reshape" in trip.operators()
    assert "Concat" in trip.operators()


def test_expand_tile_range_fill_and_slice_of_known_sizes(tools: Any) -> None:
    chain = Chain(13)
    whole = chain.op("Shape", "x")
    last = chain.op("Gather", whole, chain.const(-1), axis=0)
    first = chain.op("Gather", whole, chain.const([0]), axis=0)
    grown = chain.op("Expand", "x", chain.op("Concat", first, chain.const([3]), axis=0))
    tiled = chain.op("Tile", "x", chain.op("Concat", chain.unsqueezed(last), chain.const([2]), axis=0))
    ramp = chain.op("Range", chain.const(0), chain.op("Add", last, chain.const(3)), last)
    full = chain.op("ConstantOfShape", chain.op("Concat", chain.unsqueezed(last), chain.const([2]), axis=0))
    cut = chain.op("Slice", "x", chain.op("Sub", chain.unsqueezed(last), chain.const([1])), chain.const([2**62]))
    outputs = [(grown, F32, 2), (tiled, F32, 2), (ramp, I64, 1), (full, F32, 2), (cut, F32, 2)]
    model = chain.model(["N", 1], outputs)
    trip = tools.trip(model, *({"x": np.ones((n, 1), np.float32)} for n in (0, 1, 4)), check=False)
    assert not {"Shape", "Gather", "Concat", "Sub", "Range"} & set(trip.operators())
