"""The interface of a model: what its callers rely on, and what an optimizer must not touch."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir


def required_inputs(model: onnx_ir.Model) -> list[onnx_ir.Value]:
    """Inputs that a caller must feed: those without a default."""
    return [v for v in model.graph.inputs if v.name not in model.graph.initializers]


def overridable_inputs(model: onnx_ir.Model) -> list[onnx_ir.Value]:
    """Inputs with a default that a caller may override; before IR version 4 such initializers are constants."""
    if model.ir_version is not None and model.ir_version < 4:
        return []
    return [v for v in model.graph.inputs if v.name in model.graph.initializers]


def interface_difference(original: onnx_ir.Model, candidate: onnx_ir.Model) -> str | None:
    """The first way in which the candidate's interface differs, as a sentence; ``None`` when callers see no change.

    A declared output may become more precise, an input may not: a caller of the original could feed another size.
    """
    groups = (
        ("input", required_inputs(original), required_inputs(candidate)),
        ("overridable input", overridable_inputs(original), overridable_inputs(candidate)),
        ("output", list(original.graph.outputs), list(candidate.graph.outputs)),
    )
    for what, old, new in groups:
        difference = _names(what, old, new)
        if difference:
            return difference
        for before, after in zip(old, new, strict=True):
            difference = _type(what, before, after)
            if difference:
                return difference
    return None


def _names(what: str, old: Sequence[onnx_ir.Value], new: Sequence[onnx_ir.Value]) -> str | None:
    before, after = [str(v.name) for v in old], [str(v.name) for v in new]
    if before == after:
        return None
    missing = [name for name in before if name not in after]
    extra = [name for name in after if name not in before]
    if missing or extra:
        parts = [f"{what} {name!r} is missing" for name in missing] + [f"{what} {name!r} is new" for name in extra]
        return " and ".join(parts)
    return f"the {what}s are in another order: {', '.join(after)} instead of {', '.join(before)}"


def _type(what: str, before: onnx_ir.Value, after: onnx_ir.Value) -> str | None:
    if before.type is not None and before.type != after.type:
        return f"{what} {before.name!r} is {after.type} instead of {before.type}"
    if before.shape is None or after.shape is None:
        narrower = what != "output" and before.shape is None and after.shape is not None
        return f"{what} {before.name!r} has a fixed rank that the original leaves open" if narrower else None
    old, new = [_size(d) for d in before.shape], [_size(d) for d in after.shape]
    if len(old) != len(new):
        return f"{what} {before.name!r} has rank {len(new)} instead of {len(old)}"
    for axis, (a, b) in enumerate(zip(old, new, strict=True)):
        if a != b and a is not None and b is not None:
            return f"axis {axis} of {what} {before.name!r} is {b} instead of {a}"
        if a is None and b is not None and what != "output":
            return f"axis {axis} of {what} {before.name!r} is fixed to {b}; the original takes any size"
    return None


def _size(dim: int | onnx_ir.SymbolicDim) -> int | None:
    """The number, or ``None`` for a size that is not fixed (a name, a placeholder, a negative number)."""
    return dim if isinstance(dim, int) and dim >= 0 else None
