"""An e-node with its attributes decoded."""

from __future__ import annotations

from dataclasses import dataclass

from egraph_opt.ir import AttrValue


@dataclass(frozen=True, slots=True)
class ENode:
    """``op(attrs, operand classes)`` in class ``cls``."""

    op: str
    attrs: tuple[AttrValue, ...]
    operands: tuple[int, ...]
    cls: int
