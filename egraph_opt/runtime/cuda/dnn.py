"""Convolutions through cuDNN's graphs: convolution, bias, residual and Relu are one plan; plans are candidates."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from egraph_opt.runtime.cuda.device import library
from egraph_opt.runtime.cuda.prices import key_of
from egraph_opt.runtime.cuda.steps import Convolution, Product
from egraph_opt.runtime.cuda.views import View

Pointer = Callable[[View], int]
_MOST_PLANS = 12
_SECONDS = 1.5


@dataclass
class DnnCall:
    """One execution plan of one convolution."""

    owner: _Described
    index: int
    space: int
    label: str
    views: tuple[View, ...]

    def launch(self, pointer: Pointer, space: int, stream: int, early: bool = False, lead: bool = False) -> None:
        """Enqueues the convolution; the library's kernels neither begin early nor let others."""
        dnn = self.owner.dnn
        dnn.api.set_stream(dnn.handle, stream)
        pack = {tensor: pointer(view) for tensor, view in zip(self.owner.tensors, self.views, strict=True)}
        self.owner.graph.execute_plan_at_index(pack, space or dnn.no_space, self.index, dnn.handle)


class Dnn:
    """The library, once per process; ``no_space`` is an address for plans that need no work space."""

    def __init__(self, no_space: int) -> None:
        self.api, self.no_space = library("cudnn"), no_space
        self.handle = self.api.create_handle()
        self._described: dict[str, _Described] = {}

    def calls(self, step: Convolution, fast: bool) -> list[DnnCall]:
        """Plans for ``step`` that build, the ones that cuDNN prefers first; ``fast`` lets float32 use TF32."""
        described = self._graph_of(step, fast)
        begin, found = time.monotonic(), list[DnnCall]()
        for index in range(described.count):
            call = described.built(index, step)
            if call is not None:
                found.append(call)
            if len(found) >= _MOST_PLANS or (found and time.monotonic() - begin > _SECONDS):
                break
        return found

    def call(self, step: Convolution, fast: bool, label: str) -> DnnCall | None:
        """The plan that ``label`` names, if there is one."""
        if not label.startswith("cudnn:"):
            return None
        described = self._graph_of(step, fast)
        for index in range(described.count):
            if described.name(index) == label:
                return described.built(index, step)
        return None

    def _graph_of(self, step: Convolution, fast: bool) -> _Described:
        """The graph of a convolution: building one, and its plans, takes long, so each is kept."""
        key = key_of(step, fast)
        if key not in self._described:
            self._described[key] = _Described(self, step, fast)
        return self._described[key]


class _Described:
    """A convolution as a graph of cuDNN."""

    def __init__(self, dnn: Dnn, step: Convolution, fast: bool) -> None:
        self.dnn, api = dnn, dnn.api
        step = _planar(step)
        types = api.data_type
        kind = {"float16": types.HALF, "bfloat16": types.BFLOAT16, "float32": types.FLOAT}[step.y.dtype]
        self.graph = graph = api.pygraph(
            io_data_type=kind, intermediate_data_type=types.FLOAT, compute_data_type=types.FLOAT, handle=dnn.handle
        )
        self.tensors: list[Any] = []
        self.spaces: dict[int, int | None] = {}

        def tensor(name: str, view: View, dim: tuple[int, ...], stride: tuple[int, ...]) -> Any:
            made = graph.tensor(name=name, dim=list(dim), stride=list(stride), data_type=kind)
            self.tensors.append(made)
            return made

        spatial = len(step.y.shape) - 2
        x, w = (tensor(n, v, v.shape, _steps(v)) for n, v in (("x", step.x), ("w", step.w)))
        y = graph.conv_fprop(
            image=x, weight=w, pre_padding=list(step.pads[:spatial]), post_padding=list(step.pads[spatial:]),
            stride=list(step.strides), dilation=list(step.dilations), compute_data_type=types.FLOAT,
        )  # fmt: skip
        if step.bias is not None:
            count = step.bias.elements
            dim = (1, count, *(1,) * spatial)
            y = graph.bias(input=y, bias=tensor("b", step.bias, dim, (count, 1, *(count,) * spatial)))
        if step.residual is not None:
            y = graph.add(a=y, b=tensor("r", step.residual, step.residual.shape, _steps(step.residual)))
        if step.activation == "Relu":
            y = graph.relu(input=y)
        y.set_output(True).set_data_type(kind).set_dim(list(step.y.shape)).set_stride(list(_steps(step.y)))
        self.tensors.append(y)
        self.count = self._plan(kind == types.FLOAT and not fast)

    def _plan(self, exact: bool) -> int:
        api, graph = self.dnn.api, self.graph
        try:
            graph.validate()
            graph.build_operation_graph()
            graph.create_execution_plans([api.heur_mode.A, api.heur_mode.B, api.heur_mode.FALLBACK])
            if exact:
                graph.deselect_numeric_notes([api.numerical_note.TENSOR_CORE, api.numerical_note.DOWN_CONVERT_INPUTS])
            graph.check_support()
        except Exception:  # noqa: BLE001 - cuDNN says that it has no plan in several ways
            return 0
        return graph.get_execution_plan_count()

    def name(self, index: int) -> str:
        """The label of a plan."""
        return f"cudnn:{self.graph.get_plan_name_at_index(index)}"

    def built(self, index: int, step: Convolution) -> DnnCall | None:
        """A plan that is ready to run ``step``, or ``None`` where cuDNN cannot build it."""
        if index not in self.spaces:
            self.spaces[index] = self._build(index)
        space = self.spaces[index]
        views = (step.x, step.w, step.bias, step.residual, step.y)
        present = tuple(view for view in views if view is not None)
        return None if space is None else DnnCall(self, index, space, self.name(index), present)

    def _build(self, index: int) -> int | None:
        try:
            self.graph.build_plan_at_index(index)
            return int(self.graph.get_workspace_size_plan_at_index(index))
        except Exception:  # noqa: BLE001 - not every plan builds
            return None


def as_product(step: Convolution) -> Product | None:
    """A 1x1 convolution with the channels fastest as a product of pixels and filters, where it is one."""
    taps = step.w.shape[2:]
    plain = step.group == 1 and set(step.strides) == {1} and not any(step.pads) and all(n == 1 for n in taps)
    rows = [_rows(v) for v in (step.x, step.y, step.residual) if v is not None]
    if not plain or any(r is None for r in rows):
        return None
    filters, channels = step.w.shape[:2]
    w = replace(step.w, shape=(1, channels, filters), strides=(0, 1, channels))
    x, y, *rest = rows
    assert x is not None and y is not None
    return Product(
        step.title, step.reads, step.writes, x, w, y, step.bias, rest[0] if rest else None, 1.0, step.activation
    )


def _rows(view: View) -> View | None:
    """(N, C, *spatial) as (1, pixels, C), where strides can say that."""
    axes = [(n, s) for i, (n, s) in enumerate(zip(view.shape, view.strides, strict=True)) if i != 1 and n > 1]
    for (_, outer), (count, inner) in pairwise(axes):
        if outer != inner * count:
            return None
    pixels = 1
    for n, _ in axes:
        pixels *= n
    step = axes[-1][1] if axes else view.shape[1]
    return replace(view, shape=(1, pixels, view.shape[1]), strides=(0, step, 1))


def _planar(step: Convolution) -> Convolution:
    """A convolution over one spatial axis as one over two."""
    if len(step.y.shape) != 3:
        return step

    def widen(view: View) -> View:
        (n, c, w), (a, b, s) = view.shape, view.strides
        return replace(view, shape=(n, c, 1, w), strides=(a, b, w * s, s))

    return replace(
        step, x=widen(step.x), w=widen(step.w), y=widen(step.y), strides=(1, *step.strides),
        pads=(0, step.pads[0], 0, step.pads[1]), dilations=(1, *step.dilations),
        residual=None if step.residual is None else widen(step.residual),
    )  # fmt: skip


def _steps(view: View) -> tuple[int, ...]:
    """Strides that cuDNN accepts: those of axes of size 1 as if the tensor were packed with the channels fastest."""
    strides = list(view.strides)
    for axis in (*reversed(range(2, len(strides))), 0):
        if view.shape[axis] == 1:
            inner = axis + 1 if 2 <= axis < len(strides) - 1 else 1 if axis else 2
            below = strides[inner] * view.shape[inner] if inner < len(strides) else view.shape[1]
            strides[axis] = max(below, view.shape[1])
    return tuple(strides)
