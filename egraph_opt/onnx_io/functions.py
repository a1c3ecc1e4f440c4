"""Model-local functions: each call is replaced by the function's body, so that the optimizer sees what is computed."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir
from onnx_ir.passes.common import InlinePass

_GRAPHS = (onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS)


def inlined(model: onnx_ir.Model) -> onnx_ir.Model:
    """``model`` without the functions whose calls can be replaced; the model itself where there is none.

    A function stays where its body was written for opsets in which one of its operators means something else.
    """
    if not model.functions:
        return model
    clone = model.clone()
    takes = {key: f for key, f in clone.functions.items() if _agrees(f, clone) and not _takes_graphs(f, clone)}
    for function in takes.values():  # the same operators under the model's own versions
        shared = set(function.opset_imports) & set(clone.opset_imports)
        function.opset_imports.update({domain: clone.opset_imports[domain] for domain in shared})
    try:
        InlinePass(criteria=lambda function: function.identifier() in takes)(clone)
    except Exception:  # noqa: BLE001 - the pass refuses with several kinds of errors; calls then stay as they are
        return model
    return clone


def _agrees(function: onnx_ir.Function, model: onnx_ir.Model) -> bool:
    """Whether every operator of the body means the same under the opsets of the model."""
    ours, theirs = _default(model.opset_imports), _default(function.opset_imports)
    for domain in set(function.opset_imports) & set(model.opset_imports) - {"", "ai.onnx"}:
        if function.opset_imports[domain] != model.opset_imports[domain]:
            return False
    if ours == theirs or theirs is None or ours is None:
        return True
    nodes = [node for node in function.all_nodes() if node.domain in ("", "ai.onnx")]
    return all(since(node.op_type, ours) == since(node.op_type, theirs) != -1 for node in nodes)


def _takes_graphs(function: onnx_ir.Function, model: onnx_ir.Model) -> bool:
    calls = [*model.graph.all_nodes(), *(n for f in model.functions.values() for n in f.all_nodes())]
    same = [node for node in calls if node.op_identifier() == function.identifier()]
    return any(attr.type in _GRAPHS for node in same for attr in node.attributes.values())


def _default(opsets: Mapping[str, int]) -> int | None:
    return opsets.get("", opsets.get("ai.onnx"))


def since(op_type: str, opset: int) -> int:
    """The opset in which ``op_type`` of the default domain got the meaning that it has in ``opset``; -1: unknown."""
    try:
        return onnx.defs.get_schema(op_type, opset).since_version
    except onnx.defs.SchemaError:
        return -1
