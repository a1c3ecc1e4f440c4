"""``egraph-opt costs``: measurements move between machines, and nothing fails without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from egraph_opt.cli.costs import app
from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorType
from egraph_opt.runtime import CostDatabase, Entry, Scope, Signature
from egraph_opt.runtime.cuda.measure import read_signatures, write_signatures


def test_measurements_move_between_databases(tmp_path: Path) -> None:
    entries = {"Relu() float32[2]": Entry(1e-6, 2e-7, ""), "Erf() string[2]": Entry(None, 0.0, "no kernel")}
    first = CostDatabase.open(tmp_path / "a.sqlite")
    first.write(entries, Scope("card", "versions"))
    first.close()
    run, file = CliRunner(), str(tmp_path / "moved.jsonl")
    assert run.invoke(app, ["export", file, "--database", str(tmp_path / "a.sqlite")]).exit_code == 0
    assert run.invoke(app, ["import", file, "--database", str(tmp_path / "b.sqlite")]).exit_code == 0
    second = CostDatabase.open(tmp_path / "b.sqlite")
    assert second.read(entries, Scope("card", "versions")) == entries
    second.close()


def test_import_refuses_other_files(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("[1, 2]\n")
    result = CliRunner().invoke(app, ["import", str(tmp_path / "bad"), "--database", str(tmp_path / "d.sqlite")])
    assert isinstance(result.exception, UsageError)


def test_signatures_survive_a_file(tmp_path: Path) -> None:
    x, w = TensorType("float16", (1, 8, 5, 5)), TensorType("float16", (4, 8, 3, 3))
    wanted = [
        Signature("Conv", ((1, 1), (1, 1, 1, 1), (1, 1), 1), (x, w), (False, True)),
        Signature("Relu", (), (x,), (False,)),
    ]
    assert write_signatures(tmp_path / "s.jsonl", wanted) == 2
    assert read_signatures(tmp_path / "s.jsonl") == wanted
    (tmp_path / "bad").write_text("nothing\n")
    with pytest.raises(UsageError):
        read_signatures(tmp_path / "bad")
