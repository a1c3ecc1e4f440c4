"""Finds what a library call, or the attention kernel, computes as one step."""

from __future__ import annotations

import math

from egraph_opt.ir import TensorType
from egraph_opt.runtime.cuda.attention import attention_fits
from egraph_opt.runtime.cuda.expressions import ELEMENTWISE
from egraph_opt.runtime.cuda.fusion import Dense, Fusion, sole_user
from egraph_opt.runtime.cuda.matrices import parts_of


def match_attention(fusion: Fusion, live: list[int]) -> set[int]:
    """Softmax between two products, with element-wise operators before it; returns the nodes before each root."""
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


def match_dense(fusion: Fusion, live: list[int]) -> set[int]:
    """Products and convolutions, with what a library call computes after them; returns the nodes before each root."""
    swallowed: set[int] = set()
    inside = {i for anchors in fusion.attention.values() for i in anchors}
    for node in live:
        if fusion.kind(node) != "dense" or node in inside:
            continue
        found, root, chain = _epilogue(fusion, node, swallowed)
        readers = inside if fusion.adding and _has_parts(fusion, node) else set[int]()
        if fusion.graph.nodes[node].op != "Conv" and found != Dense(node) and _fuses_on(fusion, root, readers):
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


def _fuses_on(fusion: Fusion, node: int, readers: set[int]) -> bool:
    """Whether every use of a value is in a kernel that would compute an element-wise operator on the way in: one of
    ``readers``, or a loop."""
    if node in fusion.graph.outputs:
        return False
    for user in fusion.users[node]:
        kind = fusion.kind(user)
        if kind == "move" and not _fuses_on(fusion, user, readers):
            return False
        if kind not in ("element", "row", "move") and user not in readers:
            return False
    return bool(fusion.users[node])


def _has_parts(fusion: Fusion, node: int) -> bool:
    """Whether the inner axis of a product would be cut: see ``matrices.parts_of``."""
    type_, weight = fusion.graph.types[node], fusion.shape(fusion.graph.nodes[node].operands[1])
    assert isinstance(type_, TensorType)
    rounded = type_.dtype.endswith("16") or (type_.dtype == "float32" and not fusion.exact)
    rows = math.prod(type_.numbers()[:-1])
    return rounded and len(weight) == 2 and parts_of(rows, *weight, type_.itemsize) > 1
