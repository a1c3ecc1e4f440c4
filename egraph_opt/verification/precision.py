"""In which floats a model computes what it returns: a float64 output of float32 arithmetic is only as good as that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir

Kinds = frozenset[str]
"""Names of float dtypes."""

_FLOATS = {"FLOAT16": "float16", "BFLOAT16": "bfloat16", "FLOAT": "float32", "DOUBLE": "float64"}


def computed_in(model: onnx_ir.Model) -> dict[str, Kinds]:
    """For each output the floats of all values on its way that depend on an input, itself included.

    What is only stored, fed or folded counts for nothing: float16 weights that are cast to float32 are exact there.
    """
    known = _Known()
    known.graph(model.graph, fed=True)
    return {str(v.name): known.kinds.get(str(v.name), frozenset()) for v in model.graph.outputs}


class _Known:
    """Dtypes of values by name, what they are computed in, and which depend on an input; names inside bodies too."""

    def __init__(self) -> None:
        self.dtypes: dict[str, str] = {}
        self.kinds: dict[str, Kinds] = {}
        self.moving: set[str] = set()

    def graph(self, graph: onnx_ir.Graph, *, fed: bool) -> None:
        for name, value in graph.initializers.items():
            self.dtypes[name] = _float(value)
        for value in graph.inputs:
            self.dtypes[str(value.name)] = _float(value)
            if fed:
                self.moving.add(str(value.name))
        for node in graph:
            self._node(node)

    def _node(self, node: onnx_ir.Node) -> None:
        operands = [str(v.name) for v in node.inputs if v is not None]
        for body in _bodies(node):
            self.graph(body, fed=True)
            operands += [str(v.name) for inner in body for v in (*inner.inputs, *inner.outputs) if v is not None]
        kinds = frozenset[str]().union(*(self.kinds.get(n, frozenset()) for n in operands))
        moves = any(n in self.moving for n in operands)
        for value in node.outputs:
            name = str(value.name)
            dtype = _float(value)
            if value.dtype is None:
                dtype = _cast_to(node) or next((d for n in operands if (d := self.dtypes.get(n))), "")
            self.dtypes[name] = dtype
            self.kinds[name] = kinds | {dtype} if moves and dtype else kinds
            if moves:
                self.moving.add(name)


def _bodies(node: onnx_ir.Node) -> Iterable[onnx_ir.Graph]:
    attributes: Mapping[str, onnx_ir.Attr] = node.attributes
    for attribute in attributes.values():
        if attribute.type == onnx_ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == onnx_ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _cast_to(node: onnx_ir.Node) -> str:
    to = node.attributes.get("to") if node.op_type == "Cast" else None
    return _FLOATS.get(onnx_ir.DataType(to.as_int()).name, "") if to is not None else ""


def _float(value: onnx_ir.Value) -> str:
    return _FLOATS.get(value.dtype.name, "") if value.dtype is not None else ""
