"""Nodes with very many operands, leaves to egglog: a concatenation of 2,000 values, an ``If`` with 100 captures.

A constructor of many operands takes egglog a time that grows with their square, and with some thousand its stack. No
rule looks at so many, so egglog gets the number of the node alone; its operands are put back into the snapshot. What
egglog would have known of operands that became equal, that two such nodes are then equal, is told it here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from egraph_opt.ir import Node

MOST_OPERANDS = 63
"""Operands that a constructor may have; wider nodes are leaves, and no more operators than that are merged in one."""


def wide_nodes(nodes: Sequence[Node]) -> dict[int, Node]:
    """The nodes that are too wide, by index."""
    return {index: node for index, node in enumerate(nodes) if len(node.operands) > MOST_OPERANDS}


def equal_nodes(wide: Mapping[int, Node], canonical: Mapping[int, object]) -> Iterator[tuple[int, int]]:
    """Pairs of wide nodes in different classes that compute the same; ``canonical`` is the class of each node."""
    first: dict[object, int] = {}
    for index, node in wide.items():
        key = node.op, repr(node.attrs), tuple(canonical[i] for i in node.operands)
        other = first.setdefault(key, index)
        if canonical[other] != canonical[index]:
            yield other, index
