"""What is in the e-graph: the graph itself, what rules add, merges, constants; and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from egraph_opt.ir import symbol
from egraph_opt.rewrites import rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.saturation import fold_constants, rebuild, saturate

RNG = np.random.default_rng(0)


def _named(*names: str) -> tuple[Any, ...]:
    found = tuple(r for r in all_rules() if r.name in names or r.family in names)
    assert found
    return found


def _mixed(tools: Any) -> Any:
    draft = tools.draft()
    x, z = draft.input("x", 2, 3), draft.input("z", symbol("N"))
    w = draft.constant(RNG.normal(size=(3, 4)))
    a = draft.op("MatMul", x, w)
    b = draft.op("Relu", draft.op("Add", a, draft.constant(RNG.normal(size=4))))
    parts = draft.op("Split", b, axis=1, sizes=(1, 3))
    first = draft.graph.add("Get", (0,), (parts,), draft.graph.types[parts].items[0])
    second = draft.graph.add("Get", (1,), (parts,), draft.graph.types[parts].items[1])
    return draft.done(draft.op("Mul", first, second), draft.op("Exp", z), b, x)


def test_the_original_comes_back(tools: Any) -> None:
    graph = _mixed(tools)
    frozen = saturate(graph, all_rules()).frozen
    back = rebuild(frozen, frozen.selection_of_original())
    feeds = {"x": RNG.normal(size=(2, 3)).astype(np.float32), "z": np.ones(3, np.float32)}
    assert tools.operators(back) == tools.operators(graph)
    assert [n.attrs for n in back.nodes if n.op == "Input"] == [("x",), ("z",)]
    tools.same(tools.values(back, feeds), tools.values(graph, feeds), 0)
    assert len(frozen.original_enodes()) == len(graph.live())


def test_the_original_is_told_from_what_rules_made_of_it(tools: Any) -> None:
    draft = tools.draft()
    graph = draft.done(draft.op("Relu", draft.op("Relu", draft.input("x", 2))))
    frozen = saturate(graph, _named("relu-idempotent")).frozen
    kinds = [frozen.enodes[i].op for i in frozen.original_enodes()]
    assert sorted(kinds) == ["Input", "Relu", "Relu"]
    assert tools.operators(tools.cheapest(frozen, {})) == ["Relu"]


def test_without_rules_nothing_is_added(tools: Any) -> None:
    graph = _mixed(tools)
    frozen = saturate(graph, ()).frozen
    assert len(frozen.enodes) == len(graph.live())
    assert not frozen.is_new.any()


def test_unused_inputs_come_back(tools: Any) -> None:
    draft = tools.draft()
    unused, x = draft.input("unused", 3), draft.input("x", 2)
    graph = draft.done(draft.op("Relu", x))
    frozen = saturate(graph, all_rules()).frozen
    back = rebuild(frozen, frozen.selection_of_original())
    assert {n.attrs for n in back.nodes if n.op == "Input"} == {("unused",), ("x",)}
    assert unused == 0


# --- types


def test_sides_of_different_shapes_never_unite(tools: Any) -> None:
    """The rule is wrong where y is the larger one; there the claim must not come true."""
    wrong = rule("first-of-sum", "Add(x, y)", "x")
    draft = tools.draft()
    small, large = draft.input("small", 1, 3), draft.input("large", 2, 3)
    graph = draft.done(draft.op("Add", small, large), draft.op("Add", large, small))
    frozen = saturate(graph, (wrong,)).frozen
    first, second = (int(c) for c in frozen.egraph.roots)
    assert first != frozen.original[small]
    assert second == frozen.original[large]  # same shape: as wrong as the rule, but of one type


def test_symbolic_sizes_do_not_unite_with_numbers(tools: Any) -> None:
    wrong = rule("first-of-sum", "Add(x, y)", "x")
    draft = tools.draft()
    one, many = draft.input("one", 1), draft.input("many", symbol("N"))
    frozen = saturate(draft.done(draft.op("Add", one, many)), (wrong,)).frozen
    assert int(frozen.egraph.roots[0]) != frozen.original[one]
    assert many == 1


def test_other_dtypes_never_unite(tools: Any) -> None:
    wrong = rule("cast-away", "Cast(x, to=t)", "x", dtypes="any")
    draft = tools.draft()
    x = draft.input("x", 2)
    frozen = saturate(draft.done(draft.op("Cast", x, to="float64")), (wrong,)).frozen
    assert int(frozen.egraph.roots[0]) != frozen.original[x]


def test_zero_and_negative_zero_are_two_constants(tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 2)
    graph = draft.done(
        draft.op("Mul", x, draft.constant(np.zeros(2))), draft.op("Mul", x, draft.constant(np.full(2, -0.0)))
    )
    frozen = saturate(graph, all_rules()).frozen
    assert frozen.egraph.roots[0] != frozen.egraph.roots[1]


# --- constants


def test_weights_fold(tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 2, 3)
    product = draft.op("MatMul", x, draft.constant(RNG.normal(size=(3, 4))))
    graph = draft.done(draft.op("Mul", product, draft.constant(RNG.normal(size=4))))
    frozen = saturate(graph, all_rules()).frozen
    best = tools.cheapest(frozen, {})
    assert tools.operators(best) == ["MatMul"]
    feeds = {"x": RNG.normal(size=(2, 3)).astype(np.float32)}
    tools.same(tools.values(best, feeds), tools.values(graph, feeds))


@pytest.mark.parametrize(
    ("a", "b", "folds"), [(1.0, 2.0, True), (1.0, -0.5, True), (1000.0, -1000.001, False), (1.0, -1.0, False)]
)
def test_sums_that_cancel_are_not_folded(a: float, b: float, folds: bool, tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 2)
    graph = draft.done(draft.op("Add", draft.op("Add", x, draft.constant([a, a])), draft.constant([b, b])))
    for guard in (True, False):
        frozen = saturate(graph, _named("add-constants", "add-commutes"), guard_cancellation=guard).frozen
        count = len(tools.operators(tools.cheapest(frozen, {})))
        assert count == (1 if folds or not guard else 2)


def test_cancellation_in_the_model_itself_is_folded(tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 2)
    zero = draft.op("Sub", draft.constant([1e4, 1e4]), draft.constant([1e4, 1e4]))
    frozen = saturate(draft.done(draft.op("Add", x, zero)), ()).frozen
    assert tools.operators(rebuild(frozen, frozen.selection_of_original())) == ["Add"]


def test_folding_uses_the_dtype_of_the_model(tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 1, dtype="float16")
    a, b = (draft.constant([v], "float16") for v in (2049.0, 1.0))
    graph = draft.done(draft.op("Add", x, draft.op("Add", a, b)))
    new = fold_constants(graph)
    (folded,) = (new.value(i) for i in new.live() if new.nodes[i].op == "Const")
    assert folded is not None
    assert folded.dtype == np.float16
    assert folded.item() == float(np.float16(2049) + np.float16(1)) != 2050


def test_a_large_expansion_is_not_stored(tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 1000, 1000)
    big = draft.op("Expand", draft.constant(RNG.normal(size=(1000, 1))), shape=(1000, 1000))
    graph = draft.done(draft.op("Mul", x, draft.op("Exp", big)))
    frozen = saturate(fold_constants(graph), all_rules()).frozen
    back = rebuild(frozen, frozen.selection_of_original())
    stored = sum(int(str(c.type.bytes)) for c in back.constants)
    assert stored < 100_000
    assert "Expand" in tools.operators(back)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_constants_that_are_no_numbers(value: float, tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 2)
    c = draft.constant([value, value])
    graph = draft.done(draft.op("Add", draft.op("Mul", x, c), c))
    frozen = saturate(graph, all_rules()).frozen
    back = rebuild(frozen, frozen.selection_of_original())
    feeds = {"x": np.array([1, 2], np.float32)}
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(tools.values(back, feeds)[0], tools.values(graph, feeds)[0])


# --- merges

MERGED = {"MatMul": 10.0, "Conv": 10.0}


def _check_merge(graph: Any, feeds: dict[str, Any], op: str, before: int, after: int, tools: Any) -> None:
    frozen = saturate(graph, _named("merge")).frozen
    best = tools.cheapest(frozen, MERGED)
    assert tools.operators(graph).count(op) == before
    assert tools.operators(best).count(op) == after
    assert ("Split" in tools.operators(best)) == (after < before)
    tools.same(tools.values(best, feeds), tools.values(graph, feeds))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_products_that_share_an_operand_merge(count: int, tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 2, 5, 3)
    products = [draft.op("MatMul", x, draft.constant(RNG.normal(size=(3, n + 1)))) for n in range(count)]
    _check_merge(draft.done(*products), {"x": RNG.normal(size=(2, 5, 3)).astype(np.float32)}, "MatMul", count, 1, tools)


def _conv(draft: Any, x: int, w: Any, b: Any = None, group: int = 1, pad: int = 1) -> int:
    operands = [x, draft.constant(w)] + ([draft.constant(b)] if b is not None else [])
    return draft.op("Conv", *operands, strides=(1, 1), pads=(pad,) * 4, dilations=(1, 1), group=group)


@pytest.mark.parametrize("bias", [False, True])
def test_convolutions_merge(bias: bool, tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 1, 4, 5, 5)
    convs = [_conv(draft, x, RNG.normal(size=(n, 4, 3, 3)), RNG.normal(size=n) if bias else None) for n in (2, 3, 4)]
    _check_merge(draft.done(*convs), {"x": RNG.normal(size=(1, 4, 5, 5)).astype(np.float32)}, "Conv", 3, 1, tools)


@pytest.mark.parametrize("flipped", [False, True])
def test_products_with_a_bias_merge(flipped: bool, tools: Any) -> None:
    draft = tools.draft()
    x = draft.input("x", 5, 3)
    weights = [RNG.normal(size=(n, 3) if flipped else (3, n)) for n in (2, 4, 1)]
    biases = [RNG.normal(size=n) for n in (2, 4, 1)]
    gemms = [
        draft.op("Gemm", x, draft.constant(w), draft.constant(b), transA=0, transB=int(flipped), alpha=1.0, beta=1.0)
        for w, b in zip(weights, biases, strict=True)
    ]
    _check_merge(draft.done(*gemms), {"x": RNG.normal(size=(5, 3)).astype(np.float32)}, "Gemm", 3, 1, tools)


JOINED = {"MatMul": "merge-matmuls-of-rows", "Conv": "merge-convs-of-batches", "Relu": "merge-relus"}


def _of_inputs(op: str, draft: Any, inputs: list[int]) -> list[int]:
    weight = draft.constant(RNG.normal(size=(4, 4, 1, 1) if op == "Conv" else (4, 4)))
    attrs: dict[str, Any] = {}
    if op == "Conv":
        attrs = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "group": 1}
    return [draft.op(op, x, *([] if op == "Relu" else [weight]), **attrs) for x in inputs]


@pytest.mark.parametrize("op", JOINED)
def test_inputs_are_joined_where_one_does_not_depend_on_the_other(op: str, tools: Any) -> None:
    rules = tuple(r for r in all_rules("thorough") if r.name == JOINED[op])
    assert (rules[0] in all_rules()) == (op == "MatMul")  # what joins large inputs is for thorough runs
    shape = (4, 5, 5) if op == "Conv" else (4,)
    draft = tools.draft()
    inputs = [draft.input("x", 2, *shape), draft.input("z", 3, *shape)]
    side_by_side = draft.done(*_of_inputs(op, draft, inputs))
    best = tools.cheapest(saturate(side_by_side, rules).frozen, {op: 10.0})
    assert tools.operators(best).count(op) == 1
    feeds = {n: RNG.normal(size=(m, *shape)).astype(np.float32) for n, m in (("x", 2), ("z", 3))}
    tools.same(tools.values(best, feeds), tools.values(side_by_side, feeds))
    draft = tools.draft()
    (first,) = _of_inputs(op, draft, [draft.input("x", 2, *shape)])
    (second,) = _of_inputs(op, draft, [draft.op("Neg", first)])
    chain = draft.done(second)
    assert not saturate(chain, rules).frozen.is_new.any()


NEVER = ["groups", "padding", "kernel", "not constant", "another input", "bias on one", "dtype"]


@pytest.mark.parametrize("why", NEVER)
def test_what_does_not_merge(why: str, tools: Any) -> None:
    draft = tools.draft()
    x, z = draft.input("x", 1, 4, 5, 5), draft.input("z", 1, 4, 5, 5)
    w = [RNG.normal(size=(4, 4, 3, 3)) for _ in range(2)]
    match why:
        case "groups":
            pair = [_conv(draft, x, v[:, :2], group=2) for v in w]
        case "padding":
            pair = [_conv(draft, x, w[0], pad=1), _conv(draft, x, w[1], pad=2)]
        case "kernel":
            pair = [_conv(draft, x, w[0]), _conv(draft, x, w[1][:, :, :1, :1], pad=0)]
        case "another input":
            pair = [_conv(draft, x, w[0]), _conv(draft, z, w[1])]
        case "bias on one":
            pair = [_conv(draft, x, w[0]), _conv(draft, x, w[1], RNG.normal(size=4))]
        case "dtype":
            wide = draft.op("Cast", x, to="float64")
            v = draft.constant(w[1], "float64")
            other = draft.op("Conv", wide, v, strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), group=1)
            pair = [_conv(draft, x, w[0]), other]
        case _:
            v = draft.input("v", 4, 4, 3, 3)
            other = draft.op("Conv", x, v, strides=(1, 1), pads=(1,) * 4, dilations=(1, 1), group=1)
            pair = [_conv(draft, x, w[0]), other]
    feeds = {n: RNG.normal(size=(1, 4, 5, 5)).astype(np.float32) for n in "xz"}
    feeds["v"] = RNG.normal(size=(4, 4, 3, 3)).astype(np.float32)
    _check_merge(draft.done(*pair), feeds, "Conv", 2, 2, tools)


def test_a_product_of_itself_does_not_merge_with_its_own_result(tools: Any) -> None:
    """x, y = x @ a, y @ b: they share no operand, and a merge would be a cycle."""
    draft = tools.draft()
    x = draft.input("x", 3, 3)
    y = draft.op("MatMul", x, draft.constant(RNG.normal(size=(3, 3))))
    graph = draft.done(draft.op("MatMul", y, draft.constant(RNG.normal(size=(3, 3)))))
    _check_merge(graph, {"x": RNG.normal(size=(3, 3)).astype(np.float32)}, "MatMul", 2, 2, tools)


# --- whole nets


def test_every_extracted_graph_computes_the_same(tools: Any) -> None:
    """Random costs pull all kinds of graphs out of one e-graph; each computes what the original does."""
    draft = tools.draft()
    x = draft.input("x", 1, 4, 6, 6)
    c = _conv(draft, x, RNG.normal(size=(4, 4, 3, 3)), RNG.normal(size=4))
    s = draft.op("Mul", c, draft.constant(RNG.normal(size=(4, 1, 1))))
    t = draft.op("Add", s, draft.constant(RNG.normal(size=(1, 4, 1, 1))))
    six = draft.op("Clip", draft.op("Add", t, draft.constant(3.0)), min=0.0, max=6.0)
    swish = draft.op("Div", draft.op("Mul", t, six), draft.constant(6.0))
    back = draft.op("Transpose", draft.op("Relu", draft.op("Transpose", swish, perm=(0, 2, 3, 1))), perm=(0, 3, 1, 2))
    graph = draft.done(back, draft.op("Mul", back, draft.constant(1.0)))
    frozen = saturate(fold_constants(graph), all_rules()).frozen
    feeds = {"x": RNG.normal(size=(1, 4, 6, 6)).astype(np.float32)}
    wanted = tools.values(graph, feeds)
    kinds: set[tuple[str, ...]] = set()
    names = sorted({e.op for e in frozen.enodes} - {"Input", "Const", "Get"})
    for seed in range(25):
        rng = np.random.default_rng(seed)
        best = tools.cheapest(frozen, {n: float(rng.exponential()) for n in names})
        tools.same(tools.values(best, feeds), wanted, 1e-4)
        kinds.add(tuple(sorted(tools.operators(best))))
    assert len(kinds) > 2
    assert any("HardSwish" in kind for kind in kinds)
