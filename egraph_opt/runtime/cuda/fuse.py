"""Which values are stored and which are computed where they are needed.

Every step of a plan computes one *root*. Library calls and row kernels are *anchors*: a step has one of them (or
several dot products), takes in the element-wise operators around it, and everything else is fused into loops.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.runtime.cuda.attention import attention_fits
from egraph_opt.runtime.cuda.expressions import ELEMENTWISE
from egraph_opt.runtime.cuda.kernels import ROWS
from egraph_opt.runtime.cuda.loops import LOOPS, REDUCED, reduced_axes
from egraph_opt.runtime.cuda.movers import MOVERS

Kind = Literal["leaf", "element", "move", "branch", "row", "reduction", "window", "dot", "dense", "other"]
PLAIN_MOVES = frozenset({"Transpose", "Reshape", "Slice", "Get", "Split", "Expand", "Tile"})
_LONG_REDUCTION = 64
_MOST_DOTS = 32
_MOST_INLINED = 400


@dataclass(frozen=True)
class Dense:
    """A matrix product or convolution and what its library call computes on the way out."""

    node: int
    bias: int | None = None
    residual: int | None = None
    activation: str | None = None


@dataclass
class Fusion:
    """The decisions about one graph.

    Attributes:
        roots: values that a step computes; ``stored`` adds views of them, where an operator wants its operand in
            memory.
        dense, attention: library calls and attention by their root.
        anchors: rows, reductions and dot products by the root of the step that computes them.
        joined: concatenations whose operands are written into place.
        partial: products that only generated kernels read, so that these can add up partial sums.
    """

    graph: TensorGraph
    exact: bool = False
    users: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    roots: set[int] = field(default_factory=set[int])
    stored: set[int] = field(default_factory=set[int])
    dense: dict[int, Dense] = field(default_factory=dict[int, Dense])
    attention: dict[int, tuple[int, int, int]] = field(default_factory=dict[int, tuple[int, int, int]])
    anchors: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    joined: set[int] = field(default_factory=set[int])
    partial: set[int] = field(default_factory=set[int])

    def shape(self, node: int) -> tuple[int, ...]:
        """The shape of a tensor of the graph."""
        type_ = self.graph.types[node]
        assert isinstance(type_, TensorType)
        return type_.numbers()

    def kind(self, node: int) -> Kind:
        """How a value is computed."""
        operator = self.graph.nodes[node]
        op = operator.op
        if op in ("Input", "Const", "Fill"):
            return "leaf"
        if op in ELEMENTWISE:
            return "element"
        if op in MOVERS:
            return "move" if op in PLAIN_MOVES else "branch"
        if op in ROWS:
            return "row"
        if op in REDUCED:
            axes, _ = reduced_axes(self.graph, node)
            long = math.prod(self.shape(operator.operands[0])[a] for a in axes) > _LONG_REDUCTION
            return "reduction" if long else "window"
        if op in LOOPS:
            return "window"
        if op == "Conv":
            return "window" if self.shape(operator.operands[1])[1] == 1 else "dense"
        if op in ("MatMul", "Gemm"):
            return "dot" if self._is_dot(node) else "dense"
        return "other"

    def _is_dot(self, node: int) -> bool:
        """One row times a weight: memory-bound, and worth a kernel that computes what follows too."""
        a, b = self.graph.nodes[node].operands
        rows = math.prod(self.shape(node)[:-1]) if self.shape(node) else 1
        float_ = self.graph.types[node].dtype in ("float32", "float16", "bfloat16")  # type: ignore[union-attr]
        return (
            rows == 1
            and float_
            and self.graph.nodes[b].op == "Const"
            and len(self.shape(b)) == 2
            and len(self.shape(a)) >= 1
        )


def fused(graph: TensorGraph, *, exact: bool = False) -> Fusion:
    """Decides for every value that the outputs of ``graph`` need; ``exact``: see ``make_plan``."""
    fusion = Fusion(graph, exact)
    live = graph.live()
    for node in live:
        for operand in dict.fromkeys(graph.nodes[node].operands):
            fusion.users[operand].append(node)
    swallowed = _match_attention(fusion, live) | _match_dense(fusion, live)
    _Decider(fusion, live, swallowed).run()
    return fusion


def sole_user(fusion: Fusion, node: int) -> int | None:
    """The one node that uses a value, if there is just one and the value is no output."""
    users = fusion.users[node]
    return users[0] if len(users) == 1 and node not in fusion.graph.outputs else None


def _match_attention(fusion: Fusion, live: list[int]) -> set[int]:
    """Softmax between two products, with element-wise operators before it."""
    swallowed: set[int] = set()
    graph = fusion.graph
    for soft in live:
        operator = graph.nodes[soft]
        if operator.op != "Softmax" or operator.attrs[0] != len(fusion.shape(soft)) - 1:
            continue
        second = sole_user(fusion, soft)
        first = _product_before(fusion, operator.operands[0])
        if second is None or first is None or graph.nodes[second].op != "MatMul":
            continue
        if graph.nodes[second].operands[0] != soft or graph.nodes[second].operands[1] == soft:
            continue
        q, k = graph.nodes[first].operands
        v = graph.nodes[second].operands[1]
        shapes = fusion.shape(q), fusion.shape(k), fusion.shape(v)
        if any(len(s) < 2 for s in shapes) or graph.types[soft].dtype == "float64":  # type: ignore[union-attr]
            continue
        if attention_fits(shapes[0][-1], shapes[1][-1], shapes[2][-1]):
            fusion.attention[second] = (first, soft, second)
            swallowed |= {first, soft}
    return swallowed


def _product_before(fusion: Fusion, node: int) -> int | None:
    """The MatMul that a chain of element-wise operators of one shape starts from."""
    shape, graph = fusion.shape(node), fusion.graph
    for _ in range(4):
        operator = graph.nodes[node]
        if operator.op == "MatMul":
            return node if fusion.kind(node) == "dense" else None
        if operator.op not in ELEMENTWISE or operator.op == "Cast":
            return None
        same = [i for i in operator.operands if fusion.shape(i) == shape and fusion.kind(i) != "leaf"]
        if len(same) != 1 or sole_user(fusion, same[0]) is None:
            return None
        node = same[0]
    return None


def _match_dense(fusion: Fusion, live: list[int]) -> set[int]:
    swallowed: set[int] = set()
    inside = {i for anchors in fusion.attention.values() for i in anchors}
    for node in live:
        if fusion.kind(node) != "dense" or node in inside:
            continue
        found, root, chain = _epilogue(fusion, node, swallowed)
        if fusion.graph.nodes[node].op != "Conv" and found != Dense(node) and _fuses_on(fusion, root):
            found, root, chain = Dense(node), node, []  # the kernel that follows does it for nothing
        fusion.dense[root] = found
        swallowed.update(chain)
    return swallowed


def _epilogue(fusion: Fusion, node: int, taken: set[int]) -> tuple[Dense, int, list[int]]:
    """What a library call can do after the product: bias, residual, Relu; the root, and the nodes before it."""
    graph, convolution = fusion.graph, fusion.graph.nodes[node].op == "Conv"
    bias = graph.nodes[node].operands[2] if convolution and len(graph.nodes[node].operands) == 3 else None
    residual: int | None = None
    may_add = not (fusion.exact and convolution and graph.types[node].dtype == "float32")  # type: ignore[union-attr]
    root, chain = node, list[int]()
    while True:
        user = sole_user(fusion, root)
        if user is None or user in taken or user in fusion.dense:
            break
        operator = graph.nodes[user]
        if operator.op == "Relu":
            return Dense(node, bias, residual, "Relu"), user, [*chain, root]
        if (
            operator.op != "Add"
            or fusion.shape(user) != fusion.shape(root)
            or operator.operands[0] == operator.operands[1]
        ):
            break
        other = next(i for i in operator.operands if i != root)
        if residual is None and bias is None and _is_vector(fusion, other, root, 1 if convolution else -1):
            bias = other
        elif (
            may_add
            and residual is None
            and fusion.shape(other) == fusion.shape(root)
            and graph.nodes[other].op != "Const"
        ):
            residual = other
        else:
            break
        chain.append(root)
        root = user
    return Dense(node, bias, residual), root, chain


def _is_vector(fusion: Fusion, node: int, like: int, axis: int) -> bool:
    """A weight with one entry per channel of ``like``."""
    shape, full = fusion.shape(node), fusion.shape(like)
    wide = (1,) * (len(full) - len(shape)) + shape
    axis %= len(full)
    return fusion.graph.nodes[node].op == "Const" and all(
        n == (full[i] if i == axis else 1) for i, n in enumerate(wide)
    )


def _fuses_on(fusion: Fusion, node: int) -> bool:
    """Whether every use of a value is in a kernel that would compute an element-wise operator on the way in."""
    if node in fusion.graph.outputs:
        return False
    for user in fusion.users[node]:
        kind = fusion.kind(user)
        if kind == "move" and not _fuses_on(fusion, user):
            return False
        if kind not in ("element", "row", "move"):
            return False
    return bool(fusion.users[node])


class _Decider:
    """Goes through the values from the outputs to the inputs; users are decided before what they use."""

    def __init__(self, fusion: Fusion, live: list[int], swallowed: set[int]) -> None:
        self.fusion, self.graph, self.live, self.swallowed = fusion, fusion.graph, live, swallowed
        self.home: dict[int, set[int]] = {}
        self.aligned: set[int] = set()
        self.direct: set[int] = set()
        self.bijective: set[int] = set()
        self.dots: dict[int, int] = defaultdict(int)
        self.paths: dict[int, int] = {}
        self.size: dict[int, int] = defaultdict(int)

    def run(self) -> None:
        for node in reversed(self.live):
            kind = self.fusion.kind(node)
            if kind != "leaf" and node not in self.swallowed:
                self._decide(node, kind)

    def _decide(self, node: int, kind: Kind) -> None:
        fusion = self.fusion
        if node in fusion.dense:
            dense = fusion.dense[node]
            homes = set[int]().union(*(self.home.get(u, set()) for u in fusion.users[node]))
            loose = node not in fusion.stored and node not in self.graph.outputs
            half = self.graph.types[node].dtype.endswith("16")  # type: ignore[union-attr]
            loose = loose and (half or not homes & fusion.attention.keys())  # else read many times, 8 rows at once
            if dense == Dense(node) and self.graph.nodes[node].op != "Conv" and loose:
                fusion.partial.add(node)
            self._root(node)
            wanted = [*self.graph.nodes[dense.node].operands, dense.residual]
            fusion.stored.update(i for i in wanted if i is not None)
            return
        if node in fusion.attention:
            self._root(node)
            first, soft, _ = fusion.attention[node]
            self.home[first] = {node}
            self._inline_scores(self.graph.nodes[soft].operands[0], first, node)
            return
        library = self.swallowed | fusion.dense.keys()  # they have said what they store
        users = [u for u in fusion.users[node] if u not in library or (u in self.home and u not in fusion.dense)]
        homes = set[int]().union(*(self.home[u] for u in users)) if users else set[int]()
        if node in fusion.stored and kind == "move":
            fusion.stored.update(self.graph.nodes[node].operands)  # a view; the plan copies where that cannot be
            self.home[node] = homes
            if node in self.graph.outputs:
                self._root(node)
            return
        if node in self.graph.outputs or node in fusion.stored or not homes:
            self._root(node)
        elif kind == "move":
            self._inline(node, users, homes)
        elif (
            len(homes) > 1
            or self.size[next(iter(homes))] > _MOST_INLINED
            or not self._may_join(node, kind, users, homes)
        ):
            self._root(node)
        else:
            self._inline(node, users, homes)
        self._operands(node, kind)

    def _inline_scores(self, node: int, first: int, root: int) -> None:
        """The element-wise operators between the first product and the softmax belong to the attention kernel."""
        if node == first:
            return
        self.swallowed.add(node)
        for operand in self.graph.nodes[node].operands:
            if self.fusion.kind(operand) == "element" and sole_user(self.fusion, operand) is not None:
                self._inline_scores(operand, first, root)
            elif operand != first:
                self.fusion.stored.add(operand)

    def _root(self, node: int) -> None:
        fusion = self.fusion
        fusion.roots.add(node)
        fusion.stored.add(node)
        self.home[node] = {node}
        kind = fusion.kind(node)
        if kind in ("row", "reduction", "dot") and node not in fusion.dense and node not in fusion.attention:
            fusion.anchors[node].append(node)
            self.dots[node] = kind == "dot"
        if kind == "element":
            self.aligned.add(node)
        if kind == "element" or self.graph.nodes[node].op in ("Reshape", "Transpose"):
            self.bijective.add(node)
        if kind in ("element", "move"):
            self.direct.add(node)
        self.paths[node] = 1

    def _inline(self, node: int, users: list[int], homes: set[int]) -> None:
        self.home[node] = homes
        kind = self.fusion.kind(node)
        for home in homes:
            self.size[home] += 1
        if kind == "element" and len(homes) == 1 and all(self._is_aligned(u, node) for u in users):
            self.aligned.add(node)
        alone = len(users) == 1 and users[0] in self.bijective and self._elements(users[0]) == self._elements(node)
        if alone and (kind == "element" or self.graph.nodes[node].op in ("Reshape", "Transpose")):
            self.bijective.add(node)
        if kind in ("element", "move") and all(u in self.direct for u in users):
            self.direct.add(node)
        self.paths[node] = self._paths(users)

    def _is_aligned(self, user: int, node: int) -> bool:
        return user in self.aligned and self.fusion.shape(user) == self.fusion.shape(node)

    def _paths(self, users: list[int]) -> int:
        """At how many different indices a value is needed for one element of the root."""
        moves = sum(self.paths.get(u, 1) for u in users if self.fusion.kind(u) == "move")
        elements = [self.paths.get(u, 1) for u in users if self.fusion.kind(u) != "move"]
        return moves + max(elements, default=0)

    def _may_join(self, node: int, kind: Kind, users: list[int], homes: set[int]) -> bool:
        """Whether a value that is needed in one step only can be computed inside it."""
        (home,) = homes
        anchors = self.fusion.anchors.get(home, [])
        if kind in ("element", "branch"):
            return True
        if home in self.fusion.attention:
            return False
        if kind == "dot":
            count = self._paths(users)
            if not all(u in self.direct for u in users) or self.dots[home] + count > _MOST_DOTS:
                return False
            if any(self.fusion.kind(a) != "dot" for a in anchors) or self._elements(home) > self._elements(node):
                return False
            self.fusion.anchors[home].append(node)
            self.dots[home] += count
            return True
        if kind == "window" and len(users) == 1 and users[0] in self.bijective:
            return not anchors and self._elements(users[0]) == self._elements(node)
        if len(users) != 1 or not self._is_aligned(users[0], node):
            return False
        if kind in ("row", "reduction") and not anchors and not self._has_window(home):
            self.fusion.anchors[home].append(node)
            return True
        return False

    def _elements(self, node: int) -> int:
        return math.prod(self.fusion.shape(node)) if isinstance(self.graph.types[node], TensorType) else 0

    def _has_window(self, home: int) -> bool:
        return any(h == {home} and self.fusion.kind(n) == "window" for n, h in self.home.items())

    def _operands(self, node: int, kind: Kind) -> None:
        """Says which operands of a decided value have to lie in memory."""
        operator, fusion = self.graph.nodes[node], self.fusion
        if kind in ("window", "dot"):
            fusion.stored.add(operator.operands[0])
        elif operator.op == "Concat" and node in fusion.roots and any(self._has_step(i) for i in operator.operands):
            fusion.joined.add(node)
            fusion.stored.update(operator.operands)

    def _has_step(self, node: int) -> bool:
        """Whether a value is computed by a step of its own anyway."""
        kind = self.fusion.kind(node)
        if node in self.fusion.dense or node in self.fusion.attention or kind in ("row", "reduction", "window"):
            return True
        return self.graph.nodes[node].op == "Concat" and any(self._has_step(i) for i in self.graph.nodes[node].operands)
