"""An infinity that becomes a NaN, or changes its sign, is another result."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir
import pytest

from egraph_opt.verification import Numerics, verify

KINDS = {"inf": "1, 0", "-inf": "-1, 0", "nan": "0, 0"}


@pytest.mark.parametrize("numerics", ["standard", "fast"])
@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("old", KINDS)
def test_kinds(old: str, new: str, numerics: Numerics, parse: Callable[..., onnx_ir.Model]) -> None:
    def model(kind: str) -> onnx_ir.Model:
        top, bottom = KINDS[kind].split(", ")
        return parse(
            f"g (float[2] x) => (float[2] y) {{ t = Constant<value_floats=[1.0, {top}.0]>()"
            f" b = Constant<value_floats=[1.0, {bottom}.0]>() q = Div(t, b) y = Add(x, q) }}"
        )

    verdict = verify(model(old), model(new), numerics=numerics)
    assert verdict.equivalent == (old == new or numerics == "fast"), verdict.reason
