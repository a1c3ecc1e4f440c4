"""E-graphs as JSON files in the format of egraph-serialize (github.com/egraphs-good/egraph-serialize, 0.3).

    {"nodes": {"<node id>": {"op": "Add", "children": ["<node id>", ...], "eclass": "<class id>",
                             "cost": 1.0, "subsumed": false}, ...},
     "root_eclasses": ["<class id>", ...]}

A child is written as the id of *some* e-node of the operand class. Other keys are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from os import PathLike
from pathlib import Path
from typing import cast

import numpy as np

from egraph_opt.egraph.arrays import EGraph, Floats
from egraph_opt.errors import UsageError


class InvalidEGraphError(UsageError):
    """The file is missing, or not an e-graph in the format of egraph-serialize."""


@dataclass(frozen=True)
class SerializedEGraph:
    """What a file holds.

    Attributes:
        egraph: e-nodes in the order of the file, classes in the order of their first e-node.
        costs: (n,) cost of each e-node; 1 where the file gives none, may be negative or +inf.
        node_ids: (n,) the file's name of each e-node.
        class_ids: (m,) the file's name of each class.
    """

    egraph: EGraph
    costs: Floats
    node_ids: tuple[str, ...]
    class_ids: tuple[str, ...]


def read_egraph(path: str | PathLike[str]) -> SerializedEGraph:
    """Reads a JSON file; subsumed e-nodes are dropped.

    Raises:
        InvalidEGraphError: the file cannot be read, is not JSON, or is not an e-graph; the message names the file
            and the e-node.
    """
    try:
        data: object = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InvalidEGraphError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidEGraphError(f"{path} is not JSON: {error}") from error
    try:
        return egraph_from_json(data)
    except InvalidEGraphError as error:
        raise InvalidEGraphError(f"{path}: {error}") from error


def egraph_from_json(data: object) -> SerializedEGraph:
    """The e-graph that parsed JSON stands for.

    Raises:
        InvalidEGraphError: it stands for none; the message names the e-node.
    """
    document = _mapping(data, "the document")
    records = {
        name: _mapping(record, f"e-node {name!r}")
        for name, record in _mapping(document.get("nodes"), "'nodes'").items()
    }
    classes = {name: _text(record.get("eclass"), f"'eclass' of e-node {name!r}") for name, record in records.items()}
    numbers = {cls: number for number, cls in enumerate(dict.fromkeys(classes.values()))}
    kept = [name for name, record in records.items() if record.get("subsumed", False) is not True]
    nodes: list[tuple[str, int, list[int]]] = []
    for name in kept:
        record = records[name]
        children: list[int] = []
        for child in _sequence(record.get("children", []), f"'children' of e-node {name!r}"):
            if not isinstance(child, str) or child not in classes:
                raise InvalidEGraphError(f"e-node {name!r} has child {child!r}, which is not the id of an e-node")
            children.append(numbers[classes[child]])
        nodes.append((_text(record.get("op"), f"'op' of e-node {name!r}"), numbers[classes[name]], children))
    populated = {cls for _, cls, _ in nodes}
    roots: list[int] = []
    for root in _sequence(document.get("root_eclasses", []), "'root_eclasses'"):
        if not isinstance(root, str) or numbers.get(root) not in populated:
            raise InvalidEGraphError(f"root class {root!r} has no e-node")
        roots.append(numbers[root])
    costs = np.array([_cost(name, records[name].get("cost", 1.0)) for name in kept], np.float64)
    return SerializedEGraph(EGraph.build(nodes, roots, len(numbers)), costs, tuple(kept), tuple(numbers))


def write_egraph(path: str | PathLike[str], egraph: EGraph, costs: Floats) -> None:
    """Writes ``egraph`` with its costs, (n,).

    Class c is written as ``"c"`` and its i-th e-node as ``"c.i"``. JSON has no infinity: e-nodes that cost +inf,
    which must not be selected, are written as subsumed.

    Raises:
        InvalidEGraphError: a cost is NaN or -inf, an operand class has no e-node to stand for it, or the file
            cannot be written.
    """
    text = json.dumps(egraph_to_json(egraph, costs), indent=1, ensure_ascii=False)
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidEGraphError(f"cannot write {path}: {error.strerror or error}") from error


def egraph_to_json(egraph: EGraph, costs: Floats) -> dict[str, object]:
    """The document that ``write_egraph`` writes; raises as it does."""
    if costs.shape != (egraph.node_count,):
        raise InvalidEGraphError(f"costs must have shape ({egraph.node_count},), not {costs.shape}")
    offsets, members = egraph.class_nodes
    position = np.empty(egraph.node_count, np.int64)
    position[members] = np.arange(egraph.node_count) - np.repeat(offsets[:-1], np.diff(offsets))
    occupied = np.diff(offsets) > 0
    nodes: dict[str, object] = {}
    for node, cls in enumerate(egraph.node_class.tolist()):
        name = f"{cls}.{position[node]}"
        children: list[int] = egraph.operands(node).tolist()
        for child in children:
            if not occupied[child]:
                raise InvalidEGraphError(f"e-node {name!r} needs class {child}, which has no e-node")
        cost = _cost(name, float(costs[node]))
        record: dict[str, object] = {
            "op": egraph.labels[node],
            "children": [f"{child}.0" for child in children],
            "eclass": str(cls),
        }
        nodes[name] = record | ({"subsumed": True} if cost == inf else {"cost": cost})
    return {"nodes": nodes, "root_eclasses": [str(root) for root in egraph.roots.tolist()], "class_data": {}}


def _cost(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidEGraphError(f"the cost of e-node {name!r} is {value!r}, which is not a number")
    try:
        cost = float(value)
    except OverflowError as error:
        raise InvalidEGraphError(f"the cost of e-node {name!r} is too large for a float") from error
    if isnan(cost) or cost == -inf:
        raise InvalidEGraphError(f"the cost of e-node {name!r} is {cost}, which is not a cost")
    return cost


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InvalidEGraphError(f"{what} must be an object")
    return cast("Mapping[str, object]", value)


def _sequence(value: object, what: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise InvalidEGraphError(f"{what} must be a list")
    return cast("Sequence[object]", value)


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InvalidEGraphError(f"{what} must be text")
    return value
