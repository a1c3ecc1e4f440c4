"""E-graphs as JSON files in the format of egraph-serialize (github.com/egraphs-good/egraph-serialize, 0.3).

    {"nodes": {"<node id>": {"op": "Add", "children": ["<node id>", ...], "eclass": "<class id>",
                             "cost": 1.0, "subsumed": false}, ...},
     "root_eclasses": ["<class id>", ...]}

A child is written as the id of *some* e-node of the operand class. Other keys are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from os import PathLike
from pathlib import Path
from typing import NamedTuple, cast

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


class _Record(NamedTuple):
    """One e-node of the file, checked as far as that needs no other."""

    op: str
    eclass: str
    children: tuple[str, ...]
    cost: float
    subsumed: bool


def read_egraph(path: str | PathLike[str]) -> SerializedEGraph:
    """Reads a JSON file; subsumed e-nodes are dropped.

    E-nodes become compact records while the file is parsed: a million of them need some hundred megabytes.

    Raises:
        InvalidEGraphError: the file cannot be read, is not JSON, or is not an e-graph; the message names the file
            and the e-node.
    """
    texts: dict[str, str] = {}

    def compact(value: dict[str, object]) -> object:
        try:
            return _record("", value, texts)
        except InvalidEGraphError:
            return value  # no e-node, or a wrong one: its name is known later

    try:
        data: object = json.loads(Path(path).read_bytes(), object_hook=compact)
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
    texts: dict[str, str] = {}
    records = {
        name: record if isinstance(record, _Record) else _record(name, record, texts)
        for name, record in _mapping(document.get("nodes"), "'nodes'").items()
    }
    numbers = {cls: number for number, cls in enumerate(dict.fromkeys(record.eclass for record in records.values()))}
    class_of = {name: numbers[record.eclass] for name, record in records.items()}
    kept = {name: record for name, record in records.items() if not record.subsumed}
    egraph = EGraph(
        np.fromiter((class_of[name] for name in kept), np.int64, len(kept)),
        np.cumsum([0, *(len(record.children) for record in kept.values())], dtype=np.int64),
        np.fromiter(_operands(kept, class_of), np.int64),
        np.array(_roots(document.get("root_eclasses", []), numbers, kept), np.int64),
        tuple(record.op for record in kept.values()),
        len(numbers),
    )
    costs = np.fromiter((record.cost for record in kept.values()), np.float64, len(kept))
    return SerializedEGraph(egraph, costs, tuple(kept), tuple(numbers))


def _record(name: str, value: object, texts: dict[str, str]) -> _Record:
    """A checked e-node; equal texts share the one in ``texts``."""
    record = _mapping(value, f"e-node {name!r}")
    eclass = _text(record.get("eclass"), f"'eclass' of e-node {name!r}")
    op = _text(record.get("op"), f"'op' of e-node {name!r}")
    children = _sequence(record.get("children", []), f"'children' of e-node {name!r}")
    for child in children:
        if not isinstance(child, str):
            raise InvalidEGraphError(f"e-node {name!r} has child {child!r}, which is not the id of an e-node")
    return _Record(
        texts.setdefault(op, op),
        texts.setdefault(eclass, eclass),
        tuple(texts.setdefault(child, child) for child in cast("Sequence[str]", children)),
        _cost(name, record.get("cost", 1.0)),
        record.get("subsumed", False) is True,
    )


def _operands(kept: Mapping[str, _Record], class_of: Mapping[str, int]) -> Iterator[int]:
    for name, record in kept.items():
        for child in record.children:
            if child not in class_of:
                raise InvalidEGraphError(f"e-node {name!r} has child {child!r}, which is not the id of an e-node")
            yield class_of[child]


def _roots(value: object, numbers: Mapping[str, int], kept: Mapping[str, _Record]) -> list[int]:
    populated = {record.eclass for record in kept.values()}
    roots: list[int] = []
    for root in _sequence(value, "'root_eclasses'"):
        if not isinstance(root, str) or root not in numbers:
            raise InvalidEGraphError(f"root class {root!r} has no e-node; roots must be canonical ids of classes")
        if root not in populated:
            raise InvalidEGraphError(f"root class {root!r} has no e-node that is not subsumed")
        roots.append(numbers[root])
    return roots


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
