"""The way back: what was selected of an e-graph as a tensor graph, which knows where its nodes came from."""

from __future__ import annotations

from egraph_opt.egraph import Selection
from egraph_opt.ir import Origin, TensorGraph
from egraph_opt.saturation.frozen import Frozen
from egraph_opt.saturation.regions import Region, regions


def rebuild(frozen: Frozen, selection: Selection) -> TensorGraph:
    """The selected e-nodes as a tensor graph with the same inputs and outputs; constants are folded.

    Raises:
        SelectionError: the selection is not a graph.
    """
    return rebuild_places(frozen, selection)[0]


def rebuild_places(frozen: Frozen, selection: Selection) -> tuple[TensorGraph, dict[int, int]]:
    """As ``rebuild``, and the node of each class that is computed."""
    graph = frozen.graph
    new = TensorGraph(opaques=graph.opaques)
    names: dict[int, str] = {}
    for index, name in graph.names.items():
        names.setdefault(frozen.original[index], name)
    placed: dict[int, int] = {}
    for number in selection.order(frozen.egraph):
        enode = frozen.enodes[number]
        type_ = frozen.class_types[enode.cls]
        assert type_ is not None
        if enode.op == "Const":
            placed[enode.cls] = new.constant(frozen.folder.constant(enode.cls))
        else:
            placed[enode.cls] = new.add(enode.op, enode.attrs, [placed[c] for c in enode.operands], type_)
        if enode.cls in names and enode.op != "Const":
            new.names.setdefault(placed[enode.cls], names[enode.cls])
    for node, type_ in zip(graph.nodes, graph.types, strict=True):
        if node.op == "Input":
            new.add(node.op, node.attrs, (), type_)  # inputs stay, used or not
    new.outputs = tuple(placed[int(root)] for root in frozen.egraph.roots)
    for region in regions(frozen, selection):
        origin = _origin(graph, region)
        for number in region.new:
            new.came_from(placed[frozen.enodes[number].cls], origin)
    return new, placed


def _origin(graph: TensorGraph, region: Region) -> Origin:
    """Nodes of the model, and rules, behind a region."""
    origin = Origin(rules=region.rules)
    for index in region.old:
        origin |= graph.origins.get(index, Origin())
    return origin
