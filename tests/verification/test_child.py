"""Heavy models in a process of their own: the same answer, and an answer whatever happens there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir
import pytest

from egraph_opt.errors import UsageError
from egraph_opt.verification import ApartError, Verdict, apart, default_sizes, verify

Parse = Callable[[str], onnx_ir.Model]
TEXT = "g (float[N,64] x, float[64,64] w) => (float[N,64] y) { y = MatMul(x, w) }"


@pytest.fixture
def model(parse: Parse) -> onnx_ir.Model:
    return _with_weight(parse(TEXT), 0)


def _with_weight(model: onnx_ir.Model, seed: int) -> onnx_ir.Model:
    weight = model.graph.inputs.pop()
    values = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)
    weight.const_value = onnx_ir.tensor(values, name="w")
    model.graph.register_initializer(weight)
    return model


def process(_: onnx_ir.Model) -> int:
    return os.getpid()


def kill(_: onnx_ir.Model) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def complain(_: onnx_ir.Model) -> int:
    raise UsageError("no")


def test_only_heavy_models_leave_this_process(model: onnx_ir.Model) -> None:
    assert apart(process, model) == os.getpid()
    assert apart(process, model, above=1000) != os.getpid()


def test_the_answer_is_the_same(model: onnx_ir.Model, parse: Parse) -> None:
    other = _with_weight(parse(TEXT), 1)
    for candidate in (model.clone(), other):
        here, there = verify(model, candidate), apart(verify, model, candidate, above=1000)
        assert isinstance(there, Verdict)
        assert (there.kind, there.reason) == (here.kind, here.reason)
    assert apart(default_sizes, model, above=1000) == default_sizes(model)


def test_external_weights_are_found_there(model: onnx_ir.Model, tmp_path: Path) -> None:
    onnx_ir.save(model, tmp_path / "m.onnx", external_data="w.bin")
    outside = onnx_ir.load(tmp_path / "m.onnx")
    assert apart(verify, outside, model, above=1000).equivalent
    assert apart(verify, model, outside, above=1000).equivalent


def test_errors_come_back(model: onnx_ir.Model) -> None:
    with pytest.raises(UsageError, match="no"):
        apart(complain, model, above=1000)


def test_a_process_that_is_killed_is_an_error_here(model: onnx_ir.Model) -> None:
    with pytest.raises(ApartError, match="status -9"):
        apart(kill, model, above=1000)
