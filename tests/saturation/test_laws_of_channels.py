"""Scales, offsets and channels around convolutions: each law alone, on every rank, group and special value, in ONNX
Runtime too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir
import pytest

from egraph_opt.extraction import extract
from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.onnx_io import export_graph
from egraph_opt.onnx_io.exporter import needed_opset
from egraph_opt.rewrites.library import all_rules
from egraph_opt.runtime.session import open_session
from egraph_opt.saturation import rebuild, saturate

RNG = np.random.default_rng(7)
SPECIAL = [1.5, -0.5, 0.0, 1e-30, np.inf, -np.inf, np.nan]


def rewritten(tools: Any, graph: TensorGraph, family: str, costs: Mapping[str, float]) -> TensorGraph:
    """The cheapest graph under these costs that the rules of one family lead to."""
    rules = tuple(r for r in all_rules() if family in (r.name, r.family) or r.family == "commutative")
    frozen = saturate(graph, rules).frozen
    return tools.cheapest(frozen, costs)


def same_in_onnx_runtime(
    tools: Any, before: TensorGraph, after: TensorGraph, x: np.ndarray, tolerance: float = 1e-5
) -> None:
    """Equal by the operators' own semantics, and as ONNX Runtime computes both, optimized and not."""
    kind = before.types[before.outputs[0]]
    assert isinstance(kind, TensorType)
    wanted = tools.values(before, {"x": x})
    tools.same(wanted, tools.values(after, {"x": x}), tolerance)
    if x.dtype != np.float32:
        return
    for graph in (before, after):
        made = export_graph(graph, [("x", TensorType("float32", x.shape))], ["y"], opset=17)
        for optimize in (True, False):
            session = open_session(onnx_ir.to_proto(made).SerializeToString(), optimize=optimize)
            tools.same(wanted, session.run(None, {"x": x}), tolerance)


# --- one factor and one term for an image, as a convolution of each channel by itself


def affine(tools: Any, shape: tuple[int, ...], scale: Any, offset: Any, dtype: str = "float32") -> TensorGraph:
    g = tools.draft()
    x = g.input("x", *shape, dtype=dtype)
    return g.done(g.op("Add", g.op("Mul", x, g.constant(scale, dtype)), g.constant(offset, dtype)))


@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 4, 3, 2), (2, 2, 3, 2, 2)])
@pytest.mark.parametrize("form", [(), (1,), (1, 1, 1)])
def test_numbers_become_a_depthwise_convolution(tools: Any, shape: tuple[int, ...], form: tuple[int, ...]) -> None:
    before = affine(tools, shape, np.full(form, 0.75), np.full(form, -2.0))
    after = rewritten(tools, before, "affine-depthwise", {"Conv": 0.5})
    assert tools.operators(after) == ["Conv"]
    same_in_onnx_runtime(tools, before, after, RNG.normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("scale", [0.0, -0.0, -3.0, 1e30])
@pytest.mark.parametrize("offset", [0.0, -1.0, 1e30])
def test_special_values_meet_the_same_fate(tools: Any, scale: float, offset: float) -> None:
    x = np.array(SPECIAL * 2, np.float32).reshape(1, 2, 7)
    before = affine(tools, x.shape, scale, offset)
    after = rewritten(tools, before, "affine-depthwise", {"Conv": 0.5})
    assert tools.operators(after) == ["Conv"]
    with np.errstate(all="ignore"):
        same_in_onnx_runtime(tools, before, after, x)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floats(tools: Any, dtype: str) -> None:
    before = affine(tools, (1, 3, 4), 0.5, 2.0, dtype)
    after = rewritten(tools, before, "affine-depthwise", {"Conv": 0.5})
    assert tools.operators(after) == ["Conv"]
    same_in_onnx_runtime(tools, before, after, RNG.normal(size=(1, 3, 4)).astype(dtype), 1e-3)


@pytest.mark.parametrize(
    ("shape", "scale", "offset"),
    [
        ((2, 3), 0.5, 1.0),  # no image
        ((1, 1, 4), 0.5, 1.0),  # one channel: the scale of a whole convolution
        ((1, 3, 4), np.ones((3, 1)), 1.0),  # channels of their own: as batch normalization
        ((1, 3, 4), 0.5, np.ones((1, 1, 1, 1))),  # the result has another rank
    ],
)
def test_what_is_no_number_for_an_image_stays(tools: Any, shape: tuple[int, ...], scale: Any, offset: Any) -> None:
    before = affine(tools, shape, scale, offset)
    assert "Conv" not in tools.operators(rewritten(tools, before, "affine-depthwise", {"Conv": 0.5}))


# --- scales and offsets behind a transposed convolution


def transposed(
    tools: Any, op: str, value: np.ndarray, group: int, bias: bool, spatial: int, **other: Any
) -> TensorGraph:
    g = tools.draft()
    weight = g.constant(RNG.normal(size=(4, 3, *(2,) * spatial)))
    operands = [g.input("x", 2, 4, *(3,) * spatial), weight]
    if bias:
        operands.append(g.constant(RNG.normal(size=3 * group)))
    attrs = {
        "strides": (2,) * spatial,
        "pads": (0,) * 2 * spatial,
        "dilations": (1,) * spatial,
        "output_padding": (0,) * spatial,
        "group": group,
    }
    return g.done(g.op(op, g.op("ConvTranspose", *operands, **(attrs | other)), g.constant(value)))


@pytest.mark.parametrize("op", ["Mul", "Add"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("spatial", [1, 2])
@pytest.mark.parametrize("scalar", [False, True])
def test_go_into_its_weights(tools: Any, op: str, bias: bool, group: int, spatial: int, scalar: bool) -> None:
    value = np.array(-0.5) if scalar else RNG.normal(size=(3 * group, *(1,) * spatial))
    before = transposed(tools, op, value, group, bias, spatial)
    after = rewritten(tools, before, "affine", {})
    assert tools.operators(after) == ["ConvTranspose"]
    same_in_onnx_runtime(tools, before, after, RNG.normal(size=(2, 4, *(3,) * spatial)).astype(np.float32))


@pytest.mark.parametrize("other", [{"strides": (3,)}, {"dilations": (2,)}, {"output_padding": (1,)}])
def test_a_scale_stays_where_no_input_reaches_every_place(tools: Any, other: dict[str, Any]) -> None:
    before = transposed(tools, "Mul", np.array(2.0), 1, False, 1, **other)
    assert "Mul" in tools.operators(rewritten(tools, before, "affine", {}))


def test_what_varies_along_the_image_stays(tools: Any) -> None:
    before = transposed(tools, "Mul", RNG.normal(size=(6,)), 1, False, 1)
    assert "Mul" in tools.operators(rewritten(tools, before, "affine", {}))


# --- a value and its gate


@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (3, 1, 1), (1,), (1, 1, 1, 5)])
def test_a_gated_value_is_added_to_itself_by_the_gate(tools: Any, shape: tuple[int, ...]) -> None:
    g = tools.draft()
    x = g.input("x", 2, 3, 4, 5)
    gate = g.op("Sigmoid", g.constant(RNG.normal(size=shape)))
    before = g.done(g.op("Add", x, g.op("Mul", x, gate)))
    after = rewritten(tools, before, "gate-plus-one", {"Mul": 0.1, "Add": 0.5})
    mixed = [n for i in after.live() if (n := after.nodes[i]).op == "Add"]
    assert all(after.types[o] != after.types[after.outputs[0]] for n in mixed for o in n.operands)
    same_in_onnx_runtime(tools, before, after, RNG.normal(size=(2, 3, 4, 5)).astype(np.float32))


# --- filters of zeros, up to whole blocks

WHOLE = tuple(r for r in all_rules() if r.family == "whole-blocks")


def pair(tools: Any, filters: int, group: int = 1, pads: int = 0) -> TensorGraph:
    g = tools.draft()
    plain = {"strides": (1, 1), "dilations": (1, 1), "group": 1}
    inner = [g.constant(RNG.normal(size=(filters, 4 // group, 1, 1))), g.constant(RNG.normal(size=filters))]
    made = g.op("Relu", g.op("Conv", g.input("x", 1, 4, 3, 3), *inner, **(plain | {"group": group}), pads=(0,) * 4))
    kernel = 1 + 2 * pads
    outer = [g.constant(RNG.normal(size=(5, filters, kernel, kernel))), g.constant(RNG.normal(size=5))]
    return g.done(g.op("Conv", made, *outer, **plain, pads=(pads,) * 4))


@pytest.mark.parametrize(("filters", "whole"), [(2, 8), (6, 8), (10, 16), (22, 24), (3, 8)])
@pytest.mark.parametrize("pads", [0, 1])
def test_channels_become_whole_blocks(tools: Any, filters: int, whole: int, pads: int) -> None:
    before = pair(tools, filters, pads=pads)
    frozen = saturate(before, WHOLE).frozen
    shapes = [t.shape if isinstance(t, TensorType) else () for t in frozen.class_types]
    narrow = [e.op == "Conv" and filters in shapes[e.operands[1]][:2] for e in frozen.enodes]
    prices = np.where(narrow, 9.0, [float(e.op not in ("Input", "Const")) for e in frozen.enodes])
    after = rebuild(frozen, extract(frozen.egraph, prices, extractor="ilp").selection)
    convolved = [after.types[i] for i in after.live() if after.nodes[i].op == "Conv"]
    assert [t.shape[1] for t in convolved if isinstance(t, TensorType)] == [whole, 5]
    same_in_onnx_runtime(tools, before, after, RNG.normal(size=(1, 4, 3, 3)).astype(np.float32))


@pytest.mark.parametrize(("filters", "group"), [(8, 1), (12, 1), (16, 1), (10, 2)])
def test_whole_blocks_and_groups_stay(tools: Any, filters: int, group: int) -> None:
    before = pair(tools, filters, group)
    assert not saturate(before, WHOLE).frozen.is_new.any()


# --- an activation that is written as two nodes


@pytest.mark.parametrize("bias", [False, True])
def test_hard_swish_runs_inside_a_convolution_and_needs_no_newer_opset(tools: Any, bias: bool) -> None:
    g = tools.draft()
    operands = [g.input("x", 1, 8, 4, 4), g.constant(RNG.normal(size=(8, 8, 3, 3)))]
    operands += [g.constant(RNG.normal(size=8))] if bias else []
    y = g.op("Conv", *operands, strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), group=1)
    before = g.done(g.op("HardSwish", y))
    after = rewritten(tools, before, "fused-conv", {})
    assert tools.operators(after) == ["FusedConv"]
    assert needed_opset(after, 11) == 11
    same_in_onnx_runtime(tools, before, after, RNG.normal(size=(1, 8, 4, 4)).astype(np.float32), 1e-4)
