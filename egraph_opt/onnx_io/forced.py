"""What a model can only have if it runs at all: sizes that an operator wants equal, and ranks that it wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx_ir

from egraph_opt.ir import Size, SizeExpr, TensorType, Type, substitute, symbol

Pair = tuple[Size, Size]
Types = Sequence[Type | None]


def equal_sizes(node: onnx_ir.Node, types: Types) -> Iterator[Pair]:
    """Sizes that must be equal, or the node fails, whatever the values of its operands are."""
    if node.domain in ("", "ai.onnx") and node.op_type in _FORCED:
        yield from _FORCED[node.op_type](node, types)


def fails(node: onnx_ir.Node, types: Types) -> bool:
    """Whether the node fails on operands of these ranks, whatever their sizes and values are."""
    if node.domain not in ("", "ai.onnx"):
        return False
    ranks = [t.rank if isinstance(t, TensorType) else None for t in types]
    if node.op_type == "Concat":
        return len(set(ranks) - {None}) > 1
    wanted = zip(_RANKS.get(node.op_type, ()), ranks, strict=False)
    return any(rank not in (None, least) for least, rank in wanted)


def solve(pairs: Sequence[Pair], known: Mapping[str, Size]) -> dict[str, Size]:
    """What the pairs say of single symbols, beyond ``known``; contradictions say nothing."""
    found: dict[str, Size] = {}
    for left, right in pairs:
        a, b = (substitute(substitute(size, known), found) for size in (left, right))
        for one, other in ((a, b), (b, a)):
            name = str(one)
            if isinstance(one, SizeExpr) and one == symbol(name) and a != b and _says(name, other):
                found = {key: substitute(size, {name: other}) for key, size in found.items()} | {name: other}
                break
    return found


def _says(name: str, size: Size) -> bool:
    """Whether ``size`` is an answer: no negative number, and nothing that holds the symbol itself."""
    return size >= 0 if isinstance(size, int) else name not in size.symbols()


def _concat(node: onnx_ir.Node, types: Types) -> Iterator[Pair]:
    shapes = [t.shape for t in types if isinstance(t, TensorType)]
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1
    for shape in shapes[1:]:
        if len(shape) == len(shapes[0]) and -len(shape) <= axis < len(shape):
            yield from ((a, b) for i, (a, b) in enumerate(zip(shapes[0], shape, strict=True)) if i != axis % len(shape))


def _matmul(node: onnx_ir.Node, types: Types) -> Iterator[Pair]:
    match types:
        case (TensorType(shape=(*_, a)), TensorType(shape=(b,) | (*_, b, _))):
            yield a, b
        case _:
            return


def _recurrent(node: onnx_ir.Node, types: Types) -> Iterator[Pair]:
    """The batch of the input, of the lengths, and of the states; ``layout`` 1 has it in front."""
    front = "layout" in node.attributes and node.attributes["layout"].as_int() == 1
    places = {0: 0 if front else 1, 4: 0, 5: 0 if front else 1, 6: 0 if front else 1}
    given = [(types[i], axis) for i, axis in places.items() if i < len(types)]
    sizes = [t.shape[axis] for t, axis in given if isinstance(t, TensorType) and axis < t.rank]
    yield from ((sizes[0], size) for size in sizes[1:])


_RANKS: dict[str, tuple[int, ...]] = {"Gemm": (2, 2), **dict.fromkeys(("GRU", "LSTM", "RNN"), (3, 3, 3))}
"""Ranks of the first operands, where there is only one that an operator takes."""
_FORCED: dict[str, Callable[[onnx_ir.Node, Types], Iterator[Pair]]] = {
    "Concat": _concat,
    "MatMul": _matmul,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "RNN": _recurrent,
}
