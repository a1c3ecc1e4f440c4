"""Writes a model so that nothing is lost: to a temporary file beside the target, then one rename."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import onnx_ir

from egraph_opt.errors import UsageError

INLINE_LIMIT = 1_500_000_000
"""Bytes of weights above which they go to a file of external data (protobuf ends at 2 GiB)."""


def save_model(model: onnx_ir.Model, path: str | Path) -> None:
    """Writes ``model`` to ``path``, replacing what is there only when all of it is on disk.

    Weights stay inside the file up to ``INLINE_LIMIT`` bytes; larger models get one data file, ``<path>.data``.

    Raises:
        UsageError: the folder does not exist or cannot be written.
    """
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give a file name")
    try:
        folder = Path(tempfile.mkdtemp(prefix=".egraph-opt-", dir=path.parent))
    except OSError as error:
        raise UsageError(f"cannot write to {path.parent}: {error.strerror}") from None
    data = path.name + ".data"
    try:
        large = weight_bytes(model) > INLINE_LIMIT
        inline = model if large else _inlined(model)
        onnx_ir.save(inline, folder / path.name, external_data=data if large else None)
        for name in (data, path.name):  # the model last: it is complete once it is there
            if (folder / name).exists():
                _sync(folder / name)
                os.replace(folder / name, path.parent / name)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        for leftover in folder.glob("*"):
            leftover.unlink()
        folder.rmdir()


def weight_bytes(model: onnx_ir.Model) -> int:
    """Bytes of all initializers."""
    return sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)


def _inlined(model: onnx_ir.Model) -> onnx_ir.Model:
    """A model without references to external files, which would be wrong beside another folder."""
    tensors = [v.const_value for v in model.graph.initializers.values()]
    if not any(isinstance(t, onnx_ir.ExternalTensor) for t in tensors):
        return model
    clone = model.clone()
    for value in clone.graph.initializers.values():
        if isinstance(value.const_value, onnx_ir.ExternalTensor):
            value.const_value = onnx_ir.Tensor(value.const_value.numpy(), dtype=value.const_value.dtype)
    return clone


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
