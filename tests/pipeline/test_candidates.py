"""Graphs drawn from one e-graph: which are extracted, and from where extraction starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from egraph_opt import Options
from egraph_opt.egraph import Selection
from egraph_opt.extraction import Status
from egraph_opt.onnx_io import to_ir
from egraph_opt.pipeline import Run, candidates
from egraph_opt.pipeline.candidates import Proposer

TEXT = """m (float[4,8] x) => (float[4,8] y)
    <float[8,8] w = {%s}, float[8] b = {%s}, float[8] c = {%s}> {
        p = MatMul (x, w)
        q = Add (p, b)
        r = Add (q, c)
        t = Transpose <perm=[1,0]> (r)
        y = Transpose <perm=[1,0]> (t)
    }"""


@pytest.fixture(scope="module")
def proposer(tools: Any) -> Proposer:
    def values(count: int) -> str:
        return ", ".join(str(0.5 + 0.25 * i) for i in range(count))

    model = tools.parse(TEXT % (values(64), values(8), values(8)))
    return Run(to_ir(model), Options(target="analytic", measure=False)).chooser().proposer


def test_nothing_is_extracted_again_and_the_rest_starts_from_the_cheapest_graph(
    proposer: Proposer, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[Selection | None] = []
    extract = candidates.extract_lazily

    def watched(*args: Any, **options: Any) -> Any:
        starts.append(options["warm_start"])
        return extract(*args, **options)

    monkeypatch.setattr(candidates, "extract_lazily", watched)
    first, *others = proposer._drawn()  # pyright: ignore[reportPrivateUsage]
    assert (first.name, first.extraction.status) == ("cheapest", Status.OPTIMAL)
    assert others
    assert len(starts) == 1 + len(others)
    assert starts[1] is first.extraction.selection
    chosen = first.extraction.selection.choice
    again = [p.name for p in others if np.array_equal(p.extraction.selection.choice, chosen)]
    assert set(again) <= {"fewest-nodes"}  # only its prices are others


GATED = """m (float[N,8,{height},7] x, float[8,8,1,1] w, float[8,8,1,1] u) => (float[N,8,{height},7] y) {{
        a = Conv (x, w)
        b = Relu (a)
        m = GlobalAveragePool (b)
        p = Conv (m, u)
        s = Sigmoid (p)
        z = Mul (b, s)
        i = Identity (z)
        y = Conv (i, w)
    }}"""


@pytest.mark.parametrize(("height", "spread"), [("6", True), ("H", False)])
def test_a_gate_is_tried_spread_over_its_image_where_candidates_are_timed(
    tools: Any, height: str, spread: bool
) -> None:
    model = tools.parse(GATED.format(height=height))
    rng = np.random.default_rng(0)
    for value in list(model.graph.input)[1:]:
        model.graph.initializer.append(numpy_helper.from_array(rng.normal(size=(8, 8, 1, 1)).astype("f"), value.name))
        model.graph.input.remove(value)
    for measure in (True, False):
        result = tools.optimize(model, target="ort-cpu", measure=measure)
        tried = [c for c in result.report.candidates if "spread" in c.name]
        assert bool(tried) == (spread and measure)
        assert result.verified
