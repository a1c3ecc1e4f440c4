"""Measured costs, kept between runs: one SQLite file in the user's cache folder.

A row is found again only on the same device, with the same number of threads and the same versions. Several processes
may read and write at once; a file that is no longer a database is moved aside; without a writable folder the costs
last as long as the process.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

SCHEMA = 1
"""Raised whenever stored seconds stop being comparable with new ones."""

_CREATE = """
CREATE TABLE IF NOT EXISTS cost (
    signature TEXT NOT NULL, device TEXT NOT NULL, versions TEXT NOT NULL,
    seconds REAL, layout REAL NOT NULL, note TEXT NOT NULL,
    PRIMARY KEY (signature, device, versions)
) WITHOUT ROWID
"""
_UPSERT = """
INSERT INTO cost VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (signature, device, versions)
DO UPDATE SET seconds = excluded.seconds, layout = excluded.layout, note = excluded.note
"""
_SELECT = """
SELECT signature, seconds, layout, note FROM cost
WHERE device = ? AND versions = ? AND signature IN (SELECT value FROM json_each(?))
"""
_BUSY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one signature: ``seconds`` is ``None`` when the target cannot run it, and ``note`` says why."""

    seconds: float | None
    layout: float = 0.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """Where and with what seconds were measured."""

    device: str
    versions: str

    @staticmethod
    def here(target: str, threads: int) -> Scope:
        """This machine's CPU and the versions that are installed."""
        return Scope(
            f"{target}: {cpu_name()}, {threads} threads", f"onnxruntime {version('onnxruntime')}, schema {SCHEMA}"
        )


class CostDatabase:
    """Costs by signature key and scope. Create it with ``open``; every method may be called from any process."""

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        self._connection = connection
        self.path = path

    @staticmethod
    def open(path: str | Path | None = None) -> CostDatabase:
        """The database at ``path`` (default: ``costs.sqlite`` in the cache folder), created where it is missing.

        Warns and goes on with an empty one when the file is damaged (it is moved aside), and in memory when the
        folder cannot be written.
        """
        file = Path(path) if path is not None else cache_folder() / "costs.sqlite"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            return CostDatabase(_connect(file), file)
        except sqlite3.DatabaseError as error:
            if _is_damaged(error):
                return CostDatabase._restart(file, error)
            reason = str(error)
        except OSError as error:
            reason = error.strerror or str(error)
        warnings.warn(f"costs are not kept: {file} cannot be used ({reason})", stacklevel=2)
        return CostDatabase.in_memory()

    @staticmethod
    def in_memory() -> CostDatabase:
        """A database that lasts as long as the object."""
        return CostDatabase(_connect(":memory:"), None)

    @staticmethod
    def _restart(file: Path, error: Exception) -> CostDatabase:
        aside = file.with_name(f"{file.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
        try:
            file.replace(aside)
            for suffix in ("-wal", "-shm"):  # a journal of the old file must not be replayed into the new one
                file.with_name(file.name + suffix).unlink(missing_ok=True)
            warnings.warn(f"{file} is damaged ({error}): moved to {aside.name}, costs are measured anew", stacklevel=3)
            return CostDatabase(_connect(file), file)
        except (OSError, sqlite3.DatabaseError) as again:
            warnings.warn(f"costs are not kept: {file} is damaged and cannot be replaced ({again})", stacklevel=3)
            return CostDatabase.in_memory()

    def read(self, keys: Iterable[str], scope: Scope) -> dict[str, Entry]:
        """The entries that are there, in one query."""
        wanted = json.dumps(sorted(set(keys)))
        try:
            rows = self._connection.execute(_SELECT, (scope.device, scope.versions, wanted)).fetchall()
        except sqlite3.DatabaseError as error:
            self._fall_back(error)
            return {}
        return {key: Entry(seconds, layout, note) for key, seconds, layout, note in rows}

    def write(self, entries: Mapping[str, Entry], scope: Scope) -> None:
        """Stores all entries or none, over what was there; a later reader sees them even if we die afterwards."""
        rows = [(key, scope.device, scope.versions, e.seconds, e.layout, e.note) for key, e in entries.items()]
        try:
            self._insert(rows)
        except sqlite3.DatabaseError as error:
            self._fall_back(error)
            self._insert(rows)

    def rows(self) -> list[tuple[str, Scope, Entry]]:
        """Everything, in order of signature, device and versions."""
        query = "SELECT signature, device, versions, seconds, layout, note FROM cost ORDER BY 1, 2, 3"
        found: Sequence[tuple[str, str, str, float | None, float, str]] = self._connection.execute(query).fetchall()
        return [(key, Scope(device, versions), Entry(s, layout, n)) for key, device, versions, s, layout, n in found]

    def close(self) -> None:
        """Ends the connection; the object cannot be used afterwards."""
        self._connection.close()

    def _insert(self, rows: Sequence[tuple[object, ...]]) -> None:
        with self._connection:
            self._connection.executemany(_UPSERT, rows)

    def _fall_back(self, error: Exception) -> None:
        """The file broke under us (disk full, folder gone, read-only): go on in memory, with what can be read."""
        warnings.warn(f"costs are no longer kept: {self.path}: {error}", stacklevel=3)
        self._connection.close()
        self._connection, self.path = _connect(":memory:"), None


def cache_folder() -> Path:
    """``EGRAPH_OPT_CACHE``, or the user's cache folder for this program."""
    chosen = os.environ.get("EGRAPH_OPT_CACHE")
    if chosen:
        return Path(chosen)
    import platformdirs  # not needed, and not there, on a machine that only measures on its GPU into a given file

    return Path(platformdirs.user_cache_dir("egraph-opt"))


def cpu_name() -> str:
    """The model name of the CPU and, because one name can hide several, its widest vector unit."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    unit = next((u for u in ("amx_tile", "avx512f", "avx2", "sve", "asimd") if u in flags), "")
    return f"{fields.get('model name') or platform.machine()} {unit}".strip()


def _connect(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA busy_timeout = {int(_BUSY_SECONDS * 1000)}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(_CREATE)
        connection.execute(_SELECT, ("", "", "[]"))  # fails where another program made a table of this name
        connection.execute("BEGIN IMMEDIATE")  # fails now, not at the first write, where the file is read-only
        connection.rollback()
        with closing(connection.execute("PRAGMA quick_check(1)")) as check:
            verdict = check.fetchone()
        if verdict != ("ok",):
            raise sqlite3.DatabaseError(f"database disk image is malformed: {verdict[0]}")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _is_damaged(error: sqlite3.DatabaseError) -> bool:
    text = str(error)
    return any(sign in text for sign in ("not a database", "malformed", "no such column"))
