"""Which e-classes are known before the model runs, what they are worth storing, and their values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir import Constant, TensorType, TupleType, Type
from egraph_opt.ops import operator
from egraph_opt.saturation.enodes import ENode
from egraph_opt.saturation.fold import STORE_ALWAYS, folded
from egraph_opt.saturation.summed import Axes, summed_axes

Array = NDArray[np.generic]

EVALUATE_LIMIT = 256 * 2**20
"""Bytes of the largest value that folding computes, also in passing."""

EVALUATE_FLOPS = 2e10
"""Arithmetic of the longest step of folding: a second or so. Products of weights of gigabytes take minutes."""

CANCELLED_BITS = 10
"""Folding a reassociated sum is refused where it loses more bits than this to cancellation."""

SAFE = {"float16": 3e4, "bfloat16": 1e38, "float32": 1e38, "float64": 1e307}
"""Magnitudes, by dtype, below which a value is known to be finite without being computed."""


@dataclass
class ConstantFolder:
    """Recipes and values of constant e-classes.

    ``recipe[c]`` is the e-node to evaluate for class c; ``storable(c)`` says whether its value may go into the model.
    ``refused`` holds e-nodes of constants that no graph may use, computed in advance or not: sums that cancel,
    indices, made by rules, that lie outside of what they index, and arithmetic, made by rules, that meets or makes an
    infinity or a NaN. ``x * 1e30 * 1e30`` is a number for a small x, and no longer one when the constants are
    multiplied first; an infinite weight times a zero is not a number at all.
    ``constant_classes`` and ``roots`` are the classes that rules take for constants, and those of the graph's outputs.
    """

    enodes: Sequence[ENode]
    class_types: Sequence[Type | None]
    constants: Sequence[Constant]
    original: frozenset[int] = frozenset()
    guard_cancellation: bool = True
    constant_classes: Collection[int] = ()
    roots: Collection[int] = ()
    recipe: dict[int, int] = field(default_factory=dict[int, int])
    refused: set[int] = field(default_factory=set[int])
    _bounds: dict[int, float] = field(default_factory=dict[int, float], repr=False)
    _sources: dict[int, frozenset[int]] = field(default_factory=dict[int, frozenset[int]])
    _values: dict[int, Array | tuple[Array, ...]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._stored_bytes = [_bytes(constant.type) for constant in self.constants]
        self._find_recipes()

    def storable(self, cls: int) -> bool:
        """Whether the value of constant class ``cls`` may be stored without the file growing for nothing."""
        type_ = self.class_types[cls]
        if cls not in self.recipe or not isinstance(type_, TensorType):
            return False
        size = _bytes(type_)
        if size <= STORE_ALWAYS:
            return True
        return size <= sum(self._stored_bytes[c] for c in self._sources[cls])

    def constant(self, cls: int) -> Constant:
        """The value of a constant class; the model's own tensor where the class holds one."""
        enode = self.enodes[self.recipe[cls]]
        if enode.op == "Const":
            return self.constants[int(str(enode.attrs[0]))]
        value = self.value(cls)
        assert not isinstance(value, tuple)
        type_ = self.class_types[cls]
        assert isinstance(type_, TensorType)
        return Constant.of(np.ascontiguousarray(value).reshape(type_.numbers()), type_.dtype)

    def value(self, cls: int) -> Array | tuple[Array, ...]:
        """The value of a constant class, computed in its own dtype and remembered."""
        if cls not in self._values:
            for step in self._schedule(cls):
                enode = self.enodes[self.recipe[step]]
                if enode.op == "Const":
                    self._values[step] = self.constants[int(str(enode.attrs[0]))].load()
                else:
                    operands = [self._values[c] for c in enode.operands]
                    self._values[step] = folded(enode.op, enode.attrs, operands)
        return self._values[cls]

    def _schedule(self, cls: int) -> list[int]:
        order: list[int] = []
        done: set[int] = set(self._values)
        stack = [(cls, False)]
        while stack:
            current, ready = stack.pop()
            if current in done:
                continue
            if ready:
                done.add(current)
                order.append(current)
            else:
                stack.append((current, True))
                stack += [(c, False) for c in self.enodes[self.recipe[current]].operands]
        return order

    def _find_recipes(self) -> None:
        """Bottom-up: a class is constant once one of its e-nodes has only constant operands; shallow recipes first."""
        users: dict[int, list[int]] = {}
        missing: dict[int, int] = {}
        ready: list[int] = []
        for index, enode in enumerate(self.enodes):
            if enode.op in ("Input", "Opaque"):
                continue
            distinct = set(enode.operands)
            missing[index] = len(distinct)
            for child in distinct:
                users.setdefault(child, []).append(index)
            if not distinct:
                ready.append(index)
        ready.sort(key=lambda i: self.enodes[i].op != "Const")
        while ready:
            following: list[int] = []
            for index in ready:
                enode = self.enodes[index]
                if enode.cls in self.recipe or not self._is_small(enode):
                    continue
                if enode.op != "Const" and self._reads_outside(enode):
                    self.refused |= {index} - self.original  # one of the model stays, in a branch that is never taken
                    continue
                if index not in self.original and (self._is_unsafe(enode) or self._cancels(enode)):
                    self.refused.add(index)
                    continue
                self.recipe[enode.cls] = index
                self._sources[enode.cls] = self._leaves(enode)
                for user in users.get(enode.cls, ()):
                    missing[user] -= 1
                    if not missing[user]:
                        following.append(user)
            ready = following

    def _leaves(self, enode: ENode) -> frozenset[int]:
        if enode.op == "Const":
            return frozenset({int(str(enode.attrs[0]))})
        return frozenset().union(*(self._sources[c] for c in enode.operands))

    def _is_small(self, enode: ENode) -> bool:
        """Whether the value has a fixed type and is small enough, and little enough work, to be computed."""
        type_ = self.class_types[enode.cls]
        parts = type_.items if isinstance(type_, TupleType) else (type_,)
        for part in parts:
            if not isinstance(part, TensorType) or not part.is_static:
                return False
            if _bytes(part) > EVALUATE_LIMIT and enode.op != "Const":
                return False
        return enode.op in ("Const", "Get") or self._flops(enode, type_) <= EVALUATE_FLOPS

    def _flops(self, enode: ENode, type_: Type | None) -> int:
        if not isinstance(type_, TensorType):
            return 0
        operands = [self.class_types[c] for c in enode.operands]
        return operator(enode.op).flops(enode.attrs, operands, type_)  # type: ignore[arg-type]

    def _reads_outside(self, enode: ENode) -> bool:
        """Whether an index of constants lies outside of what it indexes, so that there is no value."""
        declared = operator(enode.op)
        if not declared.indices:
            return False
        limits = declared.limits(enode.attrs, [self.class_types[c] for c in enode.operands])  # type: ignore[misc]
        read = [(np.asarray(self.value(enode.operands[i])), limits[i]) for i in declared.indices]
        return any(np.any((value < low) | (value > high)) for value, (low, high) in read)  # type: ignore[operator, misc]

    def _is_unsafe(self, enode: ENode) -> bool:
        """Whether this is arithmetic on an infinity or a NaN, or that has one as its result."""
        type_ = self.class_types[enode.cls]
        rearranges = operator(enode.op).rearranges  # an infinity among those elements is the model's own
        if rearranges or not isinstance(type_, TensorType) or type_.dtype not in SAFE:
            return False
        largest = [self._largest(c) for c in enode.operands]
        if not np.isfinite(largest).all():
            return True
        estimate = self._estimate(enode, largest)
        return not estimate <= SAFE[type_.dtype] and not np.isfinite(_magnitude(self._apply(enode)))

    def _largest(self, cls: int) -> float:
        """A magnitude that no element of a constant class exceeds; infinite or NaN where an element is."""
        if cls not in self._bounds:
            enode, type_ = self.enodes[self.recipe[cls]], self.class_types[cls]
            estimate = np.inf
            if enode.op != "Const" and isinstance(type_, TensorType):
                estimate = self._estimate(enode, [self._largest(c) for c in enode.operands])
                estimate = estimate if estimate <= SAFE.get(type_.dtype, 0.0) else np.inf
            self._bounds[cls] = estimate if np.isfinite(estimate) else _magnitude(self.value(cls))
        return self._bounds[cls]

    def _estimate(self, enode: ENode, largest: Sequence[float]) -> float:
        """The largest magnitude of a result, from those of the operands; infinite where that takes a closer look."""
        types = [self.class_types[c] for c in enode.operands]
        return operator(enode.op).magnitude(enode.attrs, types, largest)  # type: ignore[arg-type]

    def _apply(self, enode: ENode) -> Array | tuple[Array, ...]:
        return folded(enode.op, enode.attrs, [self.value(c) for c in enode.operands])

    def _cancels(self, enode: ENode) -> bool:
        """Whether the sum is so much smaller than its terms that reassociating it loses ``CANCELLED_BITS`` bits.

        Weights that are only ever added up in a product are compared as a whole: the largest along those axes.
        """
        if not self.guard_cancellation or enode.op not in ("Add", "Sub"):
            return False
        x, y = (np.asarray(self.value(c)) for c in enode.operands)
        if x.dtype.kind != "f" or not x.size or not y.size:
            return False
        with np.errstate(all="ignore"):
            x, y = x.astype(np.float64), y.astype(np.float64)
            total = np.abs(x + y if enode.op == "Add" else x - y)
            terms = np.maximum(np.abs(x), np.abs(y))
            if not _is_lost(total, terms):  # then no maximum is either
                return False
            axes = tuple(self._summed.get(enode.cls, ()))
            return not axes or _is_lost(np.max(total, axis=axes), np.max(terms, axis=axes))

    @cached_property
    def _summed(self) -> dict[int, Axes]:
        return summed_axes(self.enodes, self.class_types, self.constant_classes, self.roots)


def _is_lost(total: NDArray[np.float64], terms: NDArray[np.float64]) -> bool:
    """Whether a sum is ``CANCELLED_BITS`` smaller than its largest term anywhere."""
    return bool(np.any(np.isfinite(terms) & (terms > total * 2.0**CANCELLED_BITS)))


def _bytes(type_: TensorType) -> int:
    return int(str(type_.bytes))


def _magnitude(value: Array | tuple[Array, ...]) -> float:
    """The largest magnitude of the elements; NaN where one is."""
    parts: list[Any] = list(value if isinstance(value, tuple) else (value,))
    wide = [a.astype(np.float32) if a.dtype.itemsize < 4 else a for a in parts if a.size and a.dtype.kind not in "cOSU"]
    return float(np.max([np.maximum(abs(float(np.max(a))), abs(float(np.min(a)))) for a in wide], initial=0.0))
