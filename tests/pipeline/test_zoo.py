"""Real models come out valid and verified, and the e-graph stays small."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

from egraph_opt import Outcome

pytestmark = pytest.mark.zoo
ZOO = Path(os.environ.get("EGRAPH_OPT_DATA", Path(__file__).parents[3] / "shared")) / "zoo"
LEFT_OUT = {  # large or slow; the bench takes them
    "onnx__light_vgg19",
    "onnx__light_bvlc_alexnet",
    "onnx__light_zfnet512",
    "speechmos__sig",
    "speechmos__bak_ovr",
    "speechmos__sig_bak_ovr",
}
NAMES = sorted(p.stem for p in ZOO.glob("*.onnx") if p.stem not in LEFT_OUT) or ["absent"]
GROWTH = 60
"""E-nodes per node of a model, at most (and always up to 20 000)."""


@pytest.mark.parametrize("name", NAMES)
def test_comes_out_valid_and_verified(name: str, zoo: Path, zoo_models: ModuleType, tools: Any) -> None:
    model = zoo_models.load(zoo / f"{name}.onnx")
    said = model.SerializeToString()
    result = tools.optimize(model, time_limit=60)
    assert model.SerializeToString() == said
    report = result.report
    assert report.outcome in (Outcome.OPTIMIZED, Outcome.UNCHANGED), report.reason
    onnx.checker.check_model(result.model, full_check=True)
    assert [o.name for o in result.model.graph.output] == [o.name for o in model.graph.output]
    if result.changed:
        assert report.verdict["kind"] == "equivalent"
        by_reading = report.chosen == "as-read" or any("subgraphs were optimized" in note for note in report.notes)
        assert report.rules or by_reading
        least = report.estimated_before * (1 + 1e-9 if by_reading else 1)  # bodies are not part of the estimate
        assert report.estimated_after < least
        assert report.after.weight_bytes <= 1.05 * report.before.weight_bytes + 2**16
    assert report.saturation["e-nodes"] < max(GROWTH * report.before.nodes, 20_000)


@pytest.mark.parametrize("name", ["onnx__light_squeezenet", "onnx__light_shufflenet"])
def test_light_models_depend_on_their_input(name: str, zoo: Path, zoo_models: ModuleType, tools: Any) -> None:
    """Otherwise the comparison above says nothing."""
    model = zoo_models.load(zoo / f"{name}.onnx")
    value = next(v for v in model.graph.input if v.name not in {t.name for t in model.graph.initializer})
    shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
    rng = np.random.default_rng(0)
    (a,), (b,) = (tools.run(model, {value.name: rng.normal(size=shape).astype(np.float32)}) for _ in range(2))
    assert np.isfinite(a).all()
    assert np.abs(a - b).max() > 0.01 * np.abs(a).max() > 0
    assert zoo_models.load(zoo / f"{name}.onnx").SerializeToString() == model.SerializeToString()


# --- the PP-OCR classifier

CLS = "rapidocr_onnxruntime__ch_ppocr_mobile_v2.0_cls_infer.onnx"
SIZES = {"measure_shapes": {"x": (1, 3, 48, 192)}}


@pytest.fixture(scope="module")
def cls(zoo: Path) -> onnx.ModelProto:
    return onnx.load(str(zoo / CLS))


def test_activations_are_put_together_and_normalisation_is_gone(cls: onnx.ModelProto, tools: Any) -> None:
    result = tools.optimize(cls, **SIZES)
    report = result.report
    assert report.outcome == Outcome.OPTIMIZED, report.reason
    assert report.verdict["kind"] == "equivalent"
    before, after = report.before.operators, report.after.operators
    assert before["BatchNormalization"] > 0
    assert "BatchNormalization" not in after
    inside = after["HardSigmoid"] - before["HardSigmoid"]  # HardSwish inside a convolution is written as a product
    assert inside == before["Div"] > 0
    assert not {"Clip", "Div"} & set(after)
    assert after["Conv"] <= before["Conv"]
    assert report.after.nodes < report.before.nodes / 2
    assert "conv-bias-hardswish" in report.rules
    assert "batchnorm-affine" in report.rules


def test_an_operator_of_a_newer_opset(cls: onnx.ModelProto, tools: Any) -> None:
    report = tools.optimize(cls, skip_rules=["conv-bias-hardswish", "conv-hardswish"], **SIZES).report
    assert report.after.operators["HardSwish"] == report.before.operators["Div"]
    assert report.after.opset >= 14 > report.before.opset
    assert any("opset" in note for note in report.notes)
    assert any(name.startswith("hardswish") for name in report.rules)


def test_keep_opset(cls: onnx.ModelProto, tools: Any) -> None:
    result = tools.optimize(cls, keep_opset=True, **SIZES)
    assert result.changed
    assert result.report.after.opset == result.report.before.opset
    assert list(result.model.opset_import) == list(cls.opset_import)
    assert "HardSwish" not in result.report.after.operators
    assert "BatchNormalization" not in result.report.after.operators


def test_skip_rules(cls: onnx.ModelProto, tools: Any) -> None:
    result = tools.optimize(cls, skip_rules=["hardswish", "batchnorm"], **SIZES)
    operators = result.report.after.operators
    assert "HardSwish" not in operators
    assert operators["BatchNormalization"] == result.report.before.operators["BatchNormalization"]
    assert not {"batchnorm-affine"} & set(result.report.rule_matches)


def test_the_same_bytes_twice(cls: onnx.ModelProto, tools: Any) -> None:
    first, second = (tools.optimize(cls, seed=3, **SIZES) for _ in range(2))
    assert first.model.SerializeToString(deterministic=True) == second.model.SerializeToString(deterministic=True)
    assert first.report.rules == second.report.rules
    assert first.report.estimated_after == second.report.estimated_after
