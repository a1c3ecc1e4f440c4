"""Graphs drawn from one e-graph: which are extracted, and from where extraction starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
