"""The roofline: an operator takes as long as its arithmetic or its memory traffic, whichever is longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from egraph_opt.errors import UsageError
from egraph_opt.runtime.costs import NOTHING, Cost, OnProgress, Quote, Work, work
from egraph_opt.runtime.signature import FREE, Signature


@dataclass(frozen=True, slots=True)
class Device:
    """Speeds that well-written kernels reach in practice, not data-sheet peaks.

    Attributes:
        flops: float32 operations per second (of one core, on a CPU).
        half, double: how much faster float16/bfloat16 and float64 are than float32.
        bandwidth: bytes per second.
        launch: seconds per operator, however small.
        scales: whether ``threads`` multiplies ``flops`` (bandwidth grows by half as much).
    """

    flops: float
    half: float
    double: float
    bandwidth: float
    launch: float
    scales: bool

    def seconds(self, todo: Work, threads: int = 1) -> float:
        """Roofline time of ``todo``, launch included."""
        cores = threads if self.scales else 1
        speed = {"float16": self.half, "bfloat16": self.half, "float64": self.double}.get(todo.dtype, 1.0)
        arithmetic = todo.flops / (self.flops * speed * cores)
        memory = todo.bytes / (self.bandwidth * (1 + cores) / 2)
        return self.launch + max(arithmetic, memory)


DEVICES = MappingProxyType(
    {
        # CPUs: ONNX Runtime's best kernels on one core; tensors mostly in the L2 and L3 caches
        "avx2": Device(8e10, half=0.5, double=0.5, bandwidth=2e10, launch=4e-7, scales=True),
        "avx512": Device(1.4e11, half=0.5, double=0.5, bandwidth=2.5e10, launch=4e-7, scales=True),
        # float32 without TF32; launch is a small kernel inside a replayed CUDA graph (facts/gpu.md: 3.3 us least)
        "h100": Device(5e13, half=10.0, double=0.5, bandwidth=2.6e12, launch=2.5e-6, scales=False),
    }
)


@dataclass(frozen=True)
class Analytic:
    """Prices by formula; needs no hardware and gives the same answer everywhere."""

    name: ClassVar[str] = "analytic"
    description: ClassVar[str] = "roofline of FLOPs and bytes; deterministic, nothing is measured"

    device: str = "avx2"
    threads: int = 1

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise UsageError(f"unknown device {self.device!r}: choose one of {', '.join(DEVICES)}")
        if self.threads < 1:
            raise UsageError(f"threads must be at least 1, not {self.threads}")

    def price(
        self,
        signatures: Sequence[Signature],
        *,
        reference: Sequence[Signature] = (),
        on_progress: OnProgress | None = None,
        deadline: float | None = None,
    ) -> list[Cost]:
        """See ``CostModel.price``; nothing is measured, so neither progress nor deadline matters."""
        known: dict[Signature, Cost] = {}
        for signature in signatures:
            if signature not in known:
                known[signature] = self._cost(signature)
        return [known[s] for s in signatures]

    def quote(self, signatures: Sequence[Signature], *, reference: Sequence[Signature] = ()) -> list[Quote]:
        """See ``CostModel.quote``; every price is known."""
        return [Quote.known(s, cost) for s, cost in zip(signatures, self.price(signatures), strict=True)]

    def _cost(self, signature: Signature) -> Cost:
        if signature.op in FREE:
            return NOTHING
        todo = work(signature)
        seconds = DEVICES[self.device].seconds(todo, self.threads)
        return Cost(seconds, todo.flops, todo.bytes, seconds, "model")
