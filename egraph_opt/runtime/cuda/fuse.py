"""Which values are stored and which are computed where they are needed.

Every step of a plan computes one *root*. Library calls and row kernels are *anchors*: a step has one of them (or
several dot products), takes in the element-wise operators around it, and everything else is fused into loops.
"""

from __future__ import annotations

import math
from collections import defaultdict

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.runtime.cuda.fusion import Dense, Fusion, Kind, sole_user
from egraph_opt.runtime.cuda.matching import match_attention, match_dense

_MOST_DOTS = 32
_MOST_INLINED = 400


def fused(graph: TensorGraph, *, exact: bool = False, adding: bool = False) -> Fusion:
    """Decides for every value that the outputs of ``graph`` need; ``exact`` and ``adding``: see ``make_plan``."""
    fusion = Fusion(graph, exact, adding)
    live = graph.live()
    for node in live:
        for operand in dict.fromkeys(graph.nodes[node].operands):
            fusion.users[operand].append(node)
    swallowed = match_attention(fusion, live) | match_dense(fusion, live)
    _Decider(fusion, live, swallowed).run()
    return fusion


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
            cheap = fusion.adding or self.graph.types[node].dtype.endswith("16")  # type: ignore[union-attr]
            loose = loose and (cheap or not homes & fusion.attention.keys())  # else read many times, 8 rows at once
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
