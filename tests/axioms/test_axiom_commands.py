"""``egraph-opt axioms``, and the cache behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egraph_opt.axioms import all_axioms, axiom
from egraph_opt.axioms.cache import Cache
from egraph_opt.axioms.run import validate_all
from egraph_opt.axioms.space import TINY
from egraph_opt.axioms.validate import Report
from egraph_opt.cli import axioms as command
from egraph_opt.cli.app import program

RIGHT = axiom("right", "Add(x, y)", "Add(y, x)")
FEW = tuple(a for a in all_axioms() if a.family == "products")[:4]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("EGRAPH_OPT_CACHE", str(tmp_path / "cache"))


def test_every_axiom_is_told_apart_and_says_where_it_comes_from() -> None:
    found = all_axioms()
    assert len({a.name for a in found}) == len(found) > 300
    assert len({(a.equation, a.when) for a in found}) == len(found)
    assert all(a.source and a.family for a in found)


def test_what_is_known_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    first = validate_all(FEW, space=TINY)

    def counted(*_: object, **__: object) -> Report:
        calls.append("again")
        return first[0]

    monkeypatch.setattr("egraph_opt.axioms.run.validate", counted)
    assert validate_all(FEW, space=TINY) == first
    assert not calls
    validate_all(FEW, space=TINY, force=True)
    assert len(calls) == len(FEW)


def test_another_text_or_space_is_another_entry() -> None:
    validate_all([RIGHT], space=TINY)
    kept = Cache()
    assert kept.get(RIGHT, TINY) is not None
    assert kept.get(axiom("right", "Add(x, y)", "Add(y, x)", "rank(x) == 1"), TINY) is None


def test_a_damaged_cache_is_written_anew() -> None:
    validate_all([RIGHT], space=TINY)
    file = Cache().file
    file.write_text("{")
    assert Cache().get(RIGHT, TINY) is None
    validate_all([RIGHT], space=TINY)
    assert Cache().get(RIGHT, TINY) is not None


def test_two_processes_find_the_same() -> None:
    one, two = (validate_all(FEW, sample=4, jobs=jobs) for jobs in (1, 2))
    assert [(r.axiom, r.combinations, r.counterexample) for r in one] == [
        (r.axiom, r.combinations, r.counterexample) for r in two
    ]


def test_validate_prints_a_table_and_writes_numbers(tmp_path: Path) -> None:
    file = tmp_path / "reports.json"
    chosen = ["axioms", "validate", FEW[0].name, "--sample", "3", "--json", str(file)]
    result = CliRunner().invoke(program(), chosen)
    assert result.exit_code == 0
    assert "0 counterexamples" in result.stdout
    data = json.loads(file.read_text())
    assert data["totals"]["axioms"] == 1
    assert data["axioms"][0]["passed"]


def test_a_wrong_axiom_gives_exit_1(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = axiom("wrong", "Sub(x, y)", "Sub(y, x)", "shape(x) == shape(y)", family="elementwise")
    monkeypatch.setattr(command, "all_axioms", lambda: (RIGHT, wrong))
    result = CliRunner().invoke(program(), ["axioms", "validate", "--sample", "5", "--jobs", "1"])
    assert result.exit_code == 1
    assert "BAD" in result.stdout


def test_list_is_json_on_request() -> None:
    result = CliRunner().invoke(program(), ["axioms", "list", "--family", "convolution", "--json", "-"])
    assert result.exit_code == 0
    assert {a["family"] for a in json.loads(result.stdout)} == {"convolution"}
