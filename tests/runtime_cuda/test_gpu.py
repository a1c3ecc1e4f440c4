"""The executor on a real GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnx_ir
import pytest
from conftest import NAMES, NETWORKS, check, check_network, small_networks
from test_orders import odd_orders
from test_thin import BOUNDS, CASES, problem, value_of

from egraph_opt.errors import BudgetError
from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.runtime import cuda
from egraph_opt.runtime.cuda.race import race_on_gpu

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


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_odd_orders(name: str, dtype: str, tuner: cuda.Tuner) -> None:
    def run(graph: TensorGraph, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        plan = cuda.make_plan(graph, exact=True, chosen=odd_orders(graph, 1))
        program = cuda.Program(plan, tuple(f"y{i}" for i in range(len(plan.outputs))), fast=False, tuner=tuner)
        return list(program.run(feeds).values())

    check_network(run, name, dtype, 5e-3 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize(("shape", "dtype", "result", "more"), CASES)
def test_every_tiling_of_a_product_of_few_rows(
    shape: tuple[int, int, int, int], dtype: str, result: str, more: bool, tuner: cuda.Tuner
) -> None:
    step, arrays, wanted = problem(shape, dtype, result, more=more)
    calls = tuner.thin.calls(step, True)
    if not calls:
        pytest.skip("not a Hopper GPU")
    stream = tuner.cupy.cuda.Stream(non_blocking=True)
    for call in calls:
        memory = [tuner.cupy.asarray(arrays[name]) for name in ("a", "b", "d", "bias", "c") if name in arrays]
        tuner.cupy.cuda.Device().synchronize()
        call.launch(lambda view, memory=memory: memory[view.buffer].data.ptr, 0, stream.ptr)
        stream.synchronize()
        # TF32 has 10 bits behind the point; the emulator's products are exact
        bound = (2e-3 if dtype == "float32" else BOUNDS[result]) * np.abs(wanted).max()
        np.testing.assert_allclose(value_of(memory[2].get(), result), wanted, rtol=0, atol=bound, err_msg=call.label)


def test_one_stream_per_thread(gpu: cuda.Machine) -> None:
    """Kernels launched on a second stream make every later graph of the process slower."""
    graph = TensorGraph()
    kind = TensorType("float32", (8, 8))
    graph.outputs = (graph.add("Relu", (), (graph.add("Input", ("x",), (), kind),), kind),)
    here = [cuda.compile(graph), cuda.compile(graph)]
    with ThreadPoolExecutor(1) as pool:  # another thread may capture at the same time
        there = pool.submit(cuda.compile, graph).result()
    first, second, other = (program.stream.ptr for program in (*here, there))
    assert first == second != other
    x = np.arange(64, dtype=np.float32).reshape(8, 8) - 32
    for program in (*here, there):
        np.testing.assert_array_equal(program.run({"x": x})["output0"], np.maximum(x, 0))


def test_the_doctor_finds_nothing(gpu: cuda.Machine) -> None:
    rows = {name: (said, fine) for name, said, fine in cuda.report()}
    assert rows["GPU"] == (str(gpu), True)
    assert rows["GPU kernels"][1], rows["GPU kernels"][0]


def test_a_model_that_does_not_fit_is_refused(tuner: cuda.Tuner) -> None:
    graph = TensorGraph()
    x = graph.add("Input", ("x",), (), TensorType("float32", (1, 2**20)))
    wide = TensorType("float32", (2**16, 2**20))  # 256 GB
    graph.outputs = (graph.add("Expand", (wide.shape,), (x,), wide),)
    with pytest.raises(BudgetError, match="does not fit into the memory of the GPU"):
        cuda.compile(graph, tuner=tuner)
    test_network("nasrnn", "float32", False, tuner)  # the GPU is as good as before


def test_a_race_of_equals_has_no_winner(gpu: cuda.Machine) -> None:
    model = onnx_ir.from_proto(small_networks("float32")["cells"])
    result = race_on_gpu({"original": model, "same": model}, sizes={}, fast=False, budget_seconds=2.0)
    assert result is not None
    assert [lap.name for lap in result.laps] == ["original", "same"]
    assert 0.7 < result.lap("same").ratio < 1.4
    assert result.spread >= 0.01


def test_a_race_without_a_baseline_that_runs_is_none(gpu: cuda.Machine) -> None:
    node = onnx.helper.make_node("StringNormalizer", ["x"], ["y"])
    strings = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.STRING, [2]) for name in "xy"]
    opsets = [onnx.helper.make_opsetid("", 18)]
    proto = onnx.helper.make_model(onnx.helper.make_graph([node], "g", strings[:1], strings[1:]), opset_imports=opsets)
    model = onnx_ir.from_proto(proto)
    assert race_on_gpu({"original": model}, sizes={}, fast=False, budget_seconds=1.0) is None
