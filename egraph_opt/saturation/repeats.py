"""E-nodes of one class that extraction need not choose between, because they cost the same.

Those that differ in the order of their operands alone, and those that differ in their weights alone: a convolution with
factors and terms around it gets its weights in as many ways as these can be folded one after another. All of these are
stored, of the same types, and were proved to give the same result (which does not say that the weights are equal: the
other operand may be zero).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

from egraph_opt.saturation.enodes import ENode

WEIGHTS_FROM = {"Conv": 1, "FusedConv": 1, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}
"""Where the weights begin among the operands, by operator."""

Key = tuple[str, str, tuple[int, ...]]
"""Operator, attributes as text, operand classes: what an e-node is within its class."""


def without_repeats(
    enodes: Sequence[ENode],
    keys: Sequence[Key],
    among: Collection[int],
    own: Collection[int],
    stored: AbstractSet[int],
    type_numbers: Mapping[int, int],
) -> list[int]:
    """Of the e-nodes ``among``, in their order, those of the graph itself (``own``), or else the first of each kind.

    Args:
        keys: of the e-nodes.
        stored: classes whose value is stored in the model. What nothing could store, or no graph may use, is not among
            them, so that such weights take no one's place.
        type_numbers: of each class; equal numbers are equal types.
    """
    groups: dict[object, list[int]] = {}
    for index in among:
        (op, attrs, operands), start = keys[index], WEIGHTS_FROM.get(enodes[index].op)
        if start is not None and all(c in stored for c in operands[start:]):
            kind = (operands[:start], tuple(type_numbers[c] for c in operands[start:]))
        else:
            kind = tuple(sorted(operands))
        groups.setdefault((enodes[index].cls, op, attrs, kind), []).append(index)
    return [index for group in groups.values() for index in ([i for i in group if i in own] or group[:1])]
