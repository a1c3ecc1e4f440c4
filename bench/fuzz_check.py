"""Whether every e-node of a saturated graph computes what its class stands for, and every graph through it as well.

Values are those of the operators' own NumPy semantics: in float64, or bit by bit in the graph's own dtypes where only
exact rules were loaded. An e-node is tried in two ways: applied to the values of its operand classes (that all of them
pass implies, by induction, that every extraction is right), and extracted with the fewest operators around it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph, Selection
from egraph_opt.ir import FLOATS, TensorGraph, TensorType, TupleType, Type
from egraph_opt.ops import operator
from egraph_opt.ops.base import concrete, concrete_type
from egraph_opt.rewrites import Rule
from egraph_opt.saturation import Frozen, freeze, rebuild
from egraph_opt.saturation.engine import Engine
from egraph_opt.saturation.saturate import problem_of

Array = NDArray[Any]
Value = Array | tuple[Array, ...]
Feeds = Mapping[str, Array]
TOLERANCES = {"float64": 1e-6, "float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}
"""Largest difference relative to the scale of a value, by the narrowest float of the graph: constants are rounded."""
ROUNDS, MOST_NODES = 4, 1500
"""Bounds of saturation."""


@dataclass(frozen=True)
class Semantics:
    """How values are computed: ``exact`` in the graph's own dtypes, compared by bits, else in float64."""

    exact: bool
    tolerance: float
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    def apply(self, op: str, attrs: Sequence[object], operands: Sequence[Value]) -> Value:
        """The value of an operator; operands are laid out alike whoever made them, for the sake of their last bits."""
        given = [concrete(a, dict(self.sizes)) for a in attrs]
        if not self.exact:
            given = ["float64" if isinstance(a, str) and a in FLOATS else a for a in given]
        with np.errstate(all="ignore"):
            return _ordered(operator(op).evaluate(tuple(given), list(operands)))  # type: ignore[arg-type]

    def load(self, array: Array) -> Array:
        """A leaf as it is computed with."""
        return array if self.exact or array.dtype.name not in FLOATS else array.astype(np.float64)

    def differs(self, wanted: Value, got: Value, *, strict: bool) -> str:
        """How two values differ; empty where they agree. Not ``strict``: only what is finite in both counts."""
        first, second = (v if isinstance(v, tuple) else (v,) for v in (wanted, got))
        if len(first) != len(second):
            return f"{len(second)} tensors instead of {len(first)}"
        return next((said for a, b in zip(first, second, strict=True) if (said := self._differs(a, b, strict))), "")

    def _differs(self, a: Array, b: Array, strict: bool) -> str:
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{b.dtype}{b.shape} instead of {a.dtype}{a.shape}"
        if self.exact or a.dtype.name not in FLOATS:
            same = (a == b) | ((a != a) & (b != b))
            if a.dtype.name in FLOATS:
                same &= (np.signbit(a) == np.signbit(b)) | (a != a)
            return "" if bool(np.all(same)) else f"{int(np.sum(~same))} of {a.size} elements differ in their bits"
        finite = np.isfinite(a) & np.isfinite(b)
        if strict and not finite.all():
            return f"{int(np.sum(~finite))} of {a.size} elements are not finite"
        scale = max(1.0, float(np.max(np.abs(a[finite]), initial=0.0)))
        error = float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)) / scale
        return f"differs by {error:.2g}" if error > self.tolerance else ""


@dataclass(frozen=True)
class Fault:
    """A disagreement: the class, the e-node in words, and what is wrong with it."""

    cls: int
    enode: str
    what: str


@dataclass
class Found:
    """What was tried on one graph."""

    enodes: int = 0
    extracted: int = 0
    fired: Counter[str] = field(default_factory=Counter[str])
    faults: list[Fault] = field(default_factory=list[Fault])
    graphs: list[TensorGraph] = field(default_factory=list[TensorGraph], repr=False)


def check(
    graph: TensorGraph,
    rules: Sequence[Rule],
    feeds: Sequence[tuple[Mapping[str, int], Feeds]],
    *,
    exact: bool = False,
    inner: int = 8,
) -> Found:
    """Saturates a graph and tries its e-nodes on all ``feeds`` (sizes of symbols, and inputs).

    ``inner``: e-nodes of other than root classes that are extracted too.
    """
    found = Found()
    engine = Engine(problem_of(graph, rules))
    for number in range(ROUNDS):
        report = engine.iterate(merge=number == 0)
        found.fired.update({name: r.matches for name, r in report.rules.items() if r.matches})
        if not report.changed or report.nodes > MOST_NODES:
            break
    frozen = freeze(graph, engine.snapshot(), rules)
    tolerance = TOLERANCES[narrowest(graph)]
    meanings = [Semantics(exact, tolerance, sizes) for sizes, _ in feeds]
    known = [_Known.of(frozen, m, fed) for m, (_, fed) in zip(meanings, feeds, strict=True)]
    found.enodes = len(frozen.folder.enodes)
    for number, enode in enumerate(frozen.folder.enodes):
        fault = next((said for k in known if (said := k.fault(number))), "")
        if fault:
            found.faults.append(Fault(enode.cls, f"{enode.op}{enode.attrs}{enode.operands}", fault))
    if not found.faults:  # an extraction through a wrong e-node says nothing new
        _extract(frozen, meanings, feeds, known, inner, found)
    return found


def narrowest(graph: TensorGraph) -> str:
    """The float dtype of a graph with the fewest bits; float64 where there are no floats."""
    dtypes = {t.dtype for t in graph.types if isinstance(t, TensorType)}
    return next((d for d in ("bfloat16", "float16", "float32") if d in dtypes), "float64")


def evaluate(graph: TensorGraph, meaning: Semantics, feeds: Feeds) -> dict[int, Value]:
    """The value of every node that the outputs of a graph need."""
    values: dict[int, Value] = {}
    for index in graph.live():
        node = graph.nodes[index]
        if node.op == "Input":
            values[index] = meaning.load(feeds[str(node.attrs[0])])
        elif node.op == "Const":
            array = graph.value(index)
            assert array is not None
            values[index] = meaning.load(array)
        else:
            values[index] = meaning.apply(node.op, node.attrs, [values[i] for i in node.operands])
    return values


@dataclass(frozen=True)
class _Known:
    """Values of classes: of the graph's own nodes first, then of whatever can be computed from them."""

    frozen: Frozen
    meaning: Semantics
    values: dict[int, Value]
    strict: bool

    @staticmethod
    def of(frozen: Frozen, meaning: Semantics, feeds: Feeds) -> _Known:
        """The values on one input."""
        original = evaluate(frozen.graph, meaning, feeds)
        strict = all(_finite(v) for v in original.values())
        known = _Known(frozen, meaning, {frozen.original[i]: v for i, v in original.items()}, strict)
        known.complete()
        return known

    def complete(self) -> None:
        """Bottom-up, one e-node for each class that has no value yet."""
        waiting = [i for i, e in enumerate(self.frozen.folder.enodes) if e.op not in ("Input", "Opaque")]
        while True:
            later = [i for i in waiting if not self._settle(i)]
            if len(later) == len(waiting):
                return
            waiting = later

    def _settle(self, index: int) -> bool:
        enode = self.frozen.folder.enodes[index]
        if enode.cls in self.values:
            return True
        if not all(c in self.values for c in enode.operands):
            return False
        try:
            self.values[enode.cls] = self.value(index)
        except Exception:  # noqa: BLE001 - whatever it is, ``fault`` says so when it comes to this e-node
            return False
        return True

    def value(self, index: int) -> Value:
        """An e-node applied to the values of its operand classes."""
        enode = self.frozen.folder.enodes[index]
        if enode.op == "Const":
            return self.meaning.load(self.frozen.folder.constants[int(str(enode.attrs[0]))].load())
        return self.meaning.apply(enode.op, enode.attrs, [self.values[c] for c in enode.operands])

    def fault(self, index: int) -> str:
        """What is wrong with an e-node; empty also where it cannot be computed without itself."""
        enode = self.frozen.folder.enodes[index]
        if enode.op in ("Input", "Opaque") or not all(c in self.values for c in enode.operands):
            return ""
        try:
            got = self.value(index)
        except Exception as error:  # noqa: BLE001 - an e-node that cannot be evaluated is a fault of its own
            return f"cannot be evaluated: {error}"
        wanted = self.frozen.class_types[enode.cls]
        said = _ill_typed(wanted, got, self.meaning)
        return said or self.meaning.differs(self.values.get(enode.cls, got), got, strict=self.strict)


def _extract(
    frozen: Frozen,
    meanings: Sequence[Semantics],
    feeds: Sequence[tuple[Mapping[str, int], Feeds]],
    known: Sequence[_Known],
    inner: int,
    found: Found,
) -> None:
    roots = set(frozen.egraph.roots.tolist())
    reached = reachable(frozen.egraph)
    first = [i for i, e in enumerate(frozen.enodes) if e.cls in roots]
    rest = [i for i, e in enumerate(frozen.enodes) if e.cls in reached - roots]
    step = max(len(rest) // inner, 1) if inner else 1
    for index in first + rest[::step][:inner]:
        enode = frozen.enodes[index]
        selection = forced(frozen.egraph, index)
        if selection is None or isinstance(frozen.class_types[enode.cls], TupleType):
            continue
        alone = replace(frozen, egraph=replace(frozen.egraph, roots=np.array([enode.cls], np.int64)))
        graph = rebuild(alone, selection)
        found.extracted += 1
        if enode.cls in roots:
            found.graphs.append(graph)
        for meaning, (_, fed), have in zip(meanings, feeds, known, strict=True):
            (output,) = graph.outputs
            said = meaning.differs(have.values[enode.cls], evaluate(graph, meaning, fed)[output], strict=have.strict)
            if said:
                found.faults.append(Fault(enode.cls, f"{enode.op}{enode.attrs} extracted", said))
                break


def forced(egraph: EGraph, node: int) -> Selection | None:
    """The selection with the fewest operators (counted as in trees) in which ``node`` computes its class.

    Knuth, "A generalization of Dijkstra's algorithm" (1977), with all other e-nodes of that class left out, which makes
    it acyclic; None where the class then has no derivation.
    """
    target = int(egraph.node_class[node])
    users: dict[int, list[int]] = {}
    missing: dict[int, int] = {}
    cost: dict[int, int] = {}
    choice = np.full(egraph.class_count, -1, np.int64)
    heap: list[tuple[int, int]] = []
    total: dict[int, int] = {}
    for i, cls in enumerate(egraph.node_class.tolist()):
        if cls == target and i != node:
            continue
        children = set(egraph.operands(i).tolist())
        missing[i], total[i] = len(children), 1
        for child in children:
            users.setdefault(child, []).append(i)
        if not children:
            heapq.heappush(heap, (1, i))
    while heap:
        spent, i = heapq.heappop(heap)
        cls = int(egraph.node_class[i])
        if cls in cost:
            continue
        cost[cls], choice[cls] = spent, i
        for user in users.get(cls, ()):
            missing[user] -= 1
            total[user] += spent
            if not missing[user]:
                heapq.heappush(heap, (total[user], user))
    return Selection(choice) if choice[target] == node else None


def reachable(egraph: EGraph) -> set[int]:
    """Classes that some graph of the roots may need."""
    seen, stack = set[int](), egraph.roots.tolist()
    while stack:
        cls = stack.pop()
        if cls not in seen:
            seen.add(cls)
            stack += [int(c) for i in egraph.nodes_of(cls) for c in egraph.operands(int(i))]
    return seen


def _ordered(value: Value) -> Value:
    return tuple(map(np.ascontiguousarray, value)) if isinstance(value, tuple) else _contiguous(value)


def _contiguous(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(np.shape(array))  # of a scalar it makes a vector


def _finite(value: Value) -> bool:
    arrays = value if isinstance(value, tuple) else (value,)
    return all(a.dtype.name not in FLOATS or bool(np.isfinite(a).all()) for a in arrays)


def _ill_typed(type_: Type | None, value: Value, meaning: Semantics) -> str:
    if not isinstance(type_, TensorType) or isinstance(value, tuple):
        return ""
    shape = concrete_type(type_, dict(meaning.sizes)).numbers()
    return "" if shape == np.shape(value) else f"has shape {np.shape(value)} in a class of type {type_}"


# --- smaller cases


def shrink(
    graph: TensorGraph, rules: Sequence[Rule], fails: Callable[[TensorGraph, Sequence[Rule]], bool]
) -> tuple[TensorGraph, tuple[Rule, ...]]:
    """A smaller graph and fewer rules that still fail."""
    for smaller in _prefixes(graph):
        if fails(smaller, rules):
            graph = smaller
            break
    changed = True
    while changed:
        changed = False
        for smaller in _cut(graph):
            if fails(smaller, rules):
                graph, changed = smaller, True
                break
    kept = tuple(rules)
    size = max(len(kept) // 2, 1)
    while True:
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            if fails(graph, fewer):
                kept = fewer
                break
        else:
            if size == 1:
                return graph, kept
            size = max(size // 2, 1)


def _prefixes(graph: TensorGraph) -> Iterator[TensorGraph]:
    """The graph with one node as its only output, the first ones first."""
    for index, type_ in enumerate(graph.types):
        if isinstance(type_, TensorType) and graph.nodes[index].op not in ("Input", "Const"):
            yield rebuilt(graph, {}, (index,))


def _cut(graph: TensorGraph) -> Iterator[TensorGraph]:
    """The graph with one of its inner nodes replaced by an input, the last ones first."""
    live = graph.live()
    for index in reversed(live):
        type_ = graph.types[index]
        inner = graph.nodes[index].op not in ("Input", "Const") and index not in graph.outputs
        if inner and isinstance(type_, TensorType):
            yield rebuilt(graph, {index: f"cut{index}"}, graph.outputs)


def rebuilt(graph: TensorGraph, cuts: Mapping[int, str], outputs: Sequence[int]) -> TensorGraph:
    """What ``outputs`` need of a graph, with inputs in place of the nodes in ``cuts``."""
    needed, stack = set[int](), list(outputs)
    while stack:
        index = stack.pop()
        if index not in needed:
            needed.add(index)
            stack += [] if index in cuts else graph.nodes[index].operands
    new, place = TensorGraph(), dict[int, int]()
    for index in sorted(needed):
        node = graph.nodes[index]
        if index in cuts:
            place[index] = new.add("Input", (cuts[index],), (), graph.types[index])
        elif node.op == "Const":
            place[index] = new.constant(graph.constants[int(str(node.attrs[0]))])
        else:
            place[index] = new.add(node.op, node.attrs, [place[i] for i in node.operands], graph.types[index])
    new.outputs = tuple(place[i] for i in outputs)
    return new


def described(graph: TensorGraph) -> str:
    """A graph in lines of text, one a node."""
    lines: list[str] = []
    for index in graph.live():
        node, type_ = graph.nodes[index], graph.types[index]
        value = graph.value(index)
        attrs = np.asarray(value).round(3).tolist() if value is not None and value.size <= 12 else node.attrs
        lines.append(f"  %{index} = {node.op}{attrs}({', '.join(f'%{i}' for i in node.operands)}): {type_}")
    return "\n".join([*lines, f"  outputs: {', '.join(f'%{i}' for i in graph.outputs)}"])
