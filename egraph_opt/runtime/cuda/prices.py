"""Seconds of steps on a card: what has been measured, and for other steps what the measured ones like them took."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from egraph_opt.ir import TensorType
from egraph_opt.runtime.analytic import DEVICES
from egraph_opt.runtime.costs import Work
from egraph_opt.runtime.cuda.fitted import Neighbours, Point
from egraph_opt.runtime.cuda.schedule import schedule
from egraph_opt.runtime.cuda.steps import Buffer, Convolution, Generated, Plan, Product, Step
from egraph_opt.runtime.cuda.views import View

_ROOF = DEVICES["h100"]
_ROOMS = (4, 8, 16, 24, 32, 40, 48)
"""MB, up to a little less than the L2 cache of an H100."""
_SPECIAL = ("Softmax", "LayerNormalization", "MaxPool", "AveragePool", "GlobalAveragePool", "MatMul", "Gemm", "Conv")
STEPS = ("h100",)
"""Cards whose steps ship with the package."""


def room_of(buffers: Iterable[Buffer]) -> int:
    """Over how many MB the weights of a network lie, rounded up; 0 where they are more than an L2 cache keeps until the
    next run."""
    weights = sum(buffer.bytes for buffer in buffers if buffer.role == "weight")
    return next((room for room in _ROOMS if weights <= room * 2**20), 0)


def key_of(step: Step, fast: bool, room: int = 0) -> str:
    """What the seconds of a step depend on: shapes, strides and what is computed, not where it lies; and, where the
    weights of the whole network stay in the cache, ``room_of`` them."""
    return _key(step, fast) + (f" in {room} MB" if room else "")


def _key(step: Step, fast: bool) -> str:

    def said(view: View | None) -> str:
        return "-" if view is None else f"{view.dtype}{list(view.shape)}{list(view.strides)}+{view.offset % 64}"

    if isinstance(step, Product):
        views, rest = (step.a, step.b, step.d, step.bias, step.c), (step.alpha, step.activation)
    elif isinstance(step, Convolution):
        views = (step.x, step.w, step.y, step.bias, step.residual)
        rest = (step.strides, step.pads, step.dilations, step.group, step.activation)
    else:
        assert isinstance(step, Generated)
        return " ".join(["Generated", step.title, *map(said, (*step.reads, *step.writes)), f"{step.grid}x{step.block}"])
    return " ".join([type(step).__name__, *map(said, views), *map(str, rest), "fast" if fast else "exact"])


def point_of(step: Step, fast: bool) -> Point:
    """Where a step lies among others of its kind."""
    moved = sum(view.elements * TensorType(view.dtype, ()).itemsize for view in (*step.reads, *step.writes))
    target = step.writes[0]
    flops = 0
    if isinstance(step, Product):
        inner = step.a.shape[-1]
        flops, sizes = 2 * step.d.elements * inner, (*step.d.shape, inner)
        kind = "product"
    elif isinstance(step, Convolution):
        inner, taps = math.prod(step.w.shape[1:]), math.prod(step.w.shape[2:])
        flops, channels = 2 * step.y.elements * inner, step.y.shape[1]
        sizes = (step.y.elements // channels, channels, inner, step.group)
        kind = "grouped" if step.group > 1 else "pointwise" if taps == 1 else "convolution"
    else:
        assert isinstance(step, Generated)
        words = step.title.split(" -> ")[0].split()
        sizes = (target.elements, step.grid * step.block, sum(view.elements for view in step.reads))
        kind = "generated " + " ".join(word for word in _SPECIAL if word in words)
    exact = target.dtype == "float32" and not fast
    peak = target.dtype if exact or isinstance(step, Generated) else "float16"
    roof = _ROOF.seconds(Work(flops, moved, 0, peak))
    return Point(
        f"{kind} {target.dtype} {'exact' if exact else 'fast'}", [math.log(1 + s) for s in (*sizes, moved)], roof
    )


@dataclass(frozen=True)
class StepPrices:
    """Prices of steps: the measured ones by key, and a model of them for the others."""

    known: Mapping[str, float]
    model: Neighbours

    def seconds(self, step: Step, fast: bool, room: int = 0) -> float:
        """Seconds of a step alone, launched after another one; ``room``: that of the weights of its network."""
        found = self.known.get(key_of(step, fast, room), self.known.get(key_of(step, fast)))
        if found is None:
            point = point_of(step, fast)
            found = self.model.seconds(point) or point.roof
        return found

    def plan(self, plan: Plan, fast: bool, streams: int = 8) -> float:
        """Seconds of one run of a plan, its independent steps side by side."""
        room = room_of(plan.buffers)
        return schedule(plan.steps, [self.seconds(step, fast, room) for step in plan.steps], streams).seconds


def write_steps(path: Path, scope: Sequence[str], steps: Iterable[tuple[Step, bool, int, float]]) -> int:
    """Writes measured steps (step, fast, room, seconds) for ``read_steps``; returns how many are different."""
    rows: dict[str, list[object]] = {}
    for step, fast, room, seconds in steps:
        point, key = point_of(step, fast), key_of(step, fast, room)
        features = [round(f, 3) for f in point.features]
        kind = point.kind + " cached" * bool(room)  # no point for the model, which knows cold weights only
        rows[key] = [key, float(f"{seconds:.4g}"), kind, features, float(f"{point.roof:.4g}")]
    lines = [json.dumps(list(scope)), *(json.dumps(rows[key]) for key in sorted(rows))]
    path.write_text("".join(f"{line}\n" for line in lines))
    return len(rows)


def read_steps(text: str) -> StepPrices:
    """Prices from what ``write_steps`` wrote."""
    rows = [json.loads(line) for line in text.splitlines()[1:]]
    points = [(Point(kind, features, roof), seconds) for _, seconds, kind, features, roof in rows]
    return StepPrices({row[0]: row[1] for row in rows}, Neighbours.of(points))


@cache
def shipped_steps(device: str) -> StepPrices:
    """The measured steps of a card that come with the package."""
    return read_steps((files("egraph_opt.runtime.cuda") / f"{device}.steps.jsonl").read_text())
