"""Factors of channels repeated over their images: the same bits, and no change of layout where all is in blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from egraph_opt.onnx_io import export_model, import_model
from egraph_opt.runtime.session import open_session

GATED = """
    g (float[{batch}, 16, {height}, 6] x, float[16, 1, 3, 3] v, float[{inner}, 16, 1, 1] w, float[16, {inner}, 1, 1] u,
       float[8, 16, 1, 1] t) => (float[{batch}, 8, {height}, 6] y) {{
        a = Conv <group = 16, pads = [1, 1, 1, 1]> (x, v)
        b = Relu (a)
        m = GlobalAveragePool (b)
        p = Conv (m, w)
        q = Relu (p)
        r = Conv (q, u)
        s = {gate} (r)
        z = Mul ({order})
        y = Conv (z, t)
    }}
"""


def gated(
    tools: Any,
    *,
    batch: str = "N",
    height: str = "5",
    inner: int = 8,
    gate: str = "Sigmoid",
    order: str = "b, s",
    opset: int = 17,
) -> onnx.ModelProto:
    """An image with a gate for each channel, as in squeeze-and-excitation, between two convolutions."""
    rng = np.random.default_rng(0)
    text = GATED.format(batch=batch, height=height, inner=inner, gate=gate, order=order)
    model = tools.parse(text, opset=opset)
    for value in list(model.graph.input)[1:]:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        weight = rng.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, value.name))
        model.graph.input.remove(value)
    return model


def spread(model: onnx.ModelProto) -> onnx.ModelProto:
    imported = import_model(onnx_ir.from_proto(model))
    made = onnx_ir.to_proto(export_model(imported, imported.graph, spread=True))
    onnx.checker.check_model(made, full_check=True)
    return made


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def as_it_runs(model: onnx.ModelProto, folder: Path) -> list[str]:
    """The operators that ONNX Runtime makes of a model."""
    open_session(model.SerializeToString(), save_optimized=folder / "optimized.onnx")
    return operators(onnx.load(folder / "optimized.onnx"))


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 21])
@pytest.mark.parametrize("order", ["b, s", "s, b"])
def test_a_gate_is_spread_and_stays_in_blocks(tools: Any, tmp_path: Path, order: str, opset: int) -> None:
    model = gated(tools, order=order, opset=opset)
    made = spread(model)
    assert operators(made).count("Resize") == 1
    changes = {"ReorderInput", "ReorderOutput"}
    before, after = (sum(op in changes for op in as_it_runs(m, tmp_path)) for m in (model, made))
    if before:  # a machine whose convolutions have blocks: one change on the way in, one on the way out
        assert (before, after) == (5, 2)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("gate", ["Sigmoid", "Relu", "Tanh"])
def test_the_bits_are_the_same(tools: Any, batch: int, gate: str) -> None:
    model = gated(tools, gate=gate)
    x = np.random.default_rng(1).normal(size=(batch, 16, 5, 6)).astype(np.float32)
    x[0, :4, 0, 0] = [np.inf, -np.inf, np.nan, 1e38]
    (before,), (after,) = tools.run(model, {"x": x}), tools.run(spread(model), {"x": x})
    np.testing.assert_array_equal(before, after)
    open_after = open_session(spread(model).SerializeToString())
    finite = np.abs(x) < 10
    feeds = {"x": np.where(finite, x, 0).astype(np.float32)}
    optimized = np.asarray(open_after.run(None, feeds)[0])
    np.testing.assert_allclose(optimized, tools.run(model, feeds)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "other",
    [
        {"height": "H"},  # Resize wants a number
        {"inner": 10},  # 4 does not divide it: that convolution does not run in blocks
        {"gate": "Exp"},  # nor does that
        {"opset": 10},
    ],
    ids=str,
)
def test_what_would_leave_its_blocks_is_left_alone(tools: Any, other: dict[str, Any]) -> None:
    model = gated(tools, **other)
    assert operators(spread(model)) == operators(model)


def test_products_of_equal_shapes_are_left_alone(tools: Any) -> None:
    assert "Resize" not in operators(spread(gated(tools, order="b, b")))
