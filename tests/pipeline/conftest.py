"""Small models, the zoo, and what every result must satisfy."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import egraph_opt
from egraph_opt import OptimizeResult

ROOT = Path(__file__).parents[2]


class Tools:
    """The tools of the tests, as one fixture."""

    @staticmethod
    def parse(text: str, *, ir: int = 8, opset: int = 17, domains: str = "") -> onnx.ModelProto:
        """A model from ONNX text without its header."""
        return onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}{domains}]> ' + text)

    @staticmethod
    def run(model: onnx.ModelProto, feeds: dict[str, Any], *, optimize: bool = False) -> list[Any]:
        """What ONNX Runtime computes, by default without optimizing."""
        options = ort.SessionOptions()
        if not optimize:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return list(session.run(None, {name: np.asarray(value) for name, value in feeds.items()}))

    @staticmethod
    def optimize(model: Any, **options: Any) -> OptimizeResult:
        """By formulas, without timing: fast, and the same everywhere. The report is complete."""
        settings: dict[str, Any] = {"target": "analytic", "measure": False, "extractor": "dag-greedy", **options}
        result = egraph_opt.optimize(model, **settings)
        plain = json.loads(json.dumps(result.report.to_json(), allow_nan=False))
        assert plain["before"]["nodes"] >= 0
        assert plain["after"]["operators"] is not None
        assert plain["outcome"] in {o.value for o in egraph_opt.Outcome}
        assert set(plain["seconds"]) >= {"import", "saturate", "total"}
        return result


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools()


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The folder of real models; skips where the shared test data is absent."""
    data = Path(os.environ.get("EGRAPH_OPT_DATA", ROOT.parent / "shared"))
    if not (data / "zoo").is_dir():
        pytest.skip(f"no folder {data / 'zoo'}: set EGRAPH_OPT_DATA to the shared test data")
    return data / "zoo"


@pytest.fixture(scope="session")
def zoo_models() -> ModuleType:
    """``bench/zoo_models.py``."""
    spec = importlib.util.spec_from_file_location("zoo_models", ROOT / "bench" / "zoo_models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["zoo_models"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def operators() -> Callable[[onnx.ModelProto], list[str]]:
    """Operators of a model, in order."""
    return lambda model: [node.op_type for node in model.graph.node]
