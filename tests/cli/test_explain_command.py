"""``explain`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUICK = ("--target", "analytic", "--extractor", "dag-greedy", "-q")


def test_a_table_of_all_nodes(cli: Callable[..., Any], model: Path) -> None:
    done = cli("explain", model, *QUICK)
    assert done.code == 0, done.err
    assert "4 nodes" in done.out
    assert "mul-one" in done.out
    assert "relu-idempotent" in done.out
    table = done.out.partition("4 nodes")[2].partition("--node")[0]
    assert max(map(len, table.splitlines())) <= 100


def test_one_node(cli: Callable[..., Any], model: Path) -> None:
    done = cli("explain", model, "--node", "y", *QUICK)
    assert "y (Exp): kept" in done.out
    assert "Ways to compute it" in done.out
    assert "stopped by" in done.out
    every = cli("explain", model, "--node", "y", "-v", *QUICK)
    assert len(every.out) > len(done.out)
    assert "=>" in every.out


def test_json_holds_it_all(cli: Callable[..., Any], model: Path) -> None:
    done = cli("explain", model, "--node", "y", "--json", "-", *QUICK)
    found = json.loads(done.out)
    assert found["taken"] is True
    assert [n["node"] for n in found["nodes"]] == ["a", "b", "c", "y"]
    assert found["nodes"][3]["attempts"]
    assert found["nodes"][3]["alternatives"][0]["whole"] > 0


def test_a_node_that_is_not_there(cli: Callable[..., Any], model: Path) -> None:
    cli("explain", model, "--node", "z", *QUICK).complains(2, "no node z", "for example")
