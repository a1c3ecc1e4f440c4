"""In which order the axes of every value lie in memory.

Convolutions and pools want the channels fastest; what is computed element by element from or for them follows. The
result of a product that is only used transposed is written transposed.
"""

from __future__ import annotations

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.ops.base import ints
from egraph_opt.runtime.cuda.expressions import ELEMENTWISE
from egraph_opt.runtime.cuda.views import channels_last

_WANT = frozenset({"Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LRN", "BatchNormalization"})
_FOLLOW = ELEMENTWISE | {"Concat", "Slice", "Get", "Split", "Pad"}


def orders(graph: TensorGraph) -> dict[int, tuple[int, ...]]:
    """The order of the axes, slowest first, of every value that is not to be row-major."""
    live = graph.live()
    found = {i: channels_last(r) for i in _with_channels(graph, live) if (r := _rank(graph, i)) >= 3}
    users: dict[int, list[int]] = {}
    for node in live:
        for operand in graph.nodes[node].operands:
            users.setdefault(operand, []).append(node)
    for node in live:
        if graph.nodes[node].op == "MatMul" and node not in graph.outputs:
            perms = {graph.nodes[u].attrs if graph.nodes[u].op == "Transpose" else None for u in users.get(node, [])}
            if len(perms) == 1 and None not in perms:
                (attrs,) = perms
                assert attrs is not None
                found[node] = ints(attrs[0])
    return found


def _with_channels(graph: TensorGraph, live: list[int]) -> set[int]:
    """Values of convolutions, pools, and of what is between them."""
    marked: set[int] = set()
    for node in live:
        if graph.nodes[node].op in _WANT:
            marked |= {node, graph.nodes[node].operands[0]}
    neighbours: dict[int, set[int]] = {}
    for node in live:
        if graph.nodes[node].op in _FOLLOW:
            for operand in graph.nodes[node].operands:
                if _rank(graph, operand) == _rank(graph, node) or graph.nodes[node].op in ("Get", "Split"):
                    neighbours.setdefault(node, set()).add(operand)
                    neighbours.setdefault(operand, set()).add(node)
    stack = list(marked)
    while stack:
        for other in neighbours.get(stack.pop(), ()):
            if other not in marked and graph.nodes[other].op not in ("Const", "Fill"):
                marked.add(other)
                stack.append(other)
    return marked


def _rank(graph: TensorGraph, node: int) -> int:
    type_ = graph.types[node]
    return type_.rank if isinstance(type_, TensorType) else 0
