"""Runs a plan on the GPU: one CUDA graph, independent steps on several streams."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from egraph_opt.errors import BudgetError, UsageError
from egraph_opt.ir import TensorGraph
from egraph_opt.ops import numpy_dtype
from egraph_opt.ops.kinds import Array
from egraph_opt.runtime.costs import Orders
from egraph_opt.runtime.cuda.blas import BlasCall
from egraph_opt.runtime.cuda.device import library, machine, main_stream
from egraph_opt.runtime.cuda.launch import enqueue
from egraph_opt.runtime.cuda.memory import offsets
from egraph_opt.runtime.cuda.plan import plans_of
from egraph_opt.runtime.cuda.schedule import early_starts, schedule
from egraph_opt.runtime.cuda.steps import Convolution, Generated, Plan, Product
from egraph_opt.runtime.cuda.thin import ThinCall
from egraph_opt.runtime.cuda.tune import Call, Choices, Launch, Pointer, Tuner
from egraph_opt.runtime.cuda.views import View

if TYPE_CHECKING:
    from egraph_opt.onnx_io.load import Model

_NEAR, _BETTER = 1.25, 0.003
"""How much slower alone a call may be that is tried in its place, and by what share it must win there."""


class Program:
    """A plan with its memory, its kernels and its CUDA graph. Made by ``compile``.

    Attributes:
        plan: its steps in the order in which they are launched.
        alone: seconds of each step by itself.
        schedule: streams, and the seconds of a run by simulation.
        stream: where it runs: that of the thread that made it, see ``device.main_stream``.
    """

    def __init__(
        self, plan: Plan, names: tuple[str, ...], *, fast: bool, tuner: Tuner, streams: int = 8,
        layouts: bool = True, early: bool = True,
    ) -> None:  # fmt: skip
        self.plan, self.names, self.layouts, self.early = plan, names, layouts, early
        self.cupy = library("cupy")
        self.stream = main_stream()
        self.calls: dict[int, Call] = {}
        self._carves, self._starts = False, (set[int](), set[int]())
        try:
            for number, step in enumerate(plan.steps):
                if isinstance(step, Product):
                    self._product(number, step, fast, tuner)
                elif isinstance(step, Convolution):
                    self.calls[number] = tuner.best(step, fast, plan.buffers)
            tuner.compile(plan.steps)
            self._functions = tuner.functions
            self._schedule(fast, tuner, streams)
            self._allocate(tuner)
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise BudgetError(f"the model does not fit into the memory of the GPU: {error}") from None
        self.graph = self._capture()
        self._settle(fast, tuner)

    # --- building

    def _product(self, number: int, step: Product, fast: bool, tuner: Tuner) -> None:
        """Picks the call, and whether a weight of this step alone lies as (K, N) or as (N, K)."""
        plan = self.plan
        self.calls[number] = tuner.best(step, fast, plan.buffers)
        turned = other_layout(plan, step) if self.layouts else None
        if turned is None:
            return
        call = tuner.best(turned, fast, plan.buffers)
        near = 1.0 if isinstance(call, BlasCall) else _NEAR
        if tuner.known(turned, fast, plan.buffers) < tuner.known(step, fast, plan.buffers) * near:
            self.calls[number] = call
            buffer = plan.buffers[step.b.buffer]
            load, shape = buffer.load, (step.b.shape[0] * step.b.shape[1], step.b.shape[2])
            assert load is not None
            lies = replace(
                buffer, key=f"{buffer.key} turned", load=lambda: np.ascontiguousarray(load().reshape(shape).T)
            )
            buffers = tuple(lies if i == step.b.buffer else b for i, b in enumerate(plan.buffers))
            steps = tuple(turned if i == number else s for i, s in enumerate(plan.steps))
            self.plan = replace(plan, buffers=buffers, steps=steps)

    def _settle(self, fast: bool, tuner: Tuner) -> None:
        """Tries the near rivals of a call where it runs: alone, a kernel that begins early shows only a part of it."""
        places: dict[str, list[int]] = {}
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, Product | Convolution):
                places.setdefault(tuner.key(step, fast, self.plan.buffers), []).append(number)
        rivals = {key: tuner.rivals.pop(key) for key in places if key in tuner.rivals}
        best = self.seconds(replays=10, rounds=5) if rivals else 0.0
        for key, found in rivals.items():
            for seconds, label in found:
                before = self.calls
                tried = {number: self._named(tuner, number, fast, label) for number in places[key]}
                self.calls = before | tried
                self.rebuild(tuner)
                taken = self.seconds(replays=10, rounds=5)
                if taken < best * (1 - _BETTER):
                    best, tuner.choices.known[key] = taken, (label, seconds)
                else:
                    self.calls = before
        if rivals:
            self.rebuild(tuner)

    def _named(self, tuner: Tuner, number: int, fast: bool, label: str) -> Call:
        step = self.plan.steps[number]
        assert isinstance(step, Product | Convolution)
        call = tuner.named(step, fast, label)
        assert call is not None, f"{label} runs no longer"
        return call

    def rebuild(self, tuner: Tuner) -> None:
        """Allocates and captures anew: with other calls, or with the weights that ``tuner`` now has."""
        self._allocate(tuner)
        self.graph = self._capture()

    def _schedule(self, fast: bool, tuner: Tuner, streams: int) -> None:
        """Puts the steps into the best order, going by their seconds."""
        seconds = [
            tuner.generated(step, self.launcher(number), self.plan.buffers)
            if isinstance(step, Generated)
            else tuner.known(step, fast, self.plan.buffers)
            for number, step in enumerate(self.plan.steps)
            if isinstance(step, Generated | Product | Convolution)
        ]
        self.schedule = schedule(self.plan.steps, seconds, streams)
        self.alone = [seconds[number] for number in self.schedule.order]
        self.plan = replace(self.plan, steps=tuple(self.plan.steps[number] for number in self.schedule.order))
        self.calls = {
            place: self.calls[number] for place, number in enumerate(self.schedule.order) if number in self.calls
        }

    def _allocate(self, tuner: Tuner) -> None:
        cupy, spaces = self.cupy, {n: call.space for n, call in self.calls.items()}
        thin = {number for number, call in self.calls.items() if isinstance(call, ThinCall)}
        self._carves = bool(thin)
        if self.early:
            ours = [isinstance(step, Generated) or n in thin for n, step in enumerate(self.plan.steps)]
            self._starts = early_starts(self.schedule, ours)
        places, self._spaces, size = offsets(self.plan, self.schedule, spaces)
        self._work = cupy.zeros(max(size, 256), cupy.uint8)
        self._memory: list[Any] = []
        for number, buffer in enumerate(self.plan.buffers):
            if number in places:
                self._memory.append(self._work[places[number] : places[number] + buffer.bytes])
            elif buffer.load is not None:
                self._memory.append(tuner.weight(buffer))
            else:
                self._memory.append(cupy.zeros(buffer.bytes, cupy.uint8))
        cupy.cuda.Device().synchronize()  # our streams do not wait for the one that filled them

    def pointer(self, view: View) -> int:
        """The address of the first element of ``view``."""
        return self._memory[view.buffer].data.ptr + view.offset * np.dtype(numpy_dtype(view.dtype)).itemsize

    def launcher(self, number: int) -> Launch:
        """What enqueues a step on the current stream, given where buffers lie and a work space."""
        step = self.plan.steps[number]
        if isinstance(step, Generated):
            function, bases = self._functions[step.source], [View(b, "int8", (), ()) for b in step.arguments]

            def launch(pointer: Pointer, space: int, stream: int, early: bool, lead: bool) -> None:
                addresses = [pointer(base) for base in bases]
                handle, carve = function.kernel.ptr, early and self._carves
                enqueue(handle, step.grid, step.block, addresses, stream, early=early, lead=lead, carve=carve)

            return Launch(launch, 0)
        call = self.calls[number]
        return Launch(call.launch, call.space)

    def _launch(self, number: int, stream: Any, early: bool = False, lead: bool = False) -> None:
        space = self._spaces.get(number)
        address = 0 if space is None else self._work.data.ptr + space
        self.launcher(number).launch(self.pointer, address, stream.ptr, early, lead)

    def enqueue(self, only: int | None = None) -> None:
        """Launches every step (or one) on ``stream``, without a graph."""
        with self.stream:
            for number in range(len(self.plan.steps)):
                if only is None or number == only:
                    self._launch(number, self.stream)

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
        for number in range(len(self.plan.steps)):
            stream = streams[self.schedule.streams[number]]
            for other in self.schedule.waits[number]:
                stream.wait_event(events[other])
            with stream:
                self._launch(number, stream, number in self._starts[0], number in self._starts[1])
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

    def profile(self, tuner: Tuner) -> list[tuple[str, str, float]]:
        """Kind, title and seconds of every step on its own: see ``Tuner.seconds``."""
        known: dict[object, float] = {}
        rows: list[tuple[str, str, float]] = []
        for number, step in enumerate(self.plan.steps):
            key = step.source if isinstance(step, Generated) else (step.title, self.calls[number].label)
            if key not in known:
                known[key] = tuner.seconds(self.launcher(number), step, self.plan.buffers)
            rows.append((step.kind, step.title, known[key]))
        return rows


def other_layout(plan: Plan, step: Product) -> Product | None:
    """``step`` with its weight as (N, K), if it is a whole weight that no other step reads."""
    b = step.b
    users = sum(view.buffer == b.buffer for other in plan.steps for view in other.reads)
    if plan.buffers[b.buffer].role != "weight" or users != 1 or not b.is_dense() or b.offset:
        return None
    parts, inner, _ = b.shape  # several parts are rows of one weight
    turned = replace(b, strides=(inner, 1, parts * inner))
    return replace(step, b=turned, reads=tuple(turned if view == b else view for view in step.reads))


def compile(
    model: Model | TensorGraph, *, fast: bool = False, sizes: Mapping[str, int] | None = None,
    cache: str | Path | None = None, tuner: Tuner | None = None, streams: int = 8, layouts: bool = True,
) -> Program:  # fmt: skip
    """A model as a program for this machine's GPU: of several plans (``plans_of``) the quickest one.

    Beside the file of a model, or with a model that ``optimize`` has made, may be the orders in which its values are to
    lie (``runtime.side_file``): plans with these are tried too.

    Args:
        model: path, ``ModelProto``, ``onnx_ir.Model`` or tensor graph.
        fast: float32 products and convolutions may use TF32.
        sizes: numbers for the symbolic sizes.
        cache: JSON file with the fastest library calls; read, and written with what is timed now.
        streams: most steps that run side by side.
        layouts: values and weights may lie in the order that suits their readers; False is for comparisons.

    Raises:
        UsageError: no GPU, a missing library, or an operator that the executor does not support.
        BudgetError: the model does not fit into the GPU's memory.
    """
    machine()
    names: tuple[str, ...]
    orders: Orders | None = None
    if isinstance(model, TensorGraph):
        graph = model
        names = tuple(f"output{i}" for i in range(len(graph.outputs)))
    else:
        from egraph_opt.onnx_io import import_model, to_ir  # measuring operators needs none of ONNX
        from egraph_opt.runtime.side_file import orders_of

        proto = to_ir(model)
        graph = import_model(proto).graph
        orders = orders_of(model, graph) if layouts else None
        names = tuple(value.name or "" for value in proto.graph.outputs)
    tuner = tuner or Tuner(Choices(Path(cache) if cache is not None else None))
    first, *others = plans_of(graph, sizes, exact=not fast, layouts=layouts, orders=orders)
    program = Program(first, names, fast=fast, tuner=tuner, streams=streams, layouts=layouts)
    for plan in others:
        with suppress(BudgetError):  # two lie in memory now
            other = Program(plan, names, fast=fast, tuner=tuner, streams=streams, layouts=layouts)
            program = min(program, other, key=Program.seconds)
    tuner.choices.save()
    return program
