"""Small models of known fates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
import pytest

from egraph_opt import Explanation, explain

ROOT = Path(__file__).parents[2]
QUICK: dict[str, Any] = {"target": "analytic", "measure": False, "extractor": "dag-greedy"}
TEXT = """g (float[4,6] x) => (float[6,4] y, float[4,6] z, float[4,6] b)
  <float[6] zeros = {0,0,0,0,0,0}, float two = {2}> {
    [first] a = Relu(x)
    [second] b = Relu(a)
    [turn] c = Transpose<perm = [1, 0]>(b)
    [exp] y = Exp(c)
    [double] d = Mul(x, two)
    [nothing] e = Mul(d, zeros)
    [pass] f = Identity(e)
    [negative] z = Neg(f)
    [lost] g = Sigmoid(x)
}"""


@pytest.fixture(scope="session")
def parsed() -> onnx.ModelProto:
    return onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> ' + TEXT)


@pytest.fixture(scope="session")
def explained(parsed: onnx.ModelProto) -> Explanation:
    names = [node.name for node in parsed.graph.node]
    return explain(parsed, nodes=names, **QUICK)


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The folder of real models; skips where the shared test data is absent."""
    data = Path(os.environ.get("EGRAPH_OPT_DATA", ROOT.parent / "shared"))
    if not (data / "zoo").is_dir():
        pytest.skip(f"no folder {data / 'zoo'}: set EGRAPH_OPT_DATA to the shared test data")
    return data / "zoo"
