"""The comparison: every row is there, costs are what they are said to be, and what it writes can be read back."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from egraph_opt.compare import BACKTRACKING, Comparison, compare, figures, open_subject, to_csv, to_json, write_page
from egraph_opt.compare.page import page
from egraph_opt.errors import UsageError
from egraph_opt.pipeline import Options

SHARED = {
    "nodes": {
        "a": {"op": "a", "children": ["s", "s2"], "eclass": "A", "cost": 1},
        "b": {"op": "b", "children": [], "eclass": "A", "cost": 9},
        "s": {"op": "s", "children": [], "eclass": "S", "cost": 4},
        "s2": {"op": "t", "children": ["s"], "eclass": "T", "cost": 1},
    },
    "root_eclasses": ["A"],
}
"""The best tree costs 9 (b), the best graph 6 (a, s once, s2)."""


@pytest.fixture
def egraph(tmp_path: Path) -> Path:
    path = tmp_path / "shared.json"
    path.write_text(json.dumps(SHARED))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x A B with B thin, and a batch of any size."""
    rng = np.random.default_rng(0)
    a, b = (
        numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in (("a", (64, 64)), ("b", (64, 1)))
    )
    nodes = [helper.make_node("MatMul", ["x", "a"], ["y"]), helper.make_node("MatMul", ["y", "b"], ["z"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])]
    outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 1])]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, [a, b])
    path = tmp_path / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def run(*paths: Path, **options: object) -> Comparison:
    subjects = [open_subject(p, Options(target="analytic", measure_shapes=options.pop("shapes", {}))) for p in paths]  # type: ignore[arg-type]
    return compare(subjects, ["tree-greedy", "ilp", BACKTRACKING], time_limit=2.0, **options)  # type: ignore[arg-type]


def test_strategies_differ_where_sharing_matters(egraph: Path) -> None:
    found = run(egraph)
    costs = {r.strategy: r.cost for r in found.of("shared")}
    assert costs["tree-greedy"] >= 6
    assert costs["ilp"] == found.best("shared") == 6
    assert found.is_proven("shared")


def test_searching_whole_graphs_needs_a_model(egraph: Path) -> None:
    row = next(r for r in run(egraph).rows if r.strategy == BACKTRACKING)
    assert "model" in row.error
    assert math.isinf(row.cost)


def test_a_model_is_searched_and_measured(model: Path) -> None:
    found = run(model, shapes={"x": (512, 64)}, measure=True)
    rows = {r.strategy: r for r in found.rows}
    assert rows["original"].measured
    assert rows["ilp"].cost < rows["original"].cost
    assert rows[BACKTRACKING].cost == pytest.approx(rows["ilp"].cost, rel=0.05)
    assert rows["ilp"].ratio
    assert rows["ilp"].ratio > 1.0
    assert "Estimated against measured" in figures(found)


def test_json_and_csv_hold_every_row(egraph: Path) -> None:
    found = run(egraph, seeds=2)
    data = to_json(found)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    read = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert [r["strategy"] for r in read] == [r.strategy for r in found.rows]
    assert float(read[1]["cost"]) == 6.0
    assert data["subjects"][0]["proven"] is True


def test_the_page_needs_nothing_else(egraph: Path, model: Path, tmp_path: Path) -> None:
    found = run(egraph, model, measure=False)
    text = page(found)
    assert "<svg" in text
    assert "shared" in text
    assert "chain" in text
    assert "Performance profile" in text
    for outside in ("<script src", "<link", "@import", "http-equiv"):
        assert outside not in text
    assert write_page(found, tmp_path / "page.html") == [tmp_path / "page.html"]
    pictures = write_page(found, tmp_path / "page.png")
    assert len(pictures) == len(figures(found))
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)


def test_the_page_says_at_a_glance_who_is_best_and_who_has_a_proof(egraph: Path) -> None:
    """tree-greedy: 9 instead of 6, or 6 without a proof; ilp: 6, proven; the search over whole graphs: no answer."""
    glance = re.sub(r"\s+", " ", page(run(egraph)).split("At a glance")[1].split("<svg")[0])
    assert re.search(r'<td>ilp</td><td class="good"><b>best</b>', glance)
    assert not re.search(r"<td>tree-greedy</td><td[^>]*><b>", glance)
    assert re.search(r"<td>backtracking</td><td>-", glance)


def test_names_in_the_page_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "<b>&.json"
    path.write_text(json.dumps(SHARED))
    assert "<b>&" not in page(run(path)).replace("<svg", "")


def test_a_plot_of_another_kind_is_refused(egraph: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="html"):
        write_page(run(egraph), tmp_path / "plot.docx")


def test_costs_below_zero_are_plotted_by_how_far_they_are_above_the_best(tmp_path: Path) -> None:
    nodes = {
        "a": {"op": "a", "children": ["s"], "eclass": "A", "cost": -8},
        "b": {"op": "b", "children": [], "eclass": "A", "cost": -9},
        "s": {"op": "s", "children": [], "eclass": "S", "cost": -4},
    }
    path = tmp_path / "below.json"
    path.write_text(json.dumps({"nodes": nodes, "root_eclasses": ["A"]}))
    found = compare([open_subject(path, Options(target="analytic"))], ["dag-greedy", "ilp"], time_limit=2.0)
    costs = {row.strategy: row.cost for row in found.rows}
    assert costs["ilp"] == -12
    marks = [line for line in figures(found)["Cost against time"].axes[0].lines if line.get_linestyle() == "None"]
    heights = {str(line.get_label()): float(np.asarray(line.get_ydata())[0]) for line in marks}
    assert heights == {name: pytest.approx(100 * (cost + 12) / 12) for name, cost in costs.items()}
