"""Every way in which a candidate can be wrong is caught, and what is equal passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir
import pytest

from egraph_opt.errors import UsageError
from egraph_opt.verification import Evidence, Verdict, verify

Parse = Callable[..., onnx_ir.Model]

MLP = """
g (float[N,4] x, bool[1] flag) => (float[N,3] y, int64[N] k)
<float[4,3] w = {1,2,3, 4,-5,6, 7,8,-9, 1,0,1}, float[3] b = {0.5,-1,2}, int64[1] one = {1}> {
  h = MatMul(x, w)
  s = Add(h, b)
  t = Relu(s)
  f = Where(flag, t, s)
  y = Softmax<axis = 1>(f)
  k = ArgMax<axis = 1, keepdims = 0>(f)
}
"""


def test_equal_models_pass_with_evidence(parse: Parse) -> None:
    commuted = MLP.replace("Add(h, b)", "Add(b, h)")
    verdict = verify(parse(MLP), parse(commuted))
    assert verdict.equivalent
    assert verdict.kind == "equivalent"
    assert {e.case for e in verdict.evidence} == {"normal", "unit", "small", "wide", "zeros"}
    assert {e.level for e in verdict.evidence} == {"none", "all", "float64"}
    assert {e.output for e in verdict.evidence} == {"y", "k"}
    assert len({e.sizes["N"] for e in verdict.evidence}) == 2
    assert all(e.agrees and e.error <= e.tolerance for e in verdict.evidence)
    assert verdict.worst in verdict.evidence
    assert len(verdict.checks) >= 4


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ("7,8,-9", "7,8,-8.9", "different", "off by"),
        ("ArgMax", "ArgMin", "different", "'k'"),
        ("Where(flag, t, s)", "Identity(t)", "different", "'y'"),
        ("Where(flag, t, s)", "Identity(s)", "different", "'y'"),
        ("axis = 1>(f)", "axis = 0>(f)", "different", "'y'"),
        ("float[N,4] x, bool[1] flag", "float[N,4] z, bool[1] flag", "invalid", "'x' is missing"),
        ("float[N,4] x, bool[1] flag", "bool[1] flag, float[N,4] x", "invalid", "another order"),
        ("float[N,4] x", "float[7,4] x", "invalid", "fixed to 7"),
        ("(float[N,3] y, int64[N] k)", "(int64[N] k, float[N,3] y)", "invalid", "another order"),
        ("(float[N,3] y, int64[N] k)", "(float[N,3] y)", "invalid", "'k' is missing"),
        ("float[N,3] y", "float[N,4] y", "invalid", ""),
        ("bool[1] flag)", "bool[1] flag, float[1] more)", "invalid", "'more' is new"),
        ("h = MatMul(x, w)", "h = MatMul(w, x)", "invalid", ""),
        ("Relu(s)", "NoSuchOperator(s)", "invalid", "checker"),
    ],
)
def test_broken_candidate_is_caught(parse: Parse, old: str, new: str, kind: str, words: str) -> None:
    assert old in MLP
    broken = MLP.replace(old, new).replace("MatMul(x, w)", "MatMul(z, w)" if " z," in new else "MatMul(x, w)")
    verdict = verify(parse(MLP), parse(broken))
    assert not verdict.equivalent
    assert verdict.kind == kind, verdict.reason
    assert words in verdict.reason


def test_swapped_outputs_are_caught(parse: Parse) -> None:
    pair = "g (float[4] x) => (float[4] a, float[4] b) { a = Relu(x) b = Neg(x) }"
    verdict = verify(parse(pair), parse(pair.replace("a = Relu(x) b = Neg(x)", "b = Relu(x) a = Neg(x)")))
    assert verdict.kind == "different"


def test_changed_dtype_is_caught(parse: Parse) -> None:
    plain = "g (float[4] x) => (float[4] y) { y = Relu(x) }"
    other = "g (float[4] x) => (double[4] y) { z = Relu(x) y = Cast<to = 11>(z) }"
    verdict = verify(parse(plain), parse(other))
    assert verdict.kind == "invalid"
    assert "y" in verdict.reason


def test_changed_shape_of_an_undeclared_axis_is_caught(parse: Parse) -> None:
    old = "g (float[N,2] x) => (float[M] y) <int64[1] s = {-1}> { y = Reshape(x, s) }"
    new = "g (float[N,2] x) => (float[M] y) <int64[1] s = {1}> { y = ReduceSum<keepdims = 0>(x, s) }"
    verdict = verify(parse(old), parse(new))
    assert verdict.kind == "different"
    assert "shape" in verdict.reason


def test_infinite_and_nan_places_must_agree(parse: Parse) -> None:
    log = "g (float[64] x) => (float[64] y) { y = Log(x) }"
    hidden = "g (float[64] x) => (float[64] y) { a = Abs(x) y = Log(a) }"
    masked = "g (float[64] x) => (float[64] y) <float z = {0}> { l = Log(x) n = IsNaN(l) y = Where(n, z, l) }"
    spread = "g (float[64] x) => (float[64] y) { l = Log(x) s = ReduceSum(l) d = Sub(s, s) y = Add(l, d) }"
    assert verify(parse(log), parse(log)).equivalent
    for wrong in (hidden, masked, spread):
        verdict = verify(parse(log), parse(wrong))
        assert verdict.kind == "different", wrong
        assert "NaN" in verdict.reason


def test_exact_wants_bits_and_feeds_nonfinite_numbers(parse: Parse) -> None:
    double = "g (float[64] x) => (float[64] y) <float a = {3}, float b = {7}> { u = Mul(x, a) y = Mul(u, b) }"
    merged = "g (float[64] x) => (float[64] y) <float c = {21}> { y = Mul(x, c) }"
    assert verify(parse(double), parse(merged)).equivalent
    exact = verify(parse(double), parse(merged), numerics="exact")
    assert exact.kind == "different"
    assert "bits" in exact.reason
    relu = "g (float[64] x) => (float[64] y) { y = Relu(x) }"
    twice = "g (float[64] x) => (float[64] y) { a = Relu(x) y = Relu(a) }"
    same = verify(parse(relu), parse(twice), numerics="exact")
    assert same.equivalent, same.reason
    assert "nonfinite" in {e.case for e in same.evidence}
    plus_zero = "g (float[64] x) => (float[64] y) <float z = {0}> { y = Add(x, z) }"  # turns -0 into 0
    nothing = "g (float[64] x) => (float[64] y) { y = Identity(x) }"
    assert verify(parse(plus_zero), parse(nothing)).equivalent
    assert verify(parse(plus_zero), parse(nothing), numerics="exact").kind == "different"


def test_overridable_initializers_stay_and_are_used(parse: Parse) -> None:
    original = parse("g (float[4] x, float[4] w) => (float[4] y) { y = Mul(x, w) }")
    default = original.graph.inputs[1]
    default.const_value = onnx_ir.tensor(np.array([1, 2, 3, 4], np.float32), name="w")
    original.graph.register_initializer(default)
    same = verify(original, original.clone())
    assert same.equivalent, same.reason
    assert "overridden" in {e.case for e in same.evidence}
    constant = parse("g (float[4] x) => (float[4] y) <float[4] w = {1,2,3,4}> { y = Mul(x, w) }")
    assert "overridable input 'w' is missing" in verify(original, constant).reason
    ignored = original.clone()
    node = ignored.graph.node(0)
    fixed = onnx_ir.Value(name="v", const_value=onnx_ir.tensor(np.array([1, 2, 3, 4], np.float32), name="v"))
    ignored.graph.register_initializer(fixed)
    node.replace_input_with(1, fixed)
    verdict = verify(original, ignored)
    assert verdict.kind == "different"
    assert "overridden" in verdict.reason
    old = original.clone()
    old.ir_version = 3  # then the initializer is a constant, and the file is written without the input
    assert verify(old, constant).equivalent


def test_random_model_is_compared_by_shape_only(parse: Parse) -> None:
    noise = "g (float[4] x) => (float[4] y) { r = RandomNormalLike(x) y = Add(x, r) }"
    verdict = verify(parse(noise), parse(noise))
    assert verdict.equivalent
    assert any("random" in note for note in verdict.notes)
    longer = noise.replace("float[4] y", "float[A] y").replace(
        "y = Add(x, r)", "z = Add(x, r) y = Concat<axis = 0>(z, z)"
    )
    assert verify(parse(noise), parse(longer)).kind in ("invalid", "different")


def test_inputs_on_which_the_original_fails_are_skipped(parse: Parse) -> None:
    table = "g (int64[3] i) => (float[3] y) <float[4] t = {1,2,3,4}> { y = Gather(t, i) }"
    verdict = verify(parse(table), parse(table))
    assert verdict.equivalent
    wrong = verify(parse(table), parse(table.replace("1,2,3,4", "1,9,3,4")))
    assert wrong.kind == "different"
    none = "g (int64[3] i) => (float[3] y) <float[4] t = {1,2,3,4}, int64 k = {9}> { j = Add(i, k) y = Gather(t, j) }"
    unverified = verify(parse(none), parse(none))
    assert unverified.kind == "unverified"
    assert not unverified.equivalent
    assert "could not be verified" in unverified.reason
    assert unverified.notes
    user = verify(parse(none), parse(none), feeds={"i": np.array([-9, -8, -7])})
    assert user.equivalent
    assert {e.case for e in user.evidence} == {"user"}


def test_numbers_that_choose_a_branch_are_tried(parse: Parse) -> None:
    old = """g (int64 n, float[8] x) => (float[8] y) <int64[1] one = {1}, int64 zero = {0}, int64 a = {16000}> {
      r = Reshape(n, one) m = Gather(r, zero) c = Equal(m, a) e = Exp(x) y = Where(c, e, x)
    }"""
    verdict = verify(parse(old), parse(old))
    assert verdict.equivalent
    assert "branch" in {e.case for e in verdict.evidence}
    broken = verify(parse(old), parse(old.replace("Exp(x)", "Neg(x)")))
    assert broken.kind == "different"
    assert "branch" in broken.reason


def test_user_feeds_can_reveal_a_difference(parse: Parse) -> None:
    old = "g (int64 n) => (int64 y) <int64 a = {15999}> { c = Greater(n, a) y = Cast<to = 7>(c) }"
    new = "g (int64 n) => (int64 y) <int64 a = {0}> { y = Mul(n, a) }"
    assert verify(parse(old), parse(new)).equivalent  # random numbers do not find it
    found = verify(parse(old), parse(new), feeds=[{"n": np.array(3)}, {"n": np.array(16000)}])
    assert found.kind == "different"
    assert "user" in found.reason


def test_unknown_numerics_is_a_usage_error(parse: Parse) -> None:
    with pytest.raises(UsageError, match="standard"):
        verify(parse(MLP), parse(MLP), numerics="loose")  # type: ignore[arg-type]


def test_small_floats_and_half_precision(parse: Parse) -> None:
    for kind, code in (("float16", 10), ("bfloat16", 16)):
        text = f"g ({kind}[8] x) => ({kind}[8] y) {{ f = Cast<to = 1>(x) r = Sigmoid(f) y = Cast<to = {code}>(r) }}"
        same = verify(parse(text), parse(text))
        assert same.equivalent, same.reason
        assert verify(parse(text), parse(text.replace("Sigmoid", "Tanh"))).kind == "different"


def test_output_that_ignores_the_input_is_noted(parse: Parse) -> None:
    flat = "g (float[4] x) => (float[4] y) <float z = {0}> { m = Mul(x, z) y = Softmax<axis = 0>(m) }"
    assert any("hardly depends" in note for note in verify(parse(flat), parse(flat)).notes)


def test_time_limit_still_compares_one_input(parse: Parse) -> None:
    verdict = verify(parse(MLP), parse(MLP), time_limit=0.0)
    assert verdict.equivalent
    assert len(verdict.evidence) == 6  # two outputs at two levels, and in float64
    assert any("time limit" in note for note in verdict.notes)


def test_arguments_are_not_changed(parse: Parse) -> None:
    old, new = parse(MLP), parse(MLP)
    before = onnx_ir.to_proto(old).SerializeToString(deterministic=True)
    verify(old, new)
    assert onnx_ir.to_proto(old).SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("faulty", "error", "rounding"),
    [
        (("all",), 0.1, True),  # ONNX Runtime's own optimizations did it
        (("none", "all"), 0.1, True),  # the sum is rounded otherwise; in float64 it is the same
        (("none", "all", "float64"), 0.1, False),
        (("float64",), 0.1, False),
        (("all",), np.inf, False),  # another shape or type
        (("all",), 0.001, False),  # within the tolerance, and yet a fault: a NaN
    ],
)
def test_rounding_is_told_from_wrong_results(faulty: tuple[str, ...], error: float, rounding: bool) -> None:
    rows = [
        Evidence("y", "normal", {}, level, error if level in faulty else 0.0, 0.01, "off" if level in faulty else "")  # type: ignore[arg-type]
        for level in ("none", "all", "float64")
    ]
    assert Verdict("different", "", tuple(rows)).is_rounding == rounding
    assert not Verdict("equivalent", "", tuple(rows)).is_rounding
