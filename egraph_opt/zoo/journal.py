"""The run folder: ``run.json`` says what was asked, ``results.jsonl`` what came out; everything else follows from them.

run.json        the rounds of the run, rewritten in one step
results.jsonl   one record per model and round, appended and on disk before the next begins; the last one counts
models/<hash>/  optimized models by the hash of their content
work/           of models that are being worked on
lock            held by the process that works on the run
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from egraph_opt.errors import EgraphOptError, UsageError
from egraph_opt.zoo.records import Record
from egraph_opt.zoo.settings import Round

RUN, RESULTS, MODELS, WORK, LOCK = "run.json", "results.jsonl", "models", "work", "lock"
FORMAT = 1


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run."""
    return (folder / RUN).is_file() and (folder / RESULTS).is_file()


def read_rounds(folder: Path) -> list[Round]:
    """The rounds of a run, oldest first.

    Raises:
        UsageError: the folder holds no run, or one of another version.
    """
    path = folder / RUN
    try:
        data = json.loads(path.read_text())
        if data["format"] != FORMAT:
            raise UsageError(f"{path} has format {data['format']}, and this version reads format {FORMAT}")
        return [Round.from_json({k: v for k, v in r.items() if k != "config"}) for r in data["rounds"]]
    except FileNotFoundError:
        raise UsageError(f"{folder} holds no run: there is no {RUN}") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def read_records(folder: Path) -> list[Record]:
    """Every record, oldest first. Lines that cannot be read are left out: their models count as not done."""
    records: list[Record] = []
    try:
        lines = (folder / RESULTS).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{folder / RESULTS} cannot be read: {error.strerror}") from None
    for line in lines:
        record = _parse(line)
        if record is not None:
            records.append(record)
    return records


def latest(records: Sequence[Record]) -> dict[str, Record]:
    """The record that counts for each model."""
    return {record.model: record for record in records}


class Journal:
    """A run that this process works on, and no other; leaving the ``with`` block gives it free.

    Raises:
        UsageError: another process works on it, or the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / LOCK).open("w")
        except OSError as error:
            raise UsageError(f"cannot write to {folder}: {error.strerror}") from None
        try:
            _lock(self._lock)
        except OSError:
            self._lock.close()
            raise UsageError(f"another process works on {folder}: wait for it, or choose another --out") from None
        self.rounds = read_rounds(folder) if (folder / RUN).exists() else []
        self._results = _mended(folder / RESULTS)
        self.records = read_records(folder)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._results.close()
        self._lock.close()

    def begin(self, round_: Round) -> None:
        """Adds a round."""
        self.rounds.append(round_)
        text = json.dumps({"format": FORMAT, "rounds": [r.to_json() for r in self.rounds]}, indent=1)
        temporary = self.folder / f".{RUN}.partial"
        with temporary.open("w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / RUN)
        sync_folder(self.folder)

    def append(self, record: Record) -> None:
        """Adds a record; it is on disk when this returns.

        Raises:
            EgraphOptError: it cannot be written.
        """
        try:
            self._results.write(json.dumps(record.to_json(), allow_nan=False).encode() + b"\n")
            self._results.flush()
            os.fsync(self._results.fileno())
        except OSError as error:
            raise EgraphOptError(f"cannot write to {self.folder / RESULTS}: {error.strerror}") from None
        self.records.append(record)


def sync_folder(folder: Path) -> None:
    """Puts the names in a folder on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _lock(file: IO[str]) -> None:
    """Takes the lock, which ends with the process. Where the system has none, nothing is locked."""
    with contextlib.suppress(ImportError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _mended(path: Path) -> IO[bytes]:
    """The file, open for appending. A last line that was cut off is completed if nothing but its end is missing, and
    removed otherwise."""
    file = path.open("a+b")
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    content = file.read()
    if size and not content.endswith(b"\n"):
        start = content.rfind(b"\n") + 1
        if _parse(content[start:]) is None:
            file.truncate(start)
        else:
            file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())
    file.seek(0, os.SEEK_END)
    return file


def _parse(line: bytes) -> Record | None:
    try:
        return Record.from_json(json.loads(line))
    except (ValueError, TypeError, KeyError):
        return None
