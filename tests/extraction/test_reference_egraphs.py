"""Real e-graphs of extraction-gym against costs that other solvers proved."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from egraph_opt.egraph import read_egraph
from egraph_opt.extraction import Status, extract

DATA = Path(os.environ.get("EGRAPH_OPT_DATA", Path(__file__).parents[3] / "shared")) / "data" / "egraphs"

needs_data = pytest.mark.skipif(
    not (DATA / "reference_costs.csv").exists(),
    reason=f"no {DATA / 'reference_costs.csv'}: set EGRAPH_OPT_DATA to the folder with the shared test data",
)


def rows() -> dict[str, dict[str, str]]:
    if not (DATA / "reference_costs.csv").exists():
        return {}
    with (DATA / "reference_costs.csv").open(encoding="utf-8") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


REFERENCE = rows()
PROVEN = [name for name, row in REFERENCE.items() if row["ilp_status"] == "optimal"]
HARD = ["tensat__vgg.json", "tensat__resnet50.json"]  # vgg was not proven by others in ten hours; landmarks do it
SLOW = ["maxsat__hamming6-2.clq.json", "rover__fir_8_tap_5iteration_egraph.json"]


@needs_data
@pytest.mark.parametrize("name", [*PROVEN, *HARD])
def test_ilp_proves_the_reference_cost(name: str) -> None:
    file = read_egraph(DATA / name)
    result = extract(file.egraph, file.costs, extractor="ilp")
    assert result.cost == pytest.approx(float(REFERENCE[name]["best_known_cost"]), rel=1e-8)
    assert result.status is Status.OPTIMAL


@needs_data
@pytest.mark.parametrize("name", SLOW)
def test_ilp_stopped_early_keeps_the_first_answer_and_a_valid_bound(name: str) -> None:
    file = read_egraph(DATA / name)
    greedy = extract(file.egraph, file.costs, extractor="dag-greedy", time_limit=0.0)
    result = extract(file.egraph, file.costs, extractor="ilp", time_limit=1.0)
    assert result.cost <= greedy.cost
    assert result.lower_bound <= float(REFERENCE[name]["best_known_cost"]) + 1e-9
    assert result.gap >= 0.0


@needs_data
@pytest.mark.parametrize("name", list(REFERENCE))
def test_dag_greedy_is_between_the_optimum_and_tree_greedy(name: str) -> None:
    row = REFERENCE[name]
    file = read_egraph(DATA / name)
    result = extract(file.egraph, file.costs, extractor="dag-greedy")
    assert result.lower_bound <= float(row["best_known_cost"]) * (1 + 1e-9)
    if (file.costs >= 0).all():
        tree = extract(file.egraph, file.costs, extractor="tree-greedy")
        assert float(row["ilp_lower_bound"]) <= result.cost * (1 + 1e-9)
        assert result.cost <= tree.cost


@needs_data
@pytest.mark.parametrize("name", [name for name in REFERENCE if not name.startswith("maxsat")])
def test_tree_greedy_has_the_reference_tree_cost(name: str) -> None:
    file = read_egraph(DATA / name)
    selection = extract(file.egraph, file.costs, extractor="tree-greedy").selection
    trees = [0.0] * file.egraph.class_count
    for node in selection.order(file.egraph):
        operands: list[int] = file.egraph.operands(node).tolist()
        trees[int(file.egraph.node_class[node])] = float(file.costs[node]) + sum(trees[child] for child in operands)
    total = float(np.array(trees)[file.egraph.roots].sum())
    assert total == pytest.approx(float(REFERENCE[name]["greedy_tree_cost"]), rel=1e-9)
