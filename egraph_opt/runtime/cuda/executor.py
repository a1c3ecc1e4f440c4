"""Runs a plan on the GPU: one CUDA graph, independent steps on several streams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx_ir

from egraph_opt.errors import BudgetError, UsageError
from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io import import_model, to_ir
from egraph_opt.onnx_io.load import Model
from egraph_opt.ops import numpy_dtype
from egraph_opt.ops.base import Array
from egraph_opt.runtime.cuda.device import library, machine
from egraph_opt.runtime.cuda.expressions import PRELUDE
from egraph_opt.runtime.cuda.memory import offsets, schedule
from egraph_opt.runtime.cuda.plan import Plan, make_plan
from egraph_opt.runtime.cuda.steps import Convolution, Generated, Product, Step
from egraph_opt.runtime.cuda.tune import Call, Choices, Tuner
from egraph_opt.runtime.cuda.views import View


class Program:
    """A plan with its memory, its kernels and its CUDA graph. Made by ``compile``."""

    def __init__(self, plan: Plan, names: tuple[str, ...], *, fast: bool, tuner: Tuner, streams: int = 4) -> None:
        self.plan, self.names = plan, names
        self.cupy = library("cupy")
        self.schedule = schedule(plan.steps, streams)
        self.stream = self.cupy.cuda.Stream(non_blocking=True)
        self.calls: dict[int, Call] = {}
        try:
            for number, step in enumerate(plan.steps):
                if isinstance(step, Product | Convolution):
                    self.calls[number] = tuner.best(step, fast, plan.buffers)
            self._allocate()
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise BudgetError(f"the model does not fit into the memory of the GPU: {error}") from None
        self._compile()
        self.graph = self._capture()

    # --- building

    def _allocate(self) -> None:
        cupy, spaces = self.cupy, {n: call.space for n, call in self.calls.items()}
        places, self._spaces, size = offsets(self.plan, self.schedule, spaces)
        self._work = cupy.zeros(max(size, 256), cupy.uint8)
        self._memory: list[Any] = []
        for number, buffer in enumerate(self.plan.buffers):
            if number in places:
                self._memory.append(self._work[places[number] : places[number] + buffer.bytes])
            elif buffer.load is not None:
                self._memory.append(cupy.asarray(np.ascontiguousarray(buffer.load()).reshape(-1).view(np.uint8)))
            else:
                self._memory.append(cupy.zeros(buffer.bytes, cupy.uint8))
        cupy.cuda.Device().synchronize()  # our streams do not wait for the one that filled them

    def _compile(self) -> None:
        """All generated kernels as one module: the headers are read once."""
        texts: dict[str, str] = {}
        helpers: dict[str, None] = {}
        for step in self.plan.steps:
            if isinstance(step, Generated):
                texts.setdefault(step.source, f"kernel{len(texts)}")
                helpers[step.helpers] = None
        self._functions: dict[str, Any] = {}
        if not texts:
            return
        bodies = [re.sub(r"\bkernel\(", f"{name}(", text, count=1) for text, name in texts.items()]
        code = PRELUDE + "".join(helpers) + "\n".join(bodies)
        module = self.cupy.RawModule(code=code, options=("-std=c++17",), backend="nvrtc")
        self._functions = {text: module.get_function(name) for text, name in texts.items()}

    def pointer(self, view: View) -> int:
        """The address of the first element of ``view``."""
        return self._memory[view.buffer].data.ptr + view.offset * np.dtype(numpy_dtype(view.dtype)).itemsize

    def _launch(self, number: int, step: Step, stream: Any) -> None:
        if isinstance(step, Generated):
            given = tuple(self._memory[b].data.ptr for b in step.arguments)
            self._functions[step.source]((step.grid,), (step.block,), given)
        else:
            space = self._spaces.get(number)
            address = self._work.data.ptr + space if space is not None else 0
            self.calls[number].launch(self.pointer, address, stream.ptr)

    def enqueue(self, only: int | None = None) -> None:
        """Launches every step (or one) on this program's stream, without a graph."""
        with self.stream:
            for number, step in enumerate(self.plan.steps):
                if only is None or number == only:
                    self._launch(number, step, self.stream)

    def _capture(self) -> Any:
        """One CUDA graph of all steps; steps on different streams become independent branches."""
        cupy = self.cupy
        self.enqueue()  # outside of a capture once: libraries load their kernels lazily
        self.stream.synchronize()
        streams = [self.stream] + [cupy.cuda.Stream(non_blocking=True) for _ in range(self.schedule.count - 1)]
        waited = {w for waits in self.schedule.waits for w in waits}
        events: dict[int, Any] = {}
        self.stream.begin_capture()
        fork = cupy.cuda.Event(disable_timing=True)
        fork.record(self.stream)
        for stream in streams[1:]:
            stream.wait_event(fork)
        for number, step in enumerate(self.plan.steps):
            stream = streams[self.schedule.streams[number]]
            for other in self.schedule.waits[number]:
                stream.wait_event(events[other])
            with stream:
                self._launch(number, step, stream)
            if number in waited:
                events[number] = cupy.cuda.Event(disable_timing=True)
                events[number].record(stream)
        for stream in streams[1:]:
            join = cupy.cuda.Event(disable_timing=True)
            join.record(stream)
            self.stream.wait_event(join)
        self._keep = streams, events
        return self.stream.end_capture()

    # --- running

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name for inputs by name (NumPy arrays of the model's dtypes and shapes).

        Raises:
            UsageError: an input is missing, unknown, or has another shape or dtype.
        """
        if set(feeds) != set(self.plan.inputs):
            raise UsageError(f"the inputs are {', '.join(self.plan.inputs)}, not {', '.join(feeds) or 'none'}")
        for name, view in self.plan.inputs.items():
            given, dtype = np.asarray(feeds[name]), np.dtype(numpy_dtype(view.dtype))
            if given.shape != view.shape or given.dtype != dtype:
                raise UsageError(
                    f"input {name} is {view.dtype}{list(view.shape)}, not {given.dtype}{list(given.shape)}"
                )
            self._memory[view.buffer].set(np.ascontiguousarray(given).reshape(-1).view(np.uint8), stream=self.stream)
        self.graph.launch(self.stream)
        self.stream.synchronize()
        return {name: self._read(view) for name, view in zip(self.names, self.plan.outputs, strict=True)}

    def _read(self, view: View) -> Array:
        raw = self._memory[view.buffer].get()
        return raw.view(np.dtype(numpy_dtype(view.dtype)))[: view.elements].reshape(view.shape)

    def seconds(self, replays: int = 50, rounds: int = 7) -> float:
        """Median seconds of one run, inputs in place: ``rounds`` times ``replays`` replays, back to back."""
        cupy, found = self.cupy, list[float]()
        for _ in range(3):
            self.graph.launch(self.stream)
        for _ in range(rounds):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record(self.stream)
            for _ in range(replays):
                self.graph.launch(self.stream)
            end.record(self.stream)
            end.synchronize()
            found.append(cupy.cuda.get_elapsed_time(start, end) / 1e3 / replays)
        return median(found)

    def profile(self, repeats: int = 20) -> list[tuple[str, str, float]]:
        """Kind, title and seconds of every step on its own, in a replayed graph, its operands in the cache."""
        from egraph_opt.runtime.cuda.tune import timed

        return [
            (
                step.kind,
                step.title,
                timed(self.cupy, self.stream, lambda _, s, n=n, step=step: self._launch(n, step, self.stream), repeats),
            )
            for n, step in enumerate(self.plan.steps)
        ]


def compile(
    model: Model | TensorGraph, *, fast: bool = False, sizes: Mapping[str, int] | None = None,
    cache: str | Path | None = None, tuner: Tuner | None = None, streams: int = 4,
) -> Program:  # fmt: skip
    """A model as a program for this machine's GPU.

    Args:
        model: path, ``ModelProto``, ``onnx_ir.Model`` or tensor graph.
        fast: float32 products and convolutions may use TF32.
        sizes: numbers for the symbolic sizes.
        cache: JSON file with the fastest library calls; read, and written with what is timed now.

    Raises:
        UsageError: no GPU, a missing library, or an operator that the executor does not support.
        BudgetError: the model does not fit into the GPU's memory.
    """
    machine()
    names: tuple[str, ...]
    if isinstance(model, TensorGraph):
        graph = model
        names = tuple(f"output{i}" for i in range(len(graph.outputs)))
    else:
        proto: onnx_ir.Model = to_ir(model)
        graph = import_model(proto).graph
        names = tuple(value.name or "" for value in proto.graph.outputs)
    tuner = tuner or Tuner(Choices(Path(cache) if cache is not None else None))
    program = Program(make_plan(graph, sizes), names, fast=fast, tuner=tuner, streams=streams)
    tuner.choices.save()
    return program
