"""What conditions of equal sizes say about the shape of one tensor once another is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from egraph_opt.axioms.record import Axiom
from egraph_opt.ir import TensorType

Domain = tuple[int, ...] | None
Form = tuple[Domain, ...] | None
"""A domain per axis, or ``None`` where any rank will do."""
_SHAPE = re.compile(r"shape\((\w+)\)(?:\[(-?\d*):(-?\d*)\])?")
_SIZE = re.compile(r"size\((\w+), (-?\d+)\)")


@dataclass(frozen=True, slots=True)
class Link:
    """Axes ``mine`` of a tensor have the sizes of axes ``theirs`` of ``other``; slices keep both ranks equal."""

    other: str
    mine: slice | int
    theirs: slice | int

    def refine(self, form: Form, other: TensorType) -> Form | str:
        """The form, with the sizes that are known now; a word where nothing is left of it."""
        shape = other.numbers()
        if isinstance(self.mine, slice):
            if form is None:
                form = (None,) * len(shape)
            if len(form) != len(shape):
                # slices of other ranks may still be equal; the condition itself decides that
                return form if self.mine != slice(None) else "nothing"
            axes = range(len(shape))[self.mine]
            pairs = [(axis, shape[axis]) for axis in axes]
        else:
            assert isinstance(self.theirs, int)
            if form is None or not -len(form) <= self.mine < len(form) or not -len(shape) <= self.theirs < len(shape):
                return form
            pairs = [(self.mine % len(form), shape[self.theirs])]
        made = list(form)
        for axis, size in pairs:
            domain = made[axis]
            if domain is not None and size not in domain:
                return "nothing"
            made[axis] = (size,)
        return tuple(made)


def links(axiom: Axiom) -> dict[str, list[Link]]:
    """Per tensor what ties it to others."""
    found: dict[str, list[Link]] = {}
    for text in axiom.conditions:
        left, equal, right = (part.strip() for part in text.partition("=="))
        a, b = (_part(side) for side in (left, right)) if equal else (None, None)
        if a is None or b is None or not {a[0], b[0]} <= set(axiom.tensors):
            continue
        if isinstance(a[1], slice) != isinstance(b[1], slice) or (isinstance(a[1], slice) and a[1] != b[1]):
            continue
        found.setdefault(a[0], []).append(Link(b[0], a[1], b[1]))
        found.setdefault(b[0], []).append(Link(a[0], b[1], a[1]))
    return found


def refined(form: Form, ties: list[Link], known: Mapping[str, TensorType]) -> Form | str:
    """The form, narrowed by every tie to a tensor that is known."""
    for tie in ties:
        if tie.other in known:
            narrowed = tie.refine(form, known[tie.other])
            if isinstance(narrowed, str):
                return narrowed
            form = narrowed
    return form


def _part(text: str) -> tuple[str, slice | int] | None:
    if found := _SIZE.fullmatch(text):
        return found[1], int(found[2])
    if found := _SHAPE.fullmatch(text):
        bounds = [int(b) if b else None for b in (found[2], found[3])]
        return found[1], slice(*bounds)
    return None
