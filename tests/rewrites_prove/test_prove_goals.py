"""True goals are proved and false ones are not (``facts/verification.md``, section 1, with explicit sizes)."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites.prove import attempt, prove
from egraph_opt.rewrites.prove.canaries import goal
from egraph_opt.terms import Case, Equation
from egraph_opt.terms.sampling import Sampler

_QK = "Split(MatMul(x, Concat(v, w, axis=1)), axis=1, sizes=(size(v, 1), size(w, 1)))"
_QKV = "Split(MatMul(x, Concat(u, v, w, axis=1)), axis=1, sizes=(size(u, 1), size(v, 1), size(w, 1)))"
_FLAT = ("rank(x) == 2", "rank(v) == 2", "rank(w) == 2")
_CONV = "Split(Conv(x, Concat(v, w, axis=0), **c), axis=1, sizes=(size(v, 0), size(w, 0)))"
_KERNELS = "shape(v)[1:] == shape(w)[1:]"

TRUE = (
    goal("add-rotates", "Add(Add(x, y), z)", "Add(Add(y, z), x)"),
    goal("mul-rotates", "Mul(Mul(x, y), z)", "Mul(Mul(z, x), y)"),
    goal("distributes-left", "Mul(x, Add(y, z))", "Add(Mul(x, y), Mul(x, z))"),
    goal("square-of-sum", "Mul(Add(x, y), Add(x, y))", "Add(Add(Mul(x, x), Mul(x, y)), Add(Mul(y, x), Mul(y, y)))"),
    goal("zero-first", "Add(0, x)", "x", "shape(out) == shape(x)"),
    goal("one-first", "Mul(1, x)", "x", "shape(out) == shape(x)"),
    goal("sub-then-neg", "Neg(Sub(x, y))", "Sub(y, x)", "shape(x) == shape(y)"),
    goal("two-negations", "Mul(Neg(Neg(x)), y)", "Mul(x, y)"),
    goal("matmul-chain", "MatMul(MatMul(MatMul(x, y), z), w)", "MatMul(x, MatMul(y, MatMul(z, w)))", "rank(x) == 2",
         "rank(y) == 2", "rank(z) == 2", "rank(w) == 2"),
    goal("sum-of-products", "Add(MatMul(x, y), MatMul(x, z))", "MatMul(x, Add(z, y))", "shape(y) == shape(z)"),
    goal("products-of-sums", "MatMul(Add(x, y), z)", "Add(MatMul(y, z), MatMul(x, z))", "shape(x) == shape(y)"),
    goal("transpose-there-and-back", "Transpose(Transpose(x, perm=p), perm=q)", "x", "compose(p, q) == range(rank(x))"),
    goal("transposed-product-of-transposed", "Transpose(MatMul(Transpose(x, perm=(1, 0)), y), perm=(1, 0))",
         "MatMul(Transpose(y, perm=(1, 0)), x)", "rank(x) == 2", "rank(y) == 2"),
    goal("relu-past-two-transposes", "Relu(Transpose(Relu(x), perm=p))", "Transpose(Relu(Relu(x)), perm=p)"),
    goal("relu-twice-moved", "Relu(Transpose(Relu(x), perm=p))", "Transpose(Relu(x), perm=p)"),
    goal("sum-of-transposes", "Transpose(Add(Transpose(x, perm=p), Transpose(y, perm=p)), perm=q)",
         "Transpose(Add(x, y), perm=compose(p, q))", "rank(x) == rank(y)"),
    goal("relu-of-three", "Concat(Relu(x), Relu(y), Relu(z), axis=a)", "Relu(Concat(x, y, z, axis=a))"),
    goal("concat-regroups", "Concat(Concat(x, y, axis=a), Concat(z, w, axis=a), axis=a)",
         "Concat(x, Concat(Concat(y, z, axis=a), w, axis=a), axis=a)"),
    goal("concat-of-four", "Concat(x, y, z, w, axis=a)", "Concat(Concat(x, y, axis=a), Concat(z, w, axis=a), axis=a)"),
    goal("split-then-concat", "Relu(Concat(Get(Split(x, axis=a, sizes=s), index=0), Get(Split(x, axis=a, sizes=s),"
         " index=1), axis=a))", "Relu(x)", "length(s) == 2"),
    goal("second-of-relus", "Get(Split(Concat(Relu(x), Relu(y), axis=a), axis=a, sizes=s), index=1)", "Relu(y)",
         "s == (size(x, a), size(y, a))"),
    goal("reshape-thrice", "Reshape(Reshape(Reshape(x, shape=s), shape=t), shape=r)", "Reshape(x, shape=r)"),
    goal("reshape-back", "Reshape(Relu(Reshape(x, shape=s)), shape=t)", "Relu(x)", "t == shape(x)"),
    goal("merge-two", ("MatMul(x, v)", "MatMul(x, w)"), (f"Get({_QK}, index=0)", f"Get({_QK}, index=1)"), *_FLAT),
    goal("merge-three", ("MatMul(x, u)", "MatMul(x, v)", "MatMul(x, w)"), tuple(f"Get({_QKV}, index={i})"
         for i in range(3)), *_FLAT, "rank(u) == 2"),
    goal("merge-convs", ("Conv(x, v, **c)", "Conv(x, w, **c)"), (f"Get({_CONV}, index=0)", f"Get({_CONV}, index=1)"),
         "c_group == 1", _KERNELS),
    goal("conv-of-weight-sum", "Add(Conv(x, v, **c), Conv(x, w, **c))", "Conv(x, Add(w, v), **c)",
         "shape(v) == shape(w)"),
    goal("conv-of-input-sum", "Conv(Add(x, y), w, **c)", "Add(Conv(y, w, **c), Conv(x, w, **c))",
         "shape(x) == shape(y)"),
    goal("pool-of-three", "MaxPool(Concat(x, y, z, axis=1), **p)",
         "Concat(MaxPool(x, **p), MaxPool(y, **p), MaxPool(z, **p), axis=1)"),
    goal("relu-past-pool", "Relu(MaxPool(Relu(x), **p))", "MaxPool(Relu(Relu(x)), **p)", "p_ceil_mode == 0",
         "max(p_dilations) == 1", "max(p_pads) < min(p_kernel)"),
)  # fmt: skip
FALSE = (
    goal("merge-without-group", ("Conv(x, v, **c)", "Conv(x, w, **c)"), (f"Get({_CONV}, index=0)",
         f"Get({_CONV}, index=1)"), _KERNELS),
    goal("sum-without-shapes", "Add(MatMul(x, y), MatMul(x, z))", "MatMul(x, Add(y, z))"),
    goal("transpose-twice", "Transpose(Transpose(x, perm=p), perm=p)", "x"),
    goal("transposed-product", "Transpose(MatMul(x, y), perm=p)", "MatMul(Transpose(x, perm=p), Transpose(y, perm=p))",
         "swaps_last_two(p)", "rank(x) == 2", "rank(y) == 2"),
    goal("concat-turned", "Concat(x, y, axis=a)", "Concat(y, x, axis=a)"),
    goal("relu-wanders", "Add(x, Relu(y))", "Add(Relu(x), y)", "shape(x) == shape(y)"),
    goal("relu-of-sum", "Relu(Add(x, y))", "Add(Relu(x), Relu(y))"),
    goal("sub-turned", "Sub(x, y)", "Sub(y, x)"),
    goal("relu-drops", "Mul(Relu(x), x)", "Mul(x, x)"),
    goal("pool-drops", "MaxPool(Relu(x), **p)", "MaxPool(x, **p)"),
)  # fmt: skip


@cache
def axioms() -> tuple[Equation, ...]:
    """A part of the axioms that is enough for these goals, so that the failing ones fail soon."""
    families = ("elementwise", "products", "movement", "joining", "convolution", "pooling")
    words = "sub neg add mul relu transpose reshape concat split slice matmul conv maxpool"
    return tuple(a for a in all_axioms() if a.family in families and a.name.startswith(tuple(words.split())))


@pytest.mark.parametrize("equation", TRUE, ids=lambda e: e.name)
def test_true_goals_are_proved(equation: Equation) -> None:
    found = attempt(equation, axioms())
    assert found.proof is not None, found.reason
    assert found.core


@pytest.mark.parametrize("equation", FALSE, ids=lambda e: e.name)
def test_false_goals_are_not(equation: Equation) -> None:
    assert prove(equation, axioms()) is None


def test_a_law_that_fits_no_shapes_is_given_up_after_one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    law = goal("none", "Relu(x)", "Relu(x)", "rank(x) == 1", "rank(x) == 2")
    draw, asked = Sampler.draw, list[int]()

    def counted(sampler: Sampler, rng: np.random.Generator) -> Case | None:
        asked.append(1)
        return draw(sampler, rng)

    monkeypatch.setattr(Sampler, "draw", counted)
    assert "no shapes fit" in attempt(law, all_axioms()).reason
    assert len(asked) == 1
