"""The tensor graph: hash-consed nodes in topological order.

A node is an operator of the table in ``egraph_opt.ops`` applied to earlier nodes. Leaves are nodes too:
``Input`` (attribute: name), ``Const`` (attribute: id in the graph's table of constants) and ``Opaque`` without
operands. An operator with several outputs is one node of tuple type; ``Get`` selects an output.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir.types import FLOATS, TensorType, Type

AttrValue = object
"""An attribute: int, float, str, bytes, bool, a Size, or a tuple of those; equal when the ``repr`` is equal."""

Array = NDArray[np.generic]

SPLAT_LIMIT = 2**16
"""Elements up to which a constant is looked through for a single repeated number."""
PATTERN_LIMIT = 2**24
"""Elements up to which a constant is looked through for a triangle of one number, or for two equal halves."""
_NO_NUMBERS = ("string", "complex64", "complex128")


@dataclass(frozen=True, slots=True)
class Node:
    """``op`` applied to ``operands`` (indices of earlier nodes), with ``attrs`` in the operator's order."""

    op: str
    attrs: tuple[AttrValue, ...] = ()
    operands: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, str, tuple[int, ...]]:
        # repr, because 0.0 == -0.0 and nan != nan
        return self.op, repr(self.attrs), self.operands


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from: nodes of the model, by name, and the rules that made it of them (none: it is theirs)."""

    nodes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    def __or__(self, other: Origin) -> Origin:
        """Both, each name once."""
        nodes, rules = self.nodes + other.nodes, self.rules + other.rules
        return Origin(tuple(dict.fromkeys(nodes)), tuple(dict.fromkeys(rules)))


@dataclass(frozen=True)
class Constant:
    """A tensor known before the model runs. ``load`` reads it on demand; external data stays on disk.

    ``stored`` is for the writer of a model, which may have use for what the reader left here: its place on disk.
    """

    type: TensorType
    key: str
    load: Callable[[], Array]
    names: tuple[str, ...] = ()
    stored: object = None

    @staticmethod
    def of(array: Array, dtype: str | None = None) -> Constant:
        """The constant that holds ``array``; ``dtype`` where NumPy's name is not ours (4-bit types)."""
        kind = dtype or array.dtype.name
        if array.dtype.kind in "OSU":
            kind, digest = "string", hashlib.sha256(repr(array.tolist()).encode()).hexdigest()
        else:
            digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        return Constant(TensorType(kind, array.shape), f"{kind}{array.shape}:{digest}", lambda: array)


@dataclass
class TensorGraph:
    """Nodes in topological order, each with its type; ``outputs`` are node indices, in the model's order.

    ``add`` is the only way in; it returns the existing node when an equal one is there. ``opaques`` holds what
    opaque nodes stand for; the graph itself never looks inside. ``names`` and ``origins`` say what nodes are called and
    where they come from; they decide nothing.
    """

    nodes: list[Node] = field(default_factory=list[Node])
    types: list[Type] = field(default_factory=list[Type])
    outputs: tuple[int, ...] = ()
    constants: list[Constant] = field(default_factory=list[Constant])
    opaques: list[object] = field(default_factory=list[object])
    names: dict[int, str] = field(default_factory=dict[int, str])
    origins: dict[int, Origin] = field(default_factory=dict[int, Origin])
    _index: dict[tuple[str, str, tuple[int, ...]], int] = field(default_factory=dict, repr=False)
    _constant_index: dict[str, int] = field(default_factory=dict, repr=False)

    def add(self, op: str, attrs: Sequence[AttrValue], operands: Sequence[int], type_: Type) -> int:
        """Index of the node ``op(attrs, operands)``, added if it is new."""
        node = Node(op, tuple(attrs), tuple(operands))
        found = self._index.get(node.key)
        if found is not None:
            return found
        self.nodes.append(node)
        self.types.append(type_)
        self._index[node.key] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def came_from(self, index: int, origin: Origin | None) -> None:
        """Adds to what is known of the origin of a node."""
        if origin is not None:
            old = self.origins.get(index)
            self.origins[index] = origin if old is None or old == origin else old | origin

    def intern(self, constant: Constant) -> int:
        """Id of ``constant`` in the table; equal bits, dtype and shape share one id."""
        found = self._constant_index.setdefault(constant.key, len(self.constants))
        if found == len(self.constants):
            self.constants.append(constant)
        elif constant.names:
            old = self.constants[found]
            names = tuple(dict.fromkeys(old.names + constant.names))
            self.constants[found] = replace(old, names=names)
        return found

    def constant(self, constant: Constant) -> int:
        """Index of the ``Const`` node that holds ``constant``."""
        return self.add("Const", (self.intern(constant),), (), constant.type)

    def value(self, index: int) -> Array | None:
        """The array of a ``Const`` node, or ``None`` for any other node."""
        node = self.nodes[index]
        if node.op != "Const":
            return None
        (key,) = node.attrs
        assert isinstance(key, int)
        return self.constants[key].load()

    def splat(self, index: int) -> float | None:
        """The number that every element of a ``Const`` node equals, where there is one; large ones are not read."""
        type_ = self.types[index]
        if self.nodes[index].op != "Const" or not isinstance(type_, TensorType) or type_.dtype in _NO_NUMBERS:
            return None
        if not 0 < int(str(type_.elements)) <= SPLAT_LIMIT:
            return None
        flat = np.asarray(self.value(index)).reshape(-1)
        return float(flat[0]) if flat.size == 1 or bool((flat == flat[0]).all()) else None

    def triangle(self, index: int) -> float | None:
        """The number above the diagonal of a ``Const`` node that is a square matrix of floats (behind axes of size 1)
        with zeros elsewhere, where there is one (no zero, no NaN); of other matrices two elements are read."""
        type_ = self.types[index]
        if self.nodes[index].op != "Const" or not isinstance(type_, TensorType) or type_.dtype not in FLOATS:
            return None
        count = type_.shape[-1] if type_.rank >= 2 else 0
        if count in (0, 1) or type_.shape[-2] != count or not 0 < int(str(type_.elements)) <= PATTERN_LIMIT:
            return None
        matrix = np.asarray(self.value(index)).reshape(-1, *type_.shape[-2:])  # type: ignore[arg-type]
        number = matrix[0, 0, 1]
        if len(matrix) > 1 or matrix[0, 0, 0] != 0 or not abs(number) > 0:
            return None
        triangle = np.triu(np.full(matrix.shape, number), 1)
        return float(number) if triangle.tobytes() == matrix.tobytes() else None

    def is_doubled(self, index: int) -> bool:
        """Whether a ``Const`` node holds the same floats twice along its last axis, and not one number throughout."""
        type_ = self.types[index]
        if self.nodes[index].op != "Const" or not isinstance(type_, TensorType) or type_.dtype not in FLOATS:
            return False
        count = int(str(type_.shape[-1])) if type_.rank >= 2 else 0
        if count == 0 or count % 2 or not 0 < int(str(type_.elements)) <= PATTERN_LIMIT:
            return False
        rows = np.asarray(self.value(index)).reshape(-1, count)
        first, second = rows[:1, : count // 2], rows[:1, count // 2 :]
        if first.tobytes() != second.tobytes() or bool((rows == rows[0, 0]).all()):
            return False
        return rows[:, : count // 2].tobytes() == rows[:, count // 2 :].tobytes()

    def live(self, roots: Iterable[int] | None = None) -> list[int]:
        """Indices that ``roots`` (the outputs by default) need, in topological order."""
        seen: set[int] = set()
        stack = list(self.outputs if roots is None else roots)
        while stack:
            index = stack.pop()
            if index not in seen:
                seen.add(index)
                stack.extend(self.nodes[index].operands)
        return sorted(seen)

    def fingerprint(self) -> str:
        """Equal for graphs with equal outputs, in whatever order their nodes stand."""
        marks: dict[int, str] = {}
        for index in self.live():
            node = self.nodes[index]
            attrs = self.constants[int(str(node.attrs[0]))].key if node.op == "Const" else node.attrs
            said = repr((node.op, attrs, [marks[i] for i in node.operands]))
            marks[index] = hashlib.blake2b(said.encode(), digest_size=16).hexdigest()
        return " ".join(marks[i] for i in self.outputs)
