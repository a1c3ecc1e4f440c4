"""The JSON format of egraph-serialize: what is read, what is refused, and that writing keeps everything."""

from __future__ import annotations

import json
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egraph_opt.egraph import EGraph, InvalidEGraphError, egraph_from_json, read_egraph, write_egraph
from egraph_opt.errors import UsageError


def document() -> dict[str, Any]:
    return {
        "nodes": {
            "b.0": {"op": "Add", "children": ["a.1", "a.0"], "eclass": "b", "cost": 2.5},
            "a.0": {"op": "x", "eclass": "a"},
            "a.1": {"op": "y", "children": [], "eclass": "a", "cost": 0, "comment": "unknown keys are ignored"},
        },
        "root_eclasses": ["b", "a", "b"],
        "class_data": {"a": {"type": "f32"}},
    }


def test_children_stand_for_their_classes() -> None:
    file = egraph_from_json(document())
    assert file.class_ids == ("b", "a")
    assert file.node_ids == ("b.0", "a.0", "a.1")
    assert file.egraph.labels == ("Add", "x", "y")
    assert file.egraph.operands(0).tolist() == [1, 1]
    assert file.egraph.roots.tolist() == [0, 1, 0]
    assert file.costs.tolist() == [2.5, 1.0, 0.0]


def test_subsumed_e_nodes_are_dropped_but_still_stand_for_their_class() -> None:
    data = document()
    data["nodes"]["a.1"]["subsumed"] = True
    file = egraph_from_json(data)
    assert file.node_ids == ("b.0", "a.0")
    assert file.egraph.operands(0).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["nodes", "b.0", "children"], ["c.0"], "e-node 'b.0' has child 'c.0'"),
        (["nodes", "b.0", "children"], ["a"], "e-node 'b.0' has child 'a'"),
        (["nodes", "b.0", "children"], [["a.0"]], "e-node 'b.0' has child"),
        (["nodes", "b.0", "children"], "a.0", "'children' of e-node 'b.0' must be a list"),
        (["nodes", "b.0", "cost"], nan, "cost of e-node 'b.0' is nan"),
        (["nodes", "b.0", "cost"], -inf, "cost of e-node 'b.0' is -inf"),
        (["nodes", "b.0", "cost"], "1", "cost of e-node 'b.0' is '1'"),
        (["nodes", "b.0", "cost"], True, "cost of e-node 'b.0' is True"),
        (["nodes", "b.0", "cost"], 10**400, "cost of e-node 'b.0' is too large"),
        (["nodes", "b.0", "eclass"], 3, "'eclass' of e-node 'b.0' must be text"),
        (["nodes", "b.0", "op"], None, "'op' of e-node 'b.0' must be text"),
        (["nodes", "b.0"], [], "e-node 'b.0' must be an object"),
        (["nodes", "b.0", "subsumed"], True, "root class 'b' has no e-node"),
        (["nodes"], [], "'nodes' must be an object"),
        (["root_eclasses"], ["z"], "root class 'z' has no e-node; roots must be canonical"),
        (["root_eclasses"], ["a.0"], "root class 'a.0' has no e-node"),
        (["root_eclasses"], [["b"]], "root class"),
        (["root_eclasses"], "b", "'root_eclasses' must be a list"),
    ],
)
def test_what_is_wrong_is_named(path: list[str], value: object, message: str, tmp_path: Path) -> None:
    data: Any = document()
    at = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(InvalidEGraphError, match=message):
        egraph_from_json(data)
    (tmp_path / "e.json").write_text(json.dumps(data))
    with pytest.raises(InvalidEGraphError, match=r"e\.json: .*" + message):
        read_egraph(tmp_path / "e.json")


def test_names_that_look_like_keys_of_e_nodes(tmp_path: Path) -> None:
    nodes = {"op": {"op": "f", "children": ["eclass"], "eclass": "op"}, "eclass": {"op": "x", "eclass": "eclass"}}
    data = {"nodes": nodes, "root_eclasses": ["op"], "class_data": {"op": {"op": "f", "eclass": "op"}}}
    (tmp_path / "e.json").write_text(json.dumps(data))
    assert read_egraph(tmp_path / "e.json").class_ids == ("op", "eclass")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*missing\.json: No such file"):
        read_egraph(tmp_path / "missing.json")
    for index, content in enumerate([b"", b"{", b"\xff\xfe\x00", b"[]", b"{}", b"[" * 100_000]):
        path = tmp_path / f"{index}.json"
        path.write_bytes(content)
        with pytest.raises(InvalidEGraphError, match=f"{index}.json"):
            read_egraph(path)


def test_writing_and_reading_give_the_same_egraph(tmp_path: Path) -> None:
    nodes: list[tuple[str, int, list[int]]] = [
        ("Add", 1, [0, 0, 2]),
        ('naïve "op"', 0, []),
        ("y", 0, []),
        ("f", 2, [2, 1]),
    ]
    egraph = EGraph.build(nodes, [1, 1, 0], 3)
    costs = np.array([0.1, 1e-300, -3.0, 7.0])
    write_egraph(tmp_path / "e.json", egraph, costs)
    file = read_egraph(tmp_path / "e.json")
    number = [int(name) for name in file.class_ids]
    assert [number[cls] for cls in file.egraph.node_class] == egraph.node_class.tolist()
    assert [number[cls] for cls in file.egraph.children] == egraph.children.tolist()
    assert [number[cls] for cls in file.egraph.roots] == egraph.roots.tolist()
    assert file.egraph.labels == egraph.labels
    assert file.costs.tolist() == costs.tolist()


def test_infinite_costs_are_written_as_subsumed(tmp_path: Path) -> None:
    egraph = EGraph.build([("x", 0, []), ("y", 0, [])], [0], 1)
    write_egraph(tmp_path / "e.json", egraph, np.array([inf, 1.0]))
    assert "Infinity" not in (tmp_path / "e.json").read_text()
    assert json.loads((tmp_path / "e.json").read_text())["nodes"]["0.0"]["subsumed"] is True
    assert read_egraph(tmp_path / "e.json").egraph.labels == ("y",)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    egraph = EGraph.build([("f", 0, [1])], [0], 2)
    with pytest.raises(InvalidEGraphError, match="needs class 1, which has no e-node"):
        write_egraph(tmp_path / "e.json", egraph, np.ones(1))
    leaf = EGraph.build([("x", 0, [])], [0], 1)
    with pytest.raises(InvalidEGraphError, match="nan"):
        write_egraph(tmp_path / "e.json", leaf, np.array([nan]))
    with pytest.raises(InvalidEGraphError, match="shape"):
        write_egraph(tmp_path / "e.json", leaf, np.ones(2))
    with pytest.raises(InvalidEGraphError, match="cannot write"):
        write_egraph(tmp_path / "no" / "e.json", leaf, np.ones(1))
