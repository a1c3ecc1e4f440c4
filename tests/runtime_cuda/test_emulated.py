"""Plans and generated kernels, without a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import NAMES, NETWORKS, check, check_network
from emulator import COMPILER, Emulator

from egraph_opt.ir import TensorGraph
from egraph_opt.runtime.cuda import lanes, make_plan
from egraph_opt.runtime.cuda.steps import Generated

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")


@pytest.mark.parametrize("name", NAMES)
def test_operator_alone(name: str, tmp_path: Path) -> None:
    def run(graph: TensorGraph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        return Emulator(make_plan(graph, exact=True), tmp_path).run(feeds)

    for seed in range(2):
        check(run, name, seed, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["cells", "encoder"])
def test_network_in_lanes(name: str, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_BUSY", 1)  # as if the networks were large
    sources: list[str] = []

    def run(graph: TensorGraph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        plan = make_plan(graph, exact=True)
        sources.extend(step.source for step in plan.steps if isinstance(step, Generated))
        return Emulator(plan, tmp_path).run(feeds)

    check_network(run, name, dtype, 1e-5 if dtype == "float32" else 5e-3)
    assert any(", 8> " in source for source in sources)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, dtype: str, tmp_path: Path) -> None:
    def run(graph: TensorGraph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        return Emulator(make_plan(graph, exact=True), tmp_path).run(feeds)

    check_network(run, name, dtype, 1e-5 if dtype == "float32" else 5e-3)
