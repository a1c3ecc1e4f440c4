"""The executor on a real GPU."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import NAMES, check

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
