"""The models of a folder, and what identifies the content of one."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from egraph_opt.errors import UsageError
from egraph_opt.onnx_io import external_files
from egraph_opt.zoo.journal import is_run

SUFFIX = ".onnx"


@dataclass(frozen=True)
class Source:
    """A model: its name is the path below the folder, with ``/``, and with escapes for what is no UTF-8."""

    name: str
    path: Path


@dataclass(frozen=True)
class Shard:
    """Part ``index`` (from 1) of ``count``: every ``count``-th model in the order of their names."""

    index: int = 1
    count: int = 1

    @staticmethod
    def parse(text: str) -> Shard:
        """``i/n``.

        Raises:
            UsageError: it is not of that form, or i is not one of 1 to n.
        """
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
            raise UsageError(f"--shard {text}: write i/n with i from 1 to n, for example 1/4")
        return Shard(int(index), int(count))


def discover(folder: Path, shard: Shard | None = None) -> list[Source]:
    """The ``.onnx`` files in ``folder`` and below, by name. Hidden folders, linked folders and those of runs are passed
    over.

    Raises:
        UsageError: the folder does not exist, or holds no model.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    found: list[Source] = []
    for here, below, files in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".") and not is_run(Path(here, name))]
        for name in files:
            if name.lower().endswith(SUFFIX) and not name.startswith("."):
                path = Path(here, name)
                shown = os.fsencode(path.relative_to(folder).as_posix()).decode(errors="backslashreplace")
                found.append(Source(shown, path))
    if not found:
        raise UsageError(f"no {SUFFIX} file in {folder} or below")
    found.sort(key=lambda source: source.name)
    return found[shard.index - 1 :: shard.count] if shard else found


def digest(path: Path) -> str:
    """SHA-256 of a model: of the file and, in the order of their names, the files of weights that it refers to.

    Raises:
        OSError: one of them cannot be read.
    """
    return digest_files([path, *(path.parent / name for name in external_files(path))])


def digest_files(paths: list[Path]) -> str:
    """SHA-256 over files: their own digests, one after the other; of a single file, its digest."""
    parts: list[str] = []
    for path in paths:
        with path.open("rb") as file:
            parts.append(hashlib.file_digest(file, "sha256").hexdigest())
    return parts[0] if len(parts) == 1 else hashlib.sha256("".join(parts).encode()).hexdigest()
