"""Bodies of If, Loop and Scan, optimized one by one: each is a graph whose captured values are its inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io.opaque import Body, OpaqueNode, opaque_node
from egraph_opt.saturation import fold_constants

Best = Callable[[TensorGraph], TensorGraph]
_LEAST = 2
"""Nodes below which there is nothing to rewrite."""


def with_better_bodies(graph: TensorGraph, best: Best) -> tuple[TensorGraph, int]:
    """``graph`` with each body of its live nodes replaced by ``best`` of it, innermost first; and how many differ."""
    opaques, changed = list(graph.opaques), 0
    for index in graph.live():
        if graph.nodes[index].op == "Opaque":
            node = opaque_node(graph, index)
            bodies: dict[str, Body] = {}
            for name, body in node.bodies.items():
                bodies[name], count = _better(body, best)
                changed += count
            opaques[int(str(graph.nodes[index].attrs[0]))] = dataclasses.replace(node, bodies=bodies)
    return dataclasses.replace(graph, opaques=opaques), changed


def has_bodies(graph: TensorGraph) -> bool:
    """Whether a node of the graph has a body that was read."""
    return any(isinstance(node, OpaqueNode) and node.bodies for node in graph.opaques)


def _better(body: Body, best: Best) -> tuple[Body, int]:
    graph, changed = with_better_bodies(fold_constants(body.graph), best)
    before = graph.fingerprint()
    if sum(graph.nodes[i].op not in ("Input", "Const", "Get") for i in graph.live()) >= _LEAST:
        graph = best(graph)
    return dataclasses.replace(body, graph=graph), changed + (graph.fingerprint() != before)
