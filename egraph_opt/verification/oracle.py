"""The second oracle: the operator table's own semantics in float64, which owe nothing to ONNX Runtime.

Where every operator of a model is declared, both models are evaluated in double precision on the same inputs. What is
left between them is the rounding of folded constants; a wrong rewrite shows far above that. ONNX Runtime cannot serve
here: it has no float64 kernels for convolutions, and computes float16 in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir

from egraph_opt.ir import FLOATS, AttrValue, TensorGraph, TensorType
from egraph_opt.onnx_io import import_model
from egraph_opt.ops import operator
from egraph_opt.ops.base import concrete, concrete_type
from egraph_opt.runtime import Array

MOST_FLOPS = 200_000_000
"""Arithmetic of one run above which NumPy would take too long."""


class NotCovered(Exception):  # noqa: N818 - an answer, not a failure
    """The model cannot be evaluated here; the message says why."""


@dataclass(frozen=True)
class DoubleOracle:
    """A model ready to be evaluated in float64."""

    graph: TensorGraph
    outputs: tuple[str, ...]
    input_types: Mapping[str, TensorType]

    @staticmethod
    def of(model: onnx_ir.Model) -> DoubleOracle:
        """The oracle of a model.

        Raises:
            NotCovered: an operator is opaque, or an input has no known rank.
        """
        imported = import_model(model)
        graph = imported.graph
        opaque = sum(graph.nodes[i].op == "Opaque" for i in graph.live())
        if opaque:
            raise NotCovered(f"{opaque} of its nodes are not in the operator table")
        types = {n: t for n, t in imported.input_types.items() if isinstance(t, TensorType)}
        if len(types) < len(imported.input_types):
            raise NotCovered("an input has no known rank")
        if any(isinstance(t, TensorType) and t.dtype == "string" for t in graph.types):
            raise NotCovered("it handles strings")
        return DoubleOracle(graph, tuple(v.name or "" for v in model.graph.outputs), types)

    def run(self, feeds: Mapping[str, Array]) -> list[tuple[str, Array]]:
        """Outputs with their names, of which two may be the same; what is a float in the model is float64 here.

        Raises:
            NotCovered: the arithmetic is too much, or an input that has a default is not fed.
        """
        sizes = self.check_work(feeds)
        values: dict[int, Array | tuple[Array, ...]] = {}
        for index in self.graph.live():
            node = self.graph.nodes[index]
            if node.op == "Input":
                name = str(node.attrs[0])
                if name not in feeds:
                    raise NotCovered(f"input {name} is not fed")
                values[index] = _double(feeds[name])
            elif node.op == "Const":
                values[index] = _double(np.asarray(self.graph.value(index)))
            else:
                attrs = tuple(_wide(concrete(a, sizes)) for a in node.attrs)
                operands = [values[i] for i in node.operands]
                values[index] = _evaluate(node.op, attrs, operands)
        return [(n, np.asarray(values[i])) for n, i in zip(self.outputs, self.graph.outputs, strict=True)]

    def _sizes(self, feeds: Mapping[str, Array]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for name, type_ in self.input_types.items():
            for size, number in zip(type_.shape, np.shape(feeds.get(name, ())), strict=False):
                if not isinstance(size, int):
                    sizes[str(size)] = number
        return sizes

    def check_work(self, feeds: Mapping[str, Array]) -> dict[str, int]:
        """The sizes of a run.

        Raises:
            NotCovered: the arithmetic is too much.
        """
        sizes, total = self._sizes(feeds), 0
        for index in self.graph.live():
            node, type_ = self.graph.nodes[index], self.graph.types[index]
            types = [self.graph.types[i] for i in node.operands]
            if node.op in ("Input", "Const", "Get") or not isinstance(type_, TensorType):
                continue
            try:
                static = [concrete_type(t, sizes) for t in types if isinstance(t, TensorType)]
                attrs = tuple(concrete(a, sizes) for a in node.attrs)
                total += operator(node.op).flops(attrs, static, concrete_type(type_, sizes))
            except KeyError as error:
                raise NotCovered(f"the size {error} is only known while the model runs") from None
        if total > MOST_FLOPS:
            raise NotCovered(f"{total / 1e9:.1f} GFLOP are too many for NumPy")
        return sizes


def _evaluate(
    op: str, attrs: tuple[AttrValue, ...], operands: list[Array | tuple[Array, ...]]
) -> Array | tuple[Array, ...]:
    try:
        return operator(op).evaluate(attrs, operands)  # type: ignore[arg-type]
    except (ValueError, IndexError, ZeroDivisionError) as error:  # an input on which ONNX leaves the result open
        raise NotCovered(f"{op} is not defined on such an input: {error}") from None


def _double(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.name in FLOATS else array


def _wide(value: AttrValue) -> AttrValue:
    """A dtype in an attribute (of Cast or Fill) becomes float64 as well."""
    return "float64" if isinstance(value, str) and value in FLOATS else value
