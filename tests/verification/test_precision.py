"""Tolerances follow the coarsest float that an output was computed in, not the one that it is written in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir
import pytest

from egraph_opt.verification import verify
from egraph_opt.verification.precision import computed_in

Parse = Callable[..., onnx_ir.Model]

COMPUTED = {
    "float32 arithmetic, cast": (
        "g (float[N] x) => (double[N] y) { a = Exp(x) y = Cast<to=11>(a) }",
        {"float32", "float64"},
    ),
    "a float16 weight that is cast": (
        "g (float[N] x) => (float[N] y) <float16 w = {3}> { a = Cast<to=1>(w) y = Mul(x, a) }",
        {"float32"},
    ),
    "an input that is cast": ("g (float16[N] x) => (float[N] y) { a = Cast<to=1>(x) y = Exp(a) }", {"float32"}),
    "rounded on the way": (
        "g (float[N] x) => (float[N] y) { a = Cast<to=10>(x) b = Cast<to=1>(a) y = Exp(b) }",
        {"float16", "float32"},
    ),
    "in a branch": (
        "g (float[N] x, bool c) => (double[N] y) { y = If(c) <then_branch = t () => (double[N] p)"
        " { q = Exp(x) p = Cast<to=11>(q) }, else_branch = e () => (double[N] r) { r = Cast<to=11>(x) }> }",
        {"float32", "float64"},
    ),
    "no float": ("g (float[N] x) => (int64[1] y) { y = Shape(x) }", {"float32"}),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_what_an_output_is_computed_in(name: str, parse: Parse) -> None:
    text, wanted = COMPUTED[name]
    found = computed_in(parse(text))["y"]
    assert found <= wanted
    assert found == wanted or name == "no float"


SUM = "g (float[4] x) => (KIND[4] y) <float[4] a = {0.1, 0.2, 0.3, 0.7}, float[4] b = {3.3, 1.7, -2.3, 0.9}> { BODY }"
LEFT, RIGHT = "s = Add(x, a) t = Add(s, b)", "s = Add(a, b) t = Add(x, s)"


def test_float32_sums_in_a_float64_output_may_be_rounded(parse: Parse) -> None:
    text = SUM.replace("KIND", "double")
    one, other = (parse(text.replace("BODY", f"{b} y = Cast<to=11>(t)")) for b in (LEFT, RIGHT))
    verdict = verify(one, other)
    assert verdict.equivalent, verdict.reason


@pytest.mark.parametrize("off", [1e-6, 1e-8])
def test_float64_all_the_way_is_held_to_float64(parse: Parse, off: float) -> None:
    text = "g (double[4] x) => (double[4] y) <double k = {K}> { t = Exp(x) y = Mul(t, k) }"
    one, other = (parse(text.replace("K", repr(float(np.float64(1) + d)))) for d in (0, off))
    assert verify(one, other).kind == "different"
