"""What ONNX's own schemas say of element types: each operator took some of them only from a later opset on."""

from __future__ import annotations

from functools import cache

NEVER = 1 << 20
"""An opset that no model has."""


@cache
def first_opset(op_type: str, dtypes: tuple[str, ...]) -> int:
    """The lowest opset, 9 or above, in which ``op_type`` takes operands of these dtypes (our names).

    9 for a name that ONNX does not have, ``NEVER`` where no opset takes them.
    """
    import onnx  # not needed until a model is written

    if not onnx.defs.has(op_type):
        return 9
    for opset in range(9, onnx.defs.onnx_opset_version() + 1):
        try:
            schema = onnx.defs.get_schema(op_type, opset)
        except onnx.defs.SchemaError:
            continue
        formals = schema.inputs
        taken = [formals[min(i, len(formals) - 1)].types for i in range(len(dtypes))] if formals else []
        if all(_onnx_type(dtype) in types for dtype, types in zip(dtypes, taken, strict=False)):
            return opset
    return NEVER


def _onnx_type(dtype: str) -> str:
    name = {"float32": "float", "float64": "double"}.get(dtype, dtype)
    return f"tensor({name})"
