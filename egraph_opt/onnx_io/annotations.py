"""Annotations of quantization (ONNX's ``TensorAnnotation``): which tensors are the scale and zero point of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir

_KEY = "quant_parameter_tensor_names"
"""Under which onnx_ir keeps them with a value: names of tensors by role, as ``{"SCALE_TENSOR": "a_scale"}``."""


def annotated(model: onnx_ir.Model) -> list[str]:
    """Names of the values that have an annotation, those of subgraphs included, in their order."""
    graphs = (model.graph, *model.graph.subgraphs())
    found = [name for graph in graphs for name, value in _values(graph).items() if value.meta.get(_KEY)]
    return list(dict.fromkeys(found))


def carry_over(
    like: onnx_ir.Graph, kept: Mapping[str, onnx_ir.Value], store: Callable[[onnx_ir.Value], bool], *, inner: bool
) -> set[str]:
    """Gives values of a new graph the annotations that they have in ``like``.

    An annotation stays if all tensors that it names do: one that is stored there is stored again, though only the
    annotation needs it. One that names a tensor which is computed there and not in the new graph is left out.

    Args:
        kept: values of the new graph, by the names that they have in ``like``.
        store: stores an initializer of ``like`` in the new graph under its name; says whether that was possible.
        inner: whether ``like`` is a subgraph: what it has not is of a graph around it, which may be written otherwise.

    Returns:
        the names in annotations that are of no tensor at all; nothing else must be called so.
    """
    there, unknown = _values(like), set[str]()

    def stays(name: str) -> bool:
        if name in kept and kept[name].name == name:
            return True
        if name not in there:
            return not inner
        return there[name].is_initializer() and store(there[name])

    for name, value in list(kept.items()):  # what is stored is one of them
        named = there[name].meta.get(_KEY) if name in there else None
        if named and all(map(stays, named.values())):
            value.meta[_KEY] = dict(named)
            unknown |= named.values() - there.keys()
        else:
            value.meta.pop(_KEY, None)
    return unknown


def _values(graph: onnx_ir.Graph) -> dict[str, onnx_ir.Value]:
    values = [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
    return {value.name: value for value in values if value.name}
