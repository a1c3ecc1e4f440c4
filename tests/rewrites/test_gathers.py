"""Rules of operators with indices: cases with valid indices, gates that see those that nobody reads, and models."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import egraph_opt
from egraph_opt.ops import operator
from egraph_opt.rewrites import Rule, rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.terms import Case, check_equation
from egraph_opt.terms.gates import numeric
from egraph_opt.terms.program import OutOfRange, Program
from egraph_opt.terms.sampling import Sampler

GATHERS = {r.name: r for r in all_rules() if r.family == "gather"}
TWICE = "Gather(Gather(x, i, axis=a), j, axis=b)"
ELEMENTS = "GatherElements(GatherElements(x, i, axis=a), j, axis=a)"


def law(lhs: str, rhs: str, *when: str) -> Rule:
    return rule("law", lhs, rhs, *when, float_class="exact", dtypes="any")


# --- cases


def drawn(rule_: Rule, count: int = 60) -> list[Case]:
    sampler, rng = Sampler(rule_), np.random.default_rng(0)
    found = [sampler.draw(rng) for _ in range(count)]
    return [case for case in found if case is not None]


def test_limits_of_an_index_are_the_sizes_of_what_it_indexes() -> None:
    for case in drawn(GATHERS["gather-of-gather"]):
        x, i = case.tensors["x"].numbers(), case.tensors["i"].numbers()
        a, b = case.attributes["a"], case.attributes["b"]
        assert isinstance(a, int)
        assert isinstance(b, int)
        assert case.limits == {"i": (-x[a], x[a] - 1), "j": (-i[b - a], i[b - a] - 1)}


def test_an_index_that_is_read_twice_fits_both() -> None:
    both = law("Add(Gather(x, i, axis=0), Gather(y, i, axis=0))", "Gather(Add(x, y), i, axis=0)")
    found = drawn(both)
    assert any(case.tensors["x"].shape[0] != case.tensors["y"].shape[0] for case in found)
    for case in found:
        least = min(case.tensors[name].numbers()[0] for name in "xy")
        assert case.limits["i"] == (-least, least - 1)


@pytest.mark.parametrize(
    "index",
    [
        "Reshape(i, shape=s)",
        "Transpose(i, perm=p)",
        "Concat(i, j, axis=c)",
        "Slice(i, axes=c, starts=s, ends=e, steps=p)",
        "Gather(i, j, axis=c)",
        "GatherElements(i, j, axis=c)",
        "Get(Split(i, axis=c, sizes=s), index=g)",
        "Reshape(Concat(i, j, axis=c), shape=s)",
    ],
)
def test_an_index_that_is_moved_before_it_is_used_stays_valid(index: str) -> None:
    term = f"Gather(x, {index}, axis=a)"
    assert check_equation(law(term, term), cases=20).passed
    case = drawn(law(term, term), 1)[0]
    low, high = operator("Gather").limits((case.attributes["a"],), [case.tensors["x"]])[1] or (0, 0)
    assert case.limits["i"] == (low, high)
    assert case.tensors["i"].dtype in ("int32", "int64")


def test_what_is_drawn_varies() -> None:
    found = drawn(GATHERS["gather-of-gather"], 200)
    assert {case.tensors["i"].rank for case in found} >= {1, 2, 3}
    assert {case.tensors["j"].rank for case in found} >= {0, 1, 2, 3}
    dtypes = {(case.tensors["i"].dtype, case.tensors["j"].dtype) for case in found}
    assert dtypes == set(itertools.product(("int32", "int64"), repeat=2))
    assert {case.attributes["a"] for case in found} >= {0, 1, 2}
    assert any(case.attributes["a"] != case.attributes["b"] for case in found)


def test_an_index_outside_is_told_apart_by_the_side_that_reads_it() -> None:
    one_sided = law(
        "Gather(x, i, axis=0)", "Gather(Slice(x, axes=(0,), starts=(0,), ends=(1,), steps=(1,)), i, axis=0)"
    )
    case = next(c for c in drawn(one_sided) if c.tensors["x"].numbers()[0] > 2 and c.tensors["i"].rank)
    bound = Program(one_sided).bind(case)
    x = np.zeros(case.tensors["x"].numbers())
    for index, left in ((1, False), (99, True)):
        inputs = {"x": x, "i": np.full(case.tensors["i"].numbers(), index)}
        with pytest.raises(OutOfRange) as found:
            bound.run(inputs, numeric, np.float64)
        assert found.value.left == left


# --- gates

WRONG = {
    "the second axis is not among the first indices": law(TWICE, "Gather(x, Gather(i, j, axis=b - a), axis=a)"),
    "it may lie behind them": law(TWICE, "Gather(x, Gather(i, j, axis=b - a), axis=a)", "a <= b"),
    "the order of indices": law(
        "Gather(Gather(x, i, axis=a), j, axis=a)", "Gather(x, Gather(j, i, axis=0), axis=a)", "shape(i) == shape(j)"
    ),
    "the axis moves": law(TWICE, "Gather(Gather(x, j, axis=b), i, axis=a)", "b < a"),
    "other axes of elements": law(
        "GatherElements(GatherElements(x, i, axis=a), j, axis=b)",
        "GatherElements(x, GatherElements(i, j, axis=b), axis=a)",
    ),
    "indices from the end": law("Gather(Concat(x, y, axis=a), i, axis=a)", "Gather(x, i, axis=a)"),
    "indices that nobody reads": law(
        "Gather(x, Gather(i, j, axis=0), axis=a)", "Gather(Gather(x, i, axis=a), j, axis=a)", "rank(i) == 1"
    ),
    "elements that nobody reads": law("GatherElements(x, GatherElements(i, j, axis=a), axis=a)", ELEMENTS),
    "a slice of indices": law(
        "Gather(x, Slice(i, axes=s, starts=t, ends=e, steps=p), axis=0)",
        "Slice(Gather(x, i, axis=0), axes=s, starts=t, ends=e, steps=p)",
    ),
    "indices that are computed": law("Gather(x, Add(i, j), axis=a)", "Gather(x, Add(j, i), axis=a)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_of_indices_is_refused(name: str) -> None:
    verdict = check_equation(WRONG[name])
    assert not verdict.passed
    assert "x: float64[" in verdict.reason, verdict.reason


TRUE = {
    "indices in parts": law(
        "Gather(x, Concat(i, j, axis=0), axis=a)", "Concat(Gather(x, i, axis=a), Gather(x, j, axis=a), axis=a)"
    ),
    "indices of another shape": law(
        "Gather(x, Reshape(i, shape=s), axis=0)", "Reshape(Gather(x, i, axis=0), shape=s + shape(x)[1:])"
    ),
    "a function of what is gathered": law("Gather(Relu(x), i, axis=a)", "Relu(Gather(x, i, axis=a))"),
}


@pytest.mark.parametrize("name", TRUE)
def test_a_true_rule_of_indices_passes(name: str) -> None:
    verdict = check_equation(TRUE[name])
    assert verdict.passed, verdict.reason


# --- models


def indices(rng: np.random.Generator, shape: tuple[int, ...], size: int, dtype: str) -> NDArray[Any]:
    """Indices from either end; some repeat where there are more of them than places."""
    return rng.integers(-size, size, shape).astype(dtype)


def model_of(op: str, shape: tuple[int, ...], steps: list[tuple[int, NDArray[Any]]], opset: int) -> onnx.ModelProto:
    """x through one ``op`` after the other, each with constant indices."""
    nodes = [helper.make_node(op, [f"v{k}", f"i{k}"], [f"v{k + 1}"], axis=axis) for k, (axis, _) in enumerate(steps)]
    last = helper.make_tensor_value_info(f"v{len(steps)}", TensorProto.FLOAT, None)
    first = helper.make_tensor_value_info("v0", TensorProto.FLOAT, shape)
    constants = [numpy_helper.from_array(value, f"i{k}") for k, (_, value) in enumerate(steps)]
    graph = helper.make_graph(nodes, "g", [first], [last], constants)
    model = helper.make_model(graph, ir_version=6, opset_imports=[helper.make_opsetid("", opset)])
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    onnx.checker.check_model(model, full_check=True)
    return model


def optimized(model: onnx.ModelProto, shape: tuple[int, ...]) -> list[onnx.NodeProto]:
    """The nodes that are left, once ONNX Runtime says that they compute the same bits."""
    result = egraph_opt.optimize(model, target="analytic", extractor="dag-greedy", numerics="exact", measure=False)
    assert isinstance(result.model, onnx.ModelProto)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    before, after = (
        ort.InferenceSession(m.SerializeToString(), options, ["CPUExecutionProvider"]).run(None, {"v0": x})[0]
        for m in (model, result.model)
    )
    np.testing.assert_array_equal(before, after, strict=True)
    return list(result.model.graph.node)


@pytest.mark.parametrize("opset", [9, 11, 13, 22])
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_a_gather_of_a_gather_is_one(opset: int, rank: int) -> None:
    rng = np.random.default_rng([opset, rank])
    shape = (4, 3, 5)
    axis, first = int(rng.integers(3)), (opset + rank) % 3 + 1
    i = indices(rng, tuple(rng.integers(1, 5, first)), shape[axis], str(rng.choice(["int32", "int64"])))
    within = int(rng.integers(first))
    j = indices(rng, (2, 3, 2)[:rank], i.shape[within], str(rng.choice(["int32", "int64"])))
    model = model_of("Gather", shape, [(axis, i), (axis + within, j)], opset)
    assert len(optimized(model, shape)) == 1


def test_three_gathers_are_one() -> None:
    rng = np.random.default_rng(0)
    steps = [(1, indices(rng, (6,), 4, "int64")), (1, indices(rng, (5, 2), 6, "int32")), (2, np.array(-2))]
    assert len(optimized(model_of("Gather", (3, 4), steps, 13), (3, 4))) == 1


@pytest.mark.parametrize(("first", "second"), [((1, (1000,)), 0), ((0, (40, 9)), 2)])
def test_a_row_is_taken_first(first: tuple[int, tuple[int, ...]], second: int) -> None:
    """A gather along another axis goes ahead where less is left after it."""
    shape, row = (8, 50), np.array(3)
    axis, wide = first
    i = indices(np.random.default_rng(0), wide, shape[axis], "int64")
    nodes = optimized(model_of("Gather", shape, [(axis, i), (second, row)], 17), shape)
    assert [dict((a.name, a.i) for a in n.attribute)["axis"] for n in nodes] == [1 - axis, 0]


@pytest.mark.parametrize("opset", [11, 13, 22])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_elements_of_elements(opset: int, axis: int) -> None:
    rng = np.random.default_rng([opset, axis])
    shape = (4, 3, 5)
    first, second = [4, 2, 5], [3, 2, 4]
    first[axis], second[axis] = 7, 6
    steps = [(axis, indices(rng, tuple(first), shape[axis], "int64")), (axis, indices(rng, tuple(second), 7, "int32"))]
    assert len(optimized(model_of("GatherElements", shape, steps, opset), shape)) == 1


IN_A_BRANCH = """g (float[5,4] x, bool c) => (float[1,4] y) <int64[2] i = {1, 2}, int64[1] j = {7}> {
    y = If(c) <
        then_branch = t () => (float[1,4] u) { SAME u = Gather<axis=0>(a, b) },
        else_branch = e () => (float[1,4] v) { z = ReduceMean<axes=[0], keepdims=1>(x) r = Relu(z) v = Relu(r) }>
}"""


@pytest.mark.parametrize(
    "same", ["k = Relu(x) a = Gather<axis=0>(k, i) b = Identity(j)", "a = Relu(x) b = Gather<axis=0>(i, j)"]
)
def test_an_index_outside_in_a_branch_that_is_not_taken_stays_there(same: str) -> None:
    """There is no value to compute in advance."""
    text = '<ir_version: 8, opset_import: ["" : 17]> ' + IN_A_BRANCH.replace("SAME", same)
    model = onnx.parser.parse_model(text)
    result = egraph_opt.optimize(model, target="analytic", measure=False)
    assert result.changed, result.report.reason
    assert isinstance(result.model, onnx.ModelProto)
    feeds = {"x": np.arange(20, dtype=np.float32).reshape(5, 4), "c": np.array(False)}
    before, after = (
        ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for m in (model, result.model)
    )
    np.testing.assert_array_equal(before, after)


def test_a_model_that_reads_outside_is_not_worse_off() -> None:
    text = "g (float[5,4] x) => (float[1,4] y) <int64[2] i = {1, 2}, int64[1] j = {7}>"
    for body in (
        "a = Gather<axis=0>(i, j) y = Gather<axis=0>(x, a)",
        "a = Gather<axis=0>(x, i) y = Gather<axis=0>(a, j)",
    ):
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text} {{ {body} }}')
        result = egraph_opt.optimize(model, target="analytic", measure=False)
        assert not result.changed
