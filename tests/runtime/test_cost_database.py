"""The database of costs: several processes, broken files, folders that cannot be written."""

from __future__ import annotations

import multiprocessing
import sqlite3
import warnings
from pathlib import Path

import pytest

from egraph_opt.runtime import CostDatabase, Entry, Scope, cache_folder

SCOPE = Scope("a cpu", "some versions")


def test_entries_come_back_in_their_scope_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "costs.sqlite"
    database = CostDatabase.open(path)
    entries = {"a": Entry(1e-6), "b": Entry(None, note="cannot"), "quote'\" \u00e9": Entry(2e-6, 1e-7)}
    database.write(entries, SCOPE)
    database.write({"a": Entry(3e-6)}, Scope("another", SCOPE.versions))
    database.close()
    again = CostDatabase.open(path)
    assert again.read([*entries, "missing"], SCOPE) == entries
    assert again.read(["a"], Scope(SCOPE.device, "newer")) == {}
    again.write({"a": Entry(9e-6)}, SCOPE)
    assert again.read(["a"], SCOPE)["a"].seconds == 9e-6
    assert len(again.rows()) == 4
    assert again.read([], SCOPE) == {}


def test_many_keys_are_read_at_once(tmp_path: Path) -> None:
    database = CostDatabase.open(tmp_path / "costs.sqlite")
    entries = {f"key {i}": Entry(i * 1e-9) for i in range(50_000)}
    database.write(entries, SCOPE)
    assert database.read(entries, SCOPE) == entries


def test_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRAPH_OPT_CACHE", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    database = CostDatabase.open()
    assert database.path == tmp_path / "cache" / "costs.sqlite"
    assert (tmp_path / "cache" / "costs.sqlite").exists()
    monkeypatch.delenv("EGRAPH_OPT_CACHE")
    assert cache_folder().name == "egraph-opt"


@pytest.mark.parametrize("damage", ["text", "middle", "schema"])
def test_damaged_file_is_moved_aside(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "costs.sqlite"
    database = CostDatabase.open(path)
    database.write({f"key {i}": Entry(1e-6, note="x" * 200) for i in range(2000)}, SCOPE)
    database.close()
    if damage == "text":
        path.write_text("this is not a database " * 100)
    elif damage == "middle":
        content = bytearray(path.read_bytes())
        content[4096 : len(content) - 4096] = b"\xff" * (len(content) - 8192)
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as other:
            other.execute("DROP TABLE cost")
            other.execute("CREATE TABLE cost (something TEXT)")
    with pytest.warns(UserWarning, match="damaged"):
        fresh = CostDatabase.open(path)
    assert fresh.path == path
    assert fresh.rows() == []
    fresh.write({"a": Entry(1e-6)}, SCOPE)
    assert len(list(tmp_path.glob("costs.sqlite.damaged-*"))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(CostDatabase.open(path).rows()) == 1


def test_unusable_folder_leaves_costs_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="not kept"):
        database = CostDatabase.open(tmp_path / "file" / "costs.sqlite")
    assert database.path is None
    database.write({"a": Entry(1e-6)}, SCOPE)
    assert database.read(["a"], SCOPE) == {"a": Entry(1e-6)}
    (tmp_path / "folder").mkdir()
    with pytest.warns(UserWarning, match="not kept"):
        assert CostDatabase.open(tmp_path / "folder").path is None


def test_file_that_breaks_while_open_is_survived(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    database = CostDatabase.open(path)
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE cost")
    with pytest.warns(UserWarning, match="no longer kept"):
        database.write({"a": Entry(1e-6)}, SCOPE)
    assert database.read(["a"], SCOPE) == {"a": Entry(1e-6)}


def _write_many(path: str, who: int) -> None:
    database = CostDatabase.open(path)
    for turn in range(40):
        database.write({f"own {who} {turn}": Entry(1e-6), "shared": Entry(who * 1e-6)}, SCOPE)
    database.close()


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "costs.sqlite")  # both create it, too
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, who)) for who in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    rows = CostDatabase.open(path).rows()
    assert len(rows) == 81
    assert {e.seconds for key, _, e in rows if key == "shared"} <= {1e-6, 2e-6}
