"""Files that commands write: refused before the work where they cannot be written, and replaced in one step."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import typer

from egraph_opt.errors import UsageError
from egraph_opt.onnx_io.save import is_special

STDOUT = Path("-")
"""What stands for stdout where a file may be named."""


def check_outputs(*outputs: Path | None, apart_from: Sequence[Path | None] = (), special: bool = True) -> None:
    """Says that an output cannot be written before an hour of work, not after.

    Args:
        outputs: files to be written; None and ``-`` are none.
        apart_from: files that the command reads, or writes besides.
        special: whether pipes and devices will do.

    Raises:
        UsageError: the folder is missing or takes no files, it is a folder itself, or one of ``apart_from`` or of the
            other outputs.
    """
    taken = {path.resolve() for path in apart_from if path is not None and path != STDOUT}
    for path in outputs:
        if path is None or path == STDOUT:
            continue
        if path.is_dir():
            raise UsageError(f"cannot write {path}: it is a folder")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"cannot write {path}: the folder {path.absolute().parent} does not exist")
        if is_special(path) and not special:
            raise UsageError(f"cannot write {path}: it is no regular file")
        if is_special(path):
            continue  # it may be named twice, and no file is made beside it
        if path.resolve() in taken:
            raise UsageError(f"cannot write {path}: the command has that file for something else; give another name")
        taken.add(path.resolve())
        try:
            with tempfile.TemporaryFile(dir=path.absolute().parent):
                pass
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None


def write_json(path: Path, document: object) -> None:
    """Writes ``document`` to a file, or to stdout.

    Raises:
        UsageError: the file cannot be written; what was there is left as it was.
    """
    write_text(path, json.dumps(document, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes ``text`` to a file, or to stdout; raises as ``write_json`` does."""
    if path == STDOUT:
        typer.echo(text, nl=False)
        return
    special = is_special(path)
    partial = f".{path.name}.{os.getpid()}.partial"  # another command may write the same file
    target = path if special else path.with_name(partial)
    try:
        target.write_text(text, encoding="utf-8")
        if not special:
            target.replace(path)
    except OSError as error:
        if not special:
            target.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
