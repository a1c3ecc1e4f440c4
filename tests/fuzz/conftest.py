"""The fuzzer of ``bench/fuzz.py``, as a fixture."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="session")
def fuzzer() -> Iterator[ModuleType]:
    """``bench/fuzz.py`` with its helpers in reach."""
    sys.path.insert(0, str(BENCH))
    yield importlib.import_module("fuzz")
    sys.path.remove(str(BENCH))


@pytest.fixture(scope="session")
def graphs(fuzzer: ModuleType) -> ModuleType:
    """``bench/fuzz_graphs.py``, the generator of graphs."""
    return sys.modules[fuzzer.random_graph.__module__]


@pytest.fixture(scope="session")
def fuzz_models(fuzzer: ModuleType) -> ModuleType:
    """``bench/fuzz_models.py``, whole models."""
    return importlib.import_module("fuzz_models")


@pytest.fixture(scope="module")
def fuzz(fuzz_models: ModuleType) -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuzz_models.pipeline, "Worker", fuzz_models.Here)  # the same saturation, without a process
        yield fuzz_models
