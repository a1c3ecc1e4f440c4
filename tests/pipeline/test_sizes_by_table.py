"""Sizes that the operator table itself can vouch for: no trial run, and the same sizes as by one."""

from __future__ import annotations

import onnx
import onnx_ir
import pytest

from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io import import_model
from egraph_opt.pipeline import sizes as module
from egraph_opt.pipeline.sizes import measured_sizes, surely_runs
from egraph_opt.verification import sizes as trials

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '
RUNS = {
    "any size": "(float[N,4] x) => (float[N,4] y) { y = Relu(x) }",
    "a window": "(float[N,3,H,W] x) => (float[A,B,C,D] y) { y = MaxPool <kernel_shape = [50, 50]> (x) }",
    "stored indices": "(float[N,4] x) => (float[N,2] y) <int64[2] i = {3, 0}> { y = Gather <axis = 1> (x, i) }",
}
SAYS_NOTHING = {
    "computed indices": "(int64[N] i) => (float[N,2] y) <float[3,2] t = {1, 2, 3, 4, 5, 6}> { y = Gather(t, i) }",
    "not in the table": "(float[N,4] x) => (float[K,L] y) { y = Compress <axis = 0> (x, c) }",
}


def read(text: str) -> tuple[onnx_ir.Model, TensorGraph]:
    if "Compress" in text:
        text = text.replace("=> (float[K,L] y)", "=> (float[K,L] y) <bool[1] c = {1}>")
    model = onnx_ir.from_proto(onnx.parser.parse_model(HEAD + text))
    return model, import_model(model).graph


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that a model is opened to be tried out."""
    calls: list[int] = []
    trial = trials._trial  # pyright: ignore[reportPrivateUsage]

    def counted(*given: object, **named: object) -> object:
        calls.append(1)
        return trial(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(trials, "_trial", counted)
    return calls


@pytest.mark.parametrize("text", RUNS.values(), ids=RUNS)
def test_what_the_table_accepts_is_not_tried_out_and_gets_the_sizes_of_a_trial(text: str, opened: list[int]) -> None:
    model, graph = read(text)
    found = measured_sizes(model, {}, graph)
    assert not opened
    assert found == measured_sizes(model, {})
    assert opened


@pytest.mark.parametrize("text", SAYS_NOTHING.values(), ids=SAYS_NOTHING)
def test_what_depends_on_values_is_tried_out(text: str, opened: list[int]) -> None:
    model, graph = read(text)
    assert measured_sizes(model, {}, graph)
    assert opened


def test_sizes_that_an_operator_refuses() -> None:
    _, graph = read(RUNS["a window"])
    assert surely_runs(graph, {"N": 1, "H": 50, "W": 50})
    assert not surely_runs(graph, {"N": 1, "H": 50, "W": 49})
    assert not surely_runs(graph, {"N": 1, "H": 50})


def test_the_type_of_very_many_results_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    width, asked = 200, 0
    parts = ", ".join(f"p{i}" for i in range(width))
    _, graph = read(
        f"(float[N,{width}] x) => (float[N,{width}] y) {{ {parts} = Split <axis = 1, num_outputs = {width}> (x)"
        f" y = Concat <axis = 1> ({parts}) }}"
    )
    real = module.concrete_type

    def counted(*given: object) -> object:
        nonlocal asked
        asked += 1
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "concrete_type", counted)
    assert surely_runs(graph, {"N": 3})
    assert width <= asked < 3 * width
