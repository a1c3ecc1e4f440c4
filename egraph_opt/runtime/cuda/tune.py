"""Times steps once: the candidates of a library call, of which it remembers the fastest, and kernels of our own."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

from egraph_opt.errors import UsageError
from egraph_opt.runtime.cuda.blas import Blas
from egraph_opt.runtime.cuda.device import library, main_stream
from egraph_opt.runtime.cuda.dnn import Dnn, as_product
from egraph_opt.runtime.cuda.expressions import PRELUDE
from egraph_opt.runtime.cuda.prices import key_of, room_of
from egraph_opt.runtime.cuda.steps import Buffer, Convolution, Generated, Product, Step
from egraph_opt.runtime.cuda.thin import Thin
from egraph_opt.runtime.cuda.views import View

_COLD = 160 * 2**20
"""Bytes over which the weights are rotated while timing: more than any L2 cache, so that they come from memory."""
_REPEATS, _MOST_REPEATS, _SMALL = 12, 64, 2**18
"""Launches in a timed graph, and the most of them where going through all copies of the weights takes more; and bytes
of weights that lie in the cache anyway."""
_PLACES = 3
_NEAR, _MOST_RIVALS = 1.4, 5
"""How much slower alone a call may be to be a rival of the fastest, and how many there are at most."""
_IDLE = 0.02
"""Seconds without work after which a GPU has to be warmed up for longer."""

Pointer = Callable[[View], int]


@dataclass(frozen=True)
class Launch:
    """Something to enqueue, ``launch(pointer, space, stream, early, lead)``, and the bytes of work space it needs."""

    launch: Callable[[Pointer, int, int, bool, bool], None]
    space: int


class Call(Protocol):
    """A product or convolution that is ready to be enqueued; ``space`` is its work space in bytes, and ``early`` and
    ``lead`` are those of ``launch.enqueue``."""

    space: int

    @property
    def label(self) -> str: ...

    def launch(self, pointer: Pointer, space: int, stream: int, early: bool = False, lead: bool = False) -> None: ...


@dataclass
class Choices:
    """The best call by key, with its seconds; kept in a JSON file where ``path`` is given."""

    path: Path | None = None
    known: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            self.known = {k: (v[0], float(v[1])) for k, v in json.loads(self.path.read_text()).items()}

    def save(self) -> None:
        """Writes the file, if there is one."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.known, indent=0, sort_keys=True))


class Tuner:
    """Finds the fastest call for a step.

    ``again`` takes over which call is the fastest from the choices, and times it once more. ``alone``: steps are timed
    for networks that are not known, so that their weights are taken to be cold; else weights are as cold as those of
    the whole network (see ``prices.room_of``).

    Attributes:
        rivals: by key, seconds and labels of calls that took not much longer than the one that ``best`` chose: for
            products that a kernel of our own can compute, until a program has tried them where they run.
    """

    def __init__(self, choices: Choices, *, again: bool = False, alone: bool = False) -> None:
        self.cupy, self.again, self.alone = library("cupy"), again, alone
        self.choices = choices
        self.stream = main_stream()
        self._block: Any = None
        self._worked, self._timed = 0.0, set[str]()
        self.rivals: dict[str, list[tuple[float, str]]] = {}
        self.functions: dict[str, Any] = {}
        self.weights: dict[str, Any] = {}
        self.blas, self.thin = Blas(), Thin()
        self.dnn = Dnn(self.cupy.cuda.alloc(256).ptr)

    def compile(self, steps: Iterable[Step]) -> None:
        """Compiles the kernels of ``steps`` that are new, as one module: the headers are read once."""
        texts: dict[str, str] = {}
        helpers: dict[str, None] = {}
        for step in steps:
            if isinstance(step, Generated) and step.source not in self.functions:
                texts.setdefault(step.source, f"kernel{len(texts)}")
                helpers[step.helpers] = None
        if not texts:
            return
        bodies = [re.sub(r"\bkernel\(", f"{name}(", text, count=1) for text, name in texts.items()]
        code = PRELUDE + "".join(helpers) + "\n".join(bodies)
        module = self.cupy.RawModule(code=code, options=("-std=c++17",), backend="nvrtc")
        self.functions |= {text: module.get_function(name) for text, name in texts.items()}

    def weight(self, buffer: Buffer) -> Any:
        """The weight of a buffer on the GPU; programs of one tuner share it."""
        assert buffer.load is not None
        if buffer.key not in self.weights:
            self.weights[buffer.key] = self.cupy.asarray(np.ascontiguousarray(buffer.load()).reshape(-1).view(np.uint8))
        return self.weights[buffer.key]

    def best(self, step: Product | Convolution, fast: bool, buffers: Sequence[Buffer]) -> Call:
        """The fastest call, from memory or timed now.

        Raises:
            UsageError: no library has an implementation.
        """
        key = self.key(step, fast, buffers)
        for known in [k for k in (key, key_of(step, fast)) if k in self.choices.known]:
            found = self.named(step, fast, self.choices.known[known][0])
            if found is not None:
                if known != key or (self.again and key not in self._timed):
                    seconds = self.seconds(Launch(found.launch, found.space), step, buffers)
                    self.choices.known[key] = (found.label, seconds)
                self._timed.add(key)
                return found
        calls = self._calls(step, fast)
        if not calls:
            raise UsageError(f"neither cuBLAS nor cuDNN can run {step.title}")
        timed = [
            (self.seconds(Launch(call.launch, call.space), step, buffers), number) for number, call in enumerate(calls)
        ]
        seconds, number = min(timed)
        if seconds == float("inf"):
            raise UsageError(f"no implementation of {step.title} runs on this GPU")
        self.choices.known[key] = (calls[number].label, seconds)
        self._timed.add(key)
        near = [(taken, calls[i].label) for taken, i in sorted(timed) if taken < _NEAR * seconds and i != number]
        if any(label.startswith("thin:") for label in [calls[number].label, *(label for _, label in near)]):
            self.rivals[key] = near[:_MOST_RIVALS]
        return calls[number]

    def key(self, step: Step, fast: bool, buffers: Sequence[Buffer]) -> str:
        """The key of a step of a network with these buffers."""
        return key_of(step, fast, 0 if self.alone else room_of(buffers))

    def known(self, step: Product | Convolution, fast: bool, buffers: Sequence[Buffer]) -> float:
        """Seconds of the best call for ``step``, which ``best`` has found."""
        return self.choices.known[self.key(step, fast, buffers)][1]

    def generated(self, step: Generated, launch: Launch, buffers: Sequence[Buffer]) -> float:
        """Seconds of a kernel of our own, from memory or timed now.

        Raises:
            UsageError: it does not run.
        """
        key = self.key(step, True, buffers)
        if key not in self.choices.known or (self.again and key not in self._timed):
            self._timed.add(key)
            seconds = self.seconds(launch, step, buffers)
            if seconds == float("inf"):
                raise UsageError(f"the kernel of {step.title} does not run on this GPU")
            self.choices.known[key] = ("generated", seconds)
        return self.choices.known[key][1]

    def _calls(self, step: Product | Convolution, fast: bool) -> list[Call]:
        product = step if isinstance(step, Product) else as_product(step)
        calls: list[Call] = []
        if product is not None:
            calls += [*self.thin.calls(product, fast), *self.blas.calls(product, fast)]
        if isinstance(step, Convolution):
            calls += self.dnn.calls(step, fast)
        return calls

    def named(self, step: Product | Convolution, fast: bool, label: str) -> Call | None:
        """The call for ``step`` that a label names, if it is one of them."""
        product = step if isinstance(step, Product) else as_product(step)
        found: Call | None = None
        if product is not None:
            found = self.thin.call(product, fast, label) or self.blas.call(product, fast, label)
        return self.dnn.call(step, fast, label) if found is None and isinstance(step, Convolution) else found

    def seconds(self, call: Launch, step: Step, buffers: Sequence[Buffer]) -> float:
        """Median seconds of a call in a replayed graph, its weights as cold as those of its network, everything else in
        the cache.

        Floats are small random numbers, and whole numbers 0: they may be indices.
        """
        used = {v.buffer: buffers[v.buffer] for v in (*step.reads, *step.writes)}
        whole, zeros = _laid({n: b for n, b in used.items() if not b.dtype.startswith(("float", "bfloat"))})
        warm, size = _laid({n: b for n, b in used.items() if b.role != "weight" and n not in whole})
        cold, once = _laid({n: b for n, b in used.items() if b.role == "weight" and n not in whole})
        copies, repeats, shifts = self._turns(once, buffers)
        base = self._scratch(max(size + once * copies + call.space + 256, _COLD) + shifts[-1])
        block = self.cupy.zeros(max(zeros, 256), self.cupy.uint8)
        self.cupy.cuda.Device().synchronize()  # our stream does not wait for the one that filled it

        def pointer(turn: int, base: int) -> Pointer:
            def of(view: View) -> int:
                inside = view.offset * (2 if view.dtype == "bfloat16" else np.dtype(view.dtype).itemsize)
                if view.buffer in whole:
                    return block.data.ptr + whole[view.buffer] + inside
                if view.buffer in warm:
                    return base + warm[view.buffer] + inside
                return base + size + turn % copies * once + cold[view.buffer] + inside

            return of

        def taken(start: int) -> float:
            space, idle = start + size + once * copies, time.monotonic() - self._worked
            spin = 2e-3 if idle < _IDLE else 2e-2
            found = timed(
                self.cupy, self.stream, lambda n, s: call.launch(pointer(n, start), space, s, True, True), repeats,
                warm=spin,
            )  # fmt: skip
            self._worked = time.monotonic()
            return found

        return median(taken(base + shift) for shift in shifts)

    def _turns(self, once: int, buffers: Sequence[Buffer]) -> tuple[int, int, Sequence[int]]:
        """How many copies there are of the weights of a step, of ``once`` bytes, how many launches, and where else in
        memory they are timed: what stays in a cache that is nearly full depends on that."""
        room = 0 if self.alone else room_of(buffers)
        wanted = max(1, (room * 2**20 if room else _COLD) // max(once, 1))
        repeats = _REPEATS if once < _SMALL else max(_REPEATS, min(_MOST_REPEATS, wanted))
        copies = min(repeats, wanted)
        return copies, repeats // copies * copies, [i * _COLD // 2 for i in range(_PLACES)] if room else [0]

    def _scratch(self, size: int) -> int:
        """The address of at least ``size`` bytes of small random numbers."""
        if self._block is None or self._block.nbytes < size:
            self._block = None
            some = np.random.default_rng(0).normal(0, 0.1, 1 << 20).astype(np.float16)
            self._block = self.cupy.resize(self.cupy.asarray(some), -(-size // 2))
            self.cupy.cuda.Device().synchronize()
        return self._block.data.ptr


def _laid(buffers: Mapping[int, Buffer]) -> tuple[dict[int, int], int]:
    """Buffers one after the other: their offsets by number, and the bytes of all."""
    places, end = dict[int, int](), 0
    for number, buffer in buffers.items():
        places[number], end = end, end + -(-buffer.bytes // 256) * 256
    return places, end


def timed(
    cupy: Any, stream: Any, launch: Callable[[int, int], None], repeats: int, *, warm: float = 2e-3, rounds: int = 7
) -> float:
    """Median seconds of one ``launch(number, stream)`` inside a replayed CUDA graph; infinity where it fails.

    ``warm``: seconds of replays before the first reading: a GPU that was idle runs slowly at first.
    """

    def replayed() -> float:
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record(stream)
        graph.launch(stream)
        end.record(stream)
        end.synchronize()
        return cupy.cuda.get_elapsed_time(start, end) / 1e3

    try:
        with stream:
            launch(0, stream.ptr)
            stream.synchronize()
            stream.begin_capture()
            try:
                for number in range(repeats):
                    launch(number, stream.ptr)
            finally:
                graph = stream.end_capture()
            once = replayed()
            for _ in range(min(500, math.ceil(warm / max(once, 1e-6)))):
                graph.launch(stream)
            found = [replayed() / repeats for _ in range(rounds)]
    except Exception:  # noqa: BLE001 - a plan that does not run is no candidate; CUDA's errors have many types
        return float("inf")
    return median(found)
