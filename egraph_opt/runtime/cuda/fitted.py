"""Seconds of operators that nobody has measured, from those that somebody has.

An operator is a point: the logarithms of its arithmetic, bytes, result and weight. Its price is that of the measured
points of its kind nearest to it, each scaled by the roofline between the two.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from egraph_opt.ir import TensorType
from egraph_opt.runtime.analytic import DEVICES
from egraph_opt.runtime.costs import work
from egraph_opt.runtime.signature import Signature

_NEIGHBOURS = 3
_PRODUCTS = frozenset({"MatMul", "Gemm"})
_ROOF = "h100"


@dataclass(frozen=True)
class Point:
    """A thing to price: its kind, what its seconds depend on, and its seconds by the roofline."""

    kind: str
    features: Sequence[float]
    roof: float


@dataclass(frozen=True)
class Neighbours:
    """Measured points by kind: features (n, d), seconds (n,) and seconds by the roofline (n,)."""

    points: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]

    @staticmethod
    def of(measured: Sequence[tuple[Point, float]]) -> Neighbours:
        """A model of what has been measured, in seconds."""
        rows: dict[str, list[tuple[Sequence[float], float, float]]] = {}
        for point, seconds in measured:
            rows.setdefault(point.kind, []).append((point.features, seconds, point.roof))
        return Neighbours({
            kind: (np.array([r[0] for r in found]), np.array([r[1] for r in found]), np.array([r[2] for r in found]))
            for kind, found in rows.items()
        })  # fmt: skip

    def seconds(self, point: Point) -> float | None:
        """The estimate; ``None`` where nothing of the kind has been measured."""
        found = self.points.get(point.kind)
        if found is None:
            return None
        places, seconds, roofs = found
        distance = np.abs(places - np.array(point.features)).sum(axis=1)
        nearest = np.argsort(distance, kind="stable")[:_NEIGHBOURS]
        weight = 1 / (distance[nearest] + 0.05)
        logs = np.log(seconds[nearest] * point.roof / roofs[nearest])
        return float(np.exp((weight * logs).sum() / weight.sum()))


@dataclass(frozen=True)
class Fitted:
    """Seconds of signatures."""

    model: Neighbours

    @staticmethod
    def of(measured: Sequence[tuple[Signature, float]]) -> Fitted:
        """A model of what has been measured."""
        return Fitted(Neighbours.of([(point_of(signature), seconds) for signature, seconds in measured]))

    def seconds(self, signature: Signature) -> float | None:
        """The estimate; ``None`` where nothing like it has been measured."""
        return self.model.seconds(point_of(signature))


def point_of(signature: Signature) -> Point:
    """Where a signature lies."""
    kinds = {kind_of(signature), signature_dtype(signature)}
    return Point("|".join(sorted(kinds)), features(signature), roof(signature))


def held_out_error(measured: Sequence[tuple[Signature, float]], folds: int = 5) -> float:
    """Median relative error on signatures that the model has not seen.

    Operators on equal types are held out together.
    """
    groups = {s: str(s.types[:2]) for s, _ in measured}
    order = {group: i for i, group in enumerate(sorted(set(groups.values()), key=lambda g: hash_of(g)))}
    errors: list[float] = []
    for fold in range(folds):
        seen = [(s, t) for s, t in measured if order[groups[s]] % folds != fold]
        model = Fitted.of(seen)
        for signature, seconds in measured:
            guess = model.seconds(signature) if order[groups[signature]] % folds == fold else None
            if guess is not None:
                errors.append(abs(guess / seconds - 1))
    return float(np.median(errors))


def hash_of(text: str) -> int:
    """A number that is the same in every process."""
    return zlib.crc32(text.encode())


def kind_of(signature: Signature) -> str:
    """Operators that the same kernels run."""
    if signature.op in ("Conv", "FusedConv"):
        weight = signature.tensors[1].numbers()
        return "depthwise" if weight[1] == 1 else "pointwise" if math.prod(weight[2:]) == 1 else "convolution"
    if signature.op in _PRODUCTS:
        rows = math.prod(signature.tensors[0].numbers()[:-1])
        return "row" if rows == 1 else "product"
    return signature.op if signature.op.endswith(("Pool", "Normalization", "Softmax")) else "element"


def signature_dtype(signature: Signature) -> str:
    """The dtype that decides which kernels run."""
    return signature.tensors[0].dtype if signature.tensors else "float32"


def features(signature: Signature) -> list[float]:
    """Where the operator lies among others of its kind."""
    todo, result = work(signature), signature.results[0]
    weights = [t for t, c in zip(signature.tensors, signature.constant, strict=True) if c]
    inner = signature.tensors[0].numbers()[1] if signature.tensors and signature.tensors[0].rank > 1 else 1
    channels = result.numbers()[1] if result.rank > 1 else 1
    sizes = (todo.flops, todo.bytes, _count(result), sum(_count(t) for t in weights), inner, channels)
    return [math.log(1 + size) for size in sizes]


def roof(signature: Signature) -> float:
    """Seconds by the roofline, launch included."""
    return DEVICES[_ROOF].seconds(work(signature))


def _count(type_: TensorType) -> int:
    return math.prod(type_.numbers())
