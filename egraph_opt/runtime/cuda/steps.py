"""What a plan is: launches of generated code and calls of libraries, with the views they read and write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.ops.kinds import Array
from egraph_opt.runtime.cuda.views import View


@dataclass(frozen=True)
class Step:
    """One launch. ``title`` says for people what it computes."""

    title: str
    reads: tuple[View, ...]
    writes: tuple[View, ...]

    @property
    def kind(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Generated(Step):
    """A kernel of our own: ``grid`` blocks of ``block`` threads; its parameters are pointers to whole buffers.

    ``source`` is one function called ``kernel``, which needs ``expressions.PRELUDE`` and ``helpers`` before it.
    """

    source: str
    grid: int
    block: int
    arguments: tuple[int, ...]
    helpers: str = ""


@dataclass(frozen=True)
class Product(Step):
    """``d = activation(alpha * a @ b + bias + beta * c)`` for matrices (*batch, m, k) and (*batch, k, n).

    ``bias`` has n entries; ``c`` is laid out as ``d``. Every matrix has an axis of stride 1.
    """

    a: View
    b: View
    d: View
    bias: View | None = None
    c: View | None = None
    alpha: float = 1.0
    activation: str | None = None


@dataclass(frozen=True)
class Convolution(Step):
    """``y = activation(conv(x, w) + bias + residual)``.

    x is (N, C, *spatial) and w (M, C/group, *kernel), both with the channels fastest.
    """

    x: View
    w: View
    y: View
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    group: int = 1
    bias: View | None = None
    residual: View | None = None
    activation: str | None = None


Role = Literal["input", "weight", "work", "output"]


@dataclass(frozen=True)
class Buffer:
    """Memory for ``elements`` of ``dtype``; ``load`` gives a weight as it lies there, and ``key`` says which it is."""

    role: Role
    dtype: str
    elements: int
    name: str = ""
    load: Callable[[], Array] | None = None
    key: str = ""

    @property
    def bytes(self) -> int:
        return self.elements * TensorType(self.dtype, ()).itemsize


@dataclass(frozen=True)
class Plan:
    """Steps in an order in which they may run.

    Attributes:
        inputs, outputs: views by name; outputs are row-major.
    """

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    inputs: Mapping[str, View]
    outputs: tuple[View, ...]
    graph: TensorGraph

    def __str__(self) -> str:
        rows = [f"{i:4} {step.kind:12} {step.title}" for i, step in enumerate(self.steps)]
        work = sum(b.bytes for b in self.buffers if b.role == "work")
        weights = sum(b.bytes for b in self.buffers if b.role == "weight")
        return "\n".join(
            [*rows, f"{len(self.steps)} steps, {weights / 1e6:.1f} MB weights, {work / 1e6:.1f} MB written"]
        )
