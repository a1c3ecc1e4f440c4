"""Shapes that depend on symbols are written beside the values: true at every size, and of use to ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from egraph_opt.runtime.session import open_session

STRIDED = """
    g (float[?, 3, H, W] x, float[16, 3, 3, 3] v, float[16, 16, 1, 1] w) => (float[?, 16, U, V] y) {
        a = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, v)
        b = MaxPool <kernel_shape = [2, 2], strides = [2, 1], ceil_mode = 1> (a)
        p = Conv (b, w)
        m = GlobalAveragePool (p)
        q = Sigmoid (m)
        r = Mul (p, q)
        s = Conv (r, w)
        y = Add (p, s)
    }
"""
ODD = """
    g (float[N, M] x, float[M] m) => (int64[K, L] y) {
        half = Constant <value = int64[1] {0}> ()
        end = Constant <value = int64[1] {-1}> ()
        axis = Constant <value = int64[1] {1}> ()
        step = Constant <value = int64[1] {2}> ()
        cut = Slice (x, half, end, axis, step)
        twice = Concat <axis = 1> (cut, x)
        wide = Add (x, m)
        flat = Flatten <axis = 0> (wide)
        found = NonZero (flat)
        found2 = NonZero (x)
        y = Add (found, found)
    }
"""


def _sizes(model: onnx.ModelProto) -> dict[str, list[str | int]]:
    dims = {v.name: v.type.tensor_type.shape.dim for v in model.graph.value_info}
    return {name: [d.dim_param or d.dim_value for d in found] for name, found in dims.items()}


def _ran(tools: Any, model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    names = [name for node in model.graph.node for name in node.output]
    seen = onnx.ModelProto()
    seen.CopyFrom(model)
    del seen.graph.output[:], seen.graph.value_info[:]
    seen.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return {name: array.shape for name, array in zip(names, tools.run(seen, feeds), strict=True)}


@pytest.mark.parametrize("sizes", [(1, 5, 7), (2, 8, 8), (3, 4, 9)])
def test_equal_text_is_equal_size(tools: Any, sizes: tuple[int, int, int]) -> None:
    batch, height, width = sizes
    rng = np.random.default_rng(0)
    x, v, w = (rng.random(s, np.float32) for s in ((batch, 3, height, width), (16, 3, 3, 3), (16, 16, 1, 1)))
    image, matrix = {"x": x, "v": v, "w": w}, {"x": x[0, 0], "m": x[0, 0, 0]}
    for text, feeds in ((STRIDED, image), (ODD, matrix)):
        model = tools.through(tools.parse(text))
        onnx.checker.check_model(model, full_check=True)
        said, found = _sizes(model), dict[str | int, int]()
        for name, shape in _ran(tools, model, feeds).items():
            for label, size in zip(said.get(name, shape), shape, strict=True):
                assert found.setdefault(label, size) == size if isinstance(label, str) else label == size
        assert len(found) >= 3, "formulas are written down"


def test_a_residual_behind_a_stride_is_added_inside_the_convolution(tools: Any, tmp_path: Path) -> None:
    model = tools.parse(STRIDED)
    rng, weights = np.random.default_rng(0), list(model.graph.input)[1:]
    for value in weights:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        array = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        model.graph.input.remove(value)

    def left(made: onnx.ModelProto) -> list[str]:
        open_session(made.SerializeToString(), save_optimized=tmp_path / "seen.onnx")
        return [node.op_type for node in onnx.load(tmp_path / "seen.onnx").graph.node]

    assert "Add" in left(model)
    assert "Add" not in left(tools.through(model))


def test_shapes_that_are_numbers_are_left_to_inference(tools: Any) -> None:
    text = STRIDED.replace("?, 3, H, W", "1, 3, 8, 8").replace("?, 16, U, V", "1, 16, 2, 3")
    assert not _sizes(tools.through(tools.parse(text)))
