"""Models in ONNX's text form, and what a round trip through the tensor graph must leave as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime as ort
import pytest

from egraph_opt.onnx_io import export_model, import_model

Feeds = Mapping[str, Any]


@dataclass(frozen=True)
class RoundTrip:
    """A model before and after."""

    before: onnx.ModelProto
    after: onnx.ModelProto

    def operators(self) -> list[str]:
        """Operators of the result, in order."""
        return [node.op_type for node in self.after.graph.node]


class Tools:
    """The tools of the tests, as one fixture."""

    @staticmethod
    def parse(text: str, *, ir: int = 8, opset: int = 17, domains: str = "") -> onnx.ModelProto:
        """A model from ONNX text without its header; checked."""
        header = f'<ir_version: {ir}, opset_import: ["" : {opset}{domains}]> '
        return onnx.parser.parse_model(header + text)

    @staticmethod
    def run(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
        """What ONNX Runtime computes without optimizing."""
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return list(session.run(None, {name: np.asarray(value) for name, value in feeds.items()}))

    @staticmethod
    def through(model: onnx.ModelProto) -> onnx.ModelProto:
        """The model after import and export, without a check."""
        imported = import_model(onnx_ir.from_proto(model))
        return onnx_ir.to_proto(export_model(imported, imported.graph))

    def trip(self, model: onnx.ModelProto, *feeds: Feeds, check: bool = True) -> RoundTrip:
        """Imports and exports; the checker accepts both, callers see no difference, results are the same bits."""
        if check:
            onnx.checker.check_model(model, full_check=True)
        said = model.SerializeToString()
        after = self.through(model)
        assert model.SerializeToString() == said
        if check:
            onnx.checker.check_model(after, full_check=True)
        assert interface(after) == interface(model)
        for fed in feeds:
            for old, new in zip(self.run(model, fed), self.run(after, fed), strict=True):
                same(new, old)
        return RoundTrip(model, after)


def same(new: Any, old: Any) -> None:
    """Asserts equal bits (NaN equals NaN), shapes and dtypes."""
    if isinstance(old, list):
        assert len(new) == len(old)
        for a, b in zip(new, old, strict=True):
            same(a, b)
        return
    assert (new.dtype, new.shape) == (old.dtype, old.shape)
    if old.dtype.kind in "OSU":
        assert new.tolist() == old.tolist()
    else:
        assert np.asarray(new).tobytes() == np.asarray(old).tobytes() or np.array_equal(new, old, equal_nan=True)


def interface(model: onnx.ModelProto) -> dict[str, Any]:
    """All that a caller sees."""
    stored = {t.name for t in model.graph.initializer}
    frozen = model.ir_version < 4
    inputs = [v for v in model.graph.input if not (frozen and v.name in stored)]
    return {
        "inputs": [v.SerializeToString() for v in inputs],
        "overridable": [v.name for v in inputs if v.name in stored],
        "outputs": [v.SerializeToString() for v in model.graph.output],
        "producer": (model.producer_name, model.producer_version),
        "domain": model.domain,
        "version": model.model_version,
        "doc": model.doc_string,
        "metadata": sorted((p.key, p.value) for p in model.metadata_props),
        "graph": (model.graph.name, model.graph.doc_string),
        "opsets": sorted((o.domain, o.version) for o in model.opset_import),
        "ir": max(model.ir_version, 4),
    }


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools()
