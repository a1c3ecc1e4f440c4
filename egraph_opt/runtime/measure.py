"""Seconds that ONNX Runtime takes for one operator inside a larger model."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from egraph_opt.ir import TensorType
from egraph_opt.ops import numpy_dtype
from egraph_opt.runtime.sampling import Timing, sample
from egraph_opt.runtime.session import Array, open_session, to_ort
from egraph_opt.runtime.signature import Signature
from egraph_opt.runtime.single import OPSET, Single, single_operator_model

FLOOR = 5e-8
"""No node costs less than this many seconds: ONNX Runtime at least has to visit it."""

Call = Callable[[], object]
_BLOCKED_DOMAIN = "com.microsoft.nchwc"
_BASELINE_BUDGET, _BASELINE_WINDOWS = 0.08, 4
_MOST_LAYOUT = 0.8  # share of a reading that may be put down to layout changes
_TRIES, _DISTURBED, _PAUSE = 2, 1.2, 0.03


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds of the operator itself, and seconds that its model spent on changing layouts around it.

    ``disturbed``: something slowed the machine down all the while, so it is worth measuring again later.
    """

    seconds: float
    layout: float
    samples: int
    disturbed: bool


@dataclass(frozen=True, slots=True)
class Baseline:
    """What to take off a reading.

    Attributes:
        reference: runs a model of one operator on one element; timed together with every other call.
        seconds: what it takes on the undisturbed machine.
        node: seconds of that one operator.
        port: seconds per further input or output of a model.
        alias: seconds of an operator that only renames a buffer (Reshape).
    """

    reference: Call
    seconds: float
    node: float
    port: float
    alias: float


@dataclass(frozen=True)
class Bench:
    """Measures signatures with one number of threads; one operator at a time, beside a tiny reference."""

    threads: int = 1
    budget_seconds: float = 0.012
    _baseline: list[Baseline] = field(default_factory=list[Baseline], repr=False)

    @property
    def baseline(self) -> Baseline:
        """Measured on first use, in about 0.5 s."""
        if not self._baseline:
            self._baseline.append(_measure_baseline(self.threads))
        return self._baseline[0]

    def measure(self, signature: Signature) -> Measurement:
        """Prices one signature.

        ONNX Runtime reorders the channels of a lone convolution on the way in and out; between two convolutions it
        does not, so these reorders are timed apart and taken off.

        Raises:
            Exception: ONNX Runtime's own error when it cannot load or run the operator.
        """
        single = single_operator_model(signature)
        blocked = "Conv" in signature.op or "Pool" in signature.op
        session, reorders = self._opened_blocked(single) if blocked else (self._opened(single), [])
        calls = [_bind(session, single.feeds, single.outputs), *reorders]
        ports = [len(single.feeds) + len(single.outputs), *[2] * len(reorders)]
        (total, *parts), samples, disturbed = self._run(calls, ports)
        layout = min(sum(parts), _MOST_LAYOUT * total)
        return Measurement(max(total - layout, FLOOR), layout, samples, disturbed)

    def _opened(self, single: Single, save_optimized: Path | None = None) -> ort.InferenceSession:
        return open_session(single.model, threads=self.threads, save_optimized=save_optimized)

    def _opened_blocked(self, single: Single) -> tuple[ort.InferenceSession, list[Call]]:
        """The session, and the layout changes that ONNX Runtime has put around the operator."""
        with tempfile.TemporaryDirectory(prefix="egraph-opt-") as folder:
            saved = Path(folder) / "optimized.onnx"
            session = self._opened(single, saved)
            return session, self._reorders(onnx.load(saved), single)

    def _run(self, calls: Sequence[Call], ports: Sequence[int]) -> tuple[list[float], int, bool]:
        """Seconds of each model's operators alone, how many samples that took, and whether it was disturbed."""
        base = self.baseline
        budget = self.budget_seconds * (1 + len(calls)) / 2
        tries: list[list[Timing]] = []
        while len(tries) < _TRIES and not any(t[-1].seconds < _DISTURBED * base.seconds for t in tries):
            if tries:
                time.sleep(_PAUSE)  # something slowed the machine down, the reference too: let it pass
            together = [*calls, base.reference]
            tries.append(sample(together, threads=self.threads, budget_seconds=budget, early=True))
        *timings, reference = min(tries, key=lambda timings: timings[-1].seconds)
        overheads = [reference.seconds - base.node + base.port * (count - 2) for count in ports]
        seconds = [max(t.seconds - o, FLOOR) for t, o in zip(timings, overheads, strict=True)]
        return seconds, timings[0].samples, reference.seconds > _DISTURBED * base.seconds

    def _reorders(self, optimized: onnx.ModelProto, single: Single) -> list[Call]:
        """The layout changes at the inputs and outputs of the graph that ONNX Runtime made, each alone."""
        found: list[Call] = []
        for node in optimized.graph.node:
            if node.domain != _BLOCKED_DOMAIN:
                continue
            if node.op_type == "ReorderInput" and node.input[0] in single.feeds:
                found.append(self._reorder(optimized, node, single.feeds[node.input[0]].shape))
            elif node.op_type == "ReorderOutput" and node.output[0] in single.outputs:
                shape = single.outputs[node.output[0]].numbers()
                # the blocked side holds whole blocks of channels: 8 with AVX2, 16 with AVX-512
                padded = [(shape[0], -(-shape[1] // block) * block, *shape[2:]) for block in (8, 16)]
                found += [c for p in padded if (c := self._working_reorder(optimized, node, p)) is not None][:1]
        return found

    def _working_reorder(self, like: onnx.ModelProto, node: onnx.NodeProto, shape: tuple[int, ...]) -> Call | None:
        try:
            call = self._reorder(like, node, shape)
            call()
        except Exception:  # the block size does not fit; ONNX Runtime's errors have no common base class
            return None
        return call

    def _reorder(self, like: onnx.ModelProto, node: onnx.NodeProto, shape: tuple[int, ...]) -> Call:
        make, kind = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
        outputs = [make(node.output[0], kind, None)]
        graph = onnx.helper.make_graph([node], "reorder", [make(node.input[0], kind, shape)], outputs)
        model = onnx.helper.make_model(graph, opset_imports=like.opset_import, ir_version=like.ir_version)
        session = open_session(model.SerializeToString(), threads=self.threads)
        return _bind(session, {node.input[0]: np.ones(shape, np.float32)}, {})


def _bind(session: ort.InferenceSession, feeds: Mapping[str, Array], outputs: Mapping[str, TensorType]) -> Call:
    """A call that runs the session on buffers bound once.

    A plain run costs 6 us on the smallest model, and 6.5 to 9 now and then; a bound one 2.7 us, within 1 %.
    """
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, to_ort(array))
    for output in session.get_outputs():
        type_ = outputs.get(output.name)
        if type_ is None or type_.dtype in ("bfloat16", "string"):
            binding.bind_output(output.name, "cpu")
            continue
        value = ort.OrtValue.ortvalue_from_shape_and_type(list(type_.numbers()), numpy_dtype(type_.dtype).type)
        binding.bind_ortvalue_output(output.name, value)
    return lambda: session.run_with_iobinding(binding)


def _measure_baseline(threads: int) -> Baseline:
    """From chains of tiny operators: what remains when the operators themselves are taken away."""
    chains = [(["Sin"], 1), (["Sin"] * 9, 1), (["Sin"], 9), (["Sin"] * 5, 1), ([*["Sin", "Reshape"] * 4, "Sin"], 1)]
    calls = [_chain(ops, inputs, threads) for ops, inputs in chains]
    windows: list[list[Timing]] = []
    for _ in range(_BASELINE_WINDOWS):  # apart in time: a disturbance rarely lasts for all of them
        windows.append(sample(calls, threads=threads, budget_seconds=_BASELINE_BUDGET))
        time.sleep(_PAUSE)
    one, nine, wide, five, renamed = (min(t.seconds for t in timings) for timings in zip(*windows, strict=True))
    return Baseline(calls[0], one, max(nine - one, 0.0) / 8, max(wide - one, 0.0) / 8, max((renamed - five) / 4, FLOOR))


def _chain(ops: list[str], inputs: int, threads: int) -> Call:
    """Runs a chain of operators on one float32 element; further inputs are declared and not used."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes: list[onnx.NodeProto] = []
    rank = 1
    for position, op in enumerate(ops):
        rank = 3 - rank if op == "Reshape" else rank
        target = [f"shape{rank}"] if op == "Reshape" else []
        nodes.append(helper.make_node(op, [f"v{position}", *target], [f"v{position + 1}"]))
    names = ["v0", *(f"unused{i}" for i in range(inputs - 1))]
    last = f"v{len(ops)}"
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info(n, kind, [1]) for n in names],
        [helper.make_tensor_value_info(last, kind, [1] * rank)],
        [onnx.numpy_helper.from_array(np.ones(r, np.int64), f"shape{r}") for r in (1, 2)] if "Reshape" in ops else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    session = open_session(model.SerializeToString(), threads=threads)
    return _bind(session, {n: np.ones(1, np.float32) for n in names}, {last: TensorType("float32", (1,) * rank)})
