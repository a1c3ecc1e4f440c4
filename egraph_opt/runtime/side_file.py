"""How the values of a model are to lie on a GPU: kept beside the model, whose ONNX runs everywhere as it is.

A file ``<model>.layout.json`` names values and the order of their axes, the slowest first. In memory a model carries
the same in its ``meta``, which is never written into the ONNX. Where there is none, or it does not fit the model, the
rule of thumb decides: an order changes how long a model takes, not what it computes.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import onnx_ir

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.onnx_io import import_model
from egraph_opt.onnx_io.load import Model
from egraph_opt.runtime.costs import Orders

ENDING = ".layout.json"
_KEY, _SCHEMA = "egraph_opt.layout", 1


def name_values(graph: TensorGraph, orders: Orders | None) -> None:
    """Gives those nodes of ``orders`` a name that have none, so that their values have it in the model."""
    taken = set(graph.names.values())
    for node in orders or ():
        name = f"{graph.nodes[node].op}_{node}"
        if node not in graph.names and name not in taken:
            graph.names[node] = name


def attach(model: onnx_ir.Model, graph: TensorGraph, orders: Orders | None) -> None:
    """Lets a model carry the orders of the nodes of its graph that have names; None: nothing."""
    if orders is None:
        model.meta.pop(_KEY, None)
        return
    model.meta[_KEY] = {graph.names[node]: list(order) for node, order in orders.items() if node in graph.names}


def keep_beside(model: onnx_ir.Model, path: str | Path) -> None:
    """Lets a model that stays as its file ``path`` has it carry what lies beside that file, where this fits the model.

    A model that carries orders already keeps those: they are newer.
    """
    if _KEY not in model.meta and beside(path).is_file():
        with suppress(Exception):  # the original must survive whatever reading it runs into
            graph = import_model(model).graph
            attach(model, graph, orders_of(path, graph))


def write_beside(model: onnx_ir.Model, path: str | Path) -> None:
    """Writes what a model carries beside its file ``path``; where it carries nothing, an older file goes away.

    Raises:
        UsageError: the file cannot be written.
    """
    target = beside(path)
    try:
        if _KEY in model.meta:
            target.write_text(json.dumps({"schema": _SCHEMA, "orders": model.meta[_KEY]}, indent=1) + "\n")
        else:
            target.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from None


def beside(path: str | Path) -> Path:
    """The side file of the model in ``path``."""
    return Path(f"{path}{ENDING}")


def orders_of(model: Model | TensorGraph, graph: TensorGraph) -> Orders | None:
    """The orders that ``model`` carries, or that lie beside its file, by node of its graph.

    ``None`` where there are none, or one of them does not fit: then they are of another model.
    """
    named = _read(beside(model)) if isinstance(model, str | Path) else None
    if isinstance(model, onnx_ir.Model):
        named = model.meta.get(_KEY)
    if not isinstance(named, dict):
        return None
    nodes = {name: node for node, name in graph.names.items()}
    found = {nodes.get(name, -1): order for name, order in named.items()}
    if any(not _fits(graph, node, order) for node, order in found.items()):
        return None
    return {node: tuple(order) for node, order in found.items()}


def _fits(graph: TensorGraph, node: int, order: object) -> bool:
    type_ = graph.types[node] if node >= 0 else None
    whole = isinstance(order, list) and all(isinstance(axis, int) for axis in order)
    return whole and isinstance(type_, TensorType) and sorted(order) == list(range(type_.rank))  # type: ignore[arg-type]


def _read(path: Path) -> object:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    fits = isinstance(document, dict) and document.get("schema") == _SCHEMA
    return document.get("orders") if fits else None
