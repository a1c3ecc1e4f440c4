"""The oracle that owes nothing to ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx_ir
import pytest

from egraph_opt.verification import verify
from egraph_opt.verification.oracle import DoubleOracle, NotCovered

TEXT = """<ir_version: 9, opset_import: ["" : 18]>
g (float[N, 4] x) => (float[N, 3] y)
<float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3] b = {0.5, 0.25, 0.125}>
{ p = MatMul (x, w)
  s = Add (p, b)
  y = BODY (s) }"""


def model(body: str = "Relu") -> onnx_ir.Model:
    return onnx_ir.from_onnx_text(TEXT.replace("BODY", body))


def test_it_evaluates_in_float64() -> None:
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    ((name, y),) = DoubleOracle.of(model()).run({"x": x})
    assert name == "y"
    weights = np.arange(1, 13, dtype=np.float64).reshape(4, 3)
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, np.maximum(x.astype(np.float64) @ weights + [0.5, 0.25, 0.125], 0), rtol=1e-15)


def test_verification_asks_it() -> None:
    verdict = verify(model(), model())
    assert verdict.equivalent
    assert {row.level for row in verdict.evidence} == {"none", "all", "float64"}
    assert verdict.reason.endswith("and in float64")


def test_it_says_why_it_cannot() -> None:
    with pytest.raises(NotCovered, match="not in the operator table"):
        DoubleOracle.of(model("Hardmax"))
    verdict = verify(model("Hardmax"), model("Hardmax"))
    assert verdict.equivalent
    assert any("float64" in note for note in verdict.notes)


def test_it_sees_a_wrong_weight() -> None:
    wrong = onnx_ir.from_onnx_text(TEXT.replace("BODY", "Relu").replace("0.25", "0.26"))
    x = np.ones((2, 4), np.float32)
    a, b = (dict(DoubleOracle.of(m).run({"x": x}))["y"] for m in (model(), wrong))
    assert np.abs(a - b).max() == pytest.approx(0.01, rel=1e-5)
    assert verify(model(), wrong).kind == "different"
