"""The orders of values that lie beside a model."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir
import pytest

from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io import export_model, import_model, load_model, save_model, to_ir
from egraph_opt.runtime import Orders
from egraph_opt.runtime.side_file import attach, beside, name_values, orders_of, write_beside

TEXT = """<ir_version: 8, opset_import: ["" : 17]> m (float[2,3,4,5] x) => (float[2,3,4,5] y) {
    a = Relu (x)
    b = Tanh (a)
    y = Add (a, b)
}"""


def made(text: str = TEXT) -> tuple[onnx_ir.Model, TensorGraph, Orders]:
    """A model that carries orders, its graph, and the orders."""
    imported = import_model(to_ir(onnx.parser.parse_model(text)))
    graph = imported.graph
    orders = {node: (0, 2, 3, 1) for node in graph.live() if graph.nodes[node].op in ("Relu", "Tanh")}
    graph.names.clear()  # as if rules had made the nodes
    name_values(graph, orders)
    model = export_model(imported, graph)
    attach(model, graph, orders)
    return model, graph, orders


def said(model: onnx_ir.Model | Path, graph: TensorGraph) -> dict[str, tuple[int, ...]] | None:
    """Orders by operator."""
    found = orders_of(model, graph)
    return None if found is None else {graph.nodes[node].op: order for node, order in found.items()}


def test_orders_survive_a_file(tmp_path: Path) -> None:
    model, _, orders = made()
    wanted = {"Relu": (0, 2, 3, 1), "Tanh": (0, 2, 3, 1)}
    assert len(orders) == 2
    assert said(model, import_model(to_ir(model)).graph) == wanted
    path = tmp_path / "m.onnx"
    save_model(model, path)
    assert b"layout" not in path.read_bytes()
    graph = import_model(load_model(path)).graph
    assert orders_of(path, graph) is None
    write_beside(model, path)
    assert said(path, graph) == wanted
    assert orders_of(load_model(path), graph) is None  # it was not read with the model
    attach(model, graph, None)
    write_beside(model, path)
    assert not beside(path).exists()


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "1", '{"schema": 0, "orders": {}}', '{"schema": 1}', '{"schema": 1, "orders": [1]}',
        '{"schema": 1, "orders": {"nobody": [0, 2, 3, 1]}}', '{"schema": 1, "orders": {"x": [0, 1]}}',
        '{"schema": 1, "orders": {"x": [0, 1, 2, 2]}}', '{"schema": 1, "orders": {"x": "0123"}}',
        '{"schema": 1, "orders": {"x": [0, 1, 2, 3], "y": null}}',
    ],
)  # fmt: skip
def test_what_does_not_fit_counts_for_nothing(content: str, tmp_path: Path) -> None:
    model, _, _ = made()
    save_model(model, tmp_path / "m.onnx")
    beside(tmp_path / "m.onnx").write_text(content)
    assert orders_of(tmp_path / "m.onnx", import_model(to_ir(model)).graph) is None


def test_orders_of_another_model_count_for_nothing(tmp_path: Path) -> None:
    model, _, _ = made()
    path = tmp_path / "m.onnx"
    write_beside(model, path)
    other = onnx.parser.parse_model(TEXT.replace("Tanh", "Sigmoid"))
    assert orders_of(path, import_model(to_ir(other)).graph) is None


def test_names_that_are_there_stay() -> None:
    imported = import_model(to_ir(onnx.parser.parse_model(TEXT)))
    before = dict(imported.graph.names)
    name_values(imported.graph, {node: (3, 2, 1, 0) for node in imported.graph.live()})
    assert before.items() <= imported.graph.names.items()
