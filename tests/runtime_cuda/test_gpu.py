"""The executor on a real GPU."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import NAMES, NETWORKS, check, check_network

from egraph_opt.ir import TensorGraph
from egraph_opt.runtime import cuda

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def tuner(gpu: cuda.Machine) -> cuda.Tuner:
    return cuda.Tuner(cuda.Choices())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_operator_alone(name: str, dtype: str, tuner: cuda.Tuner) -> None:
    def run(graph: TensorGraph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        return list(cuda.compile(graph, tuner=tuner).run(feeds).values())

    for seed in range(2):
        check(run, name, seed, dtype)


@pytest.mark.parametrize(("dtype", "fast"), [("float32", False), ("float32", True), ("float16", False)])
@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, dtype: str, fast: bool, tuner: cuda.Tuner) -> None:
    def run(graph: TensorGraph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        return list(cuda.compile(graph, fast=fast, tuner=tuner).run(feeds).values())

    check_network(run, name, dtype, 5e-3 if fast or dtype == "float16" else 1e-5)
