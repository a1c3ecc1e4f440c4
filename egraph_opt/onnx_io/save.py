"""Writes a model so that nothing is lost: to a temporary file beside the target, then one rename."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnx_ir

from egraph_opt.errors import UsageError

INLINE_LIMIT = 1_500_000_000
"""Bytes of weights above which they go to files of external data (protobuf ends at 2 GiB)."""
_LINKS = 40
"""Links to links that are followed; more are a circle."""
LARGEST_FILE = 4_000_000_000
"""Bytes of one file of external data, as far as tensors are smaller: what every file system and server takes."""


def save_model(
    model: onnx_ir.Model, path: str | Path, *, inline: int = INLINE_LIMIT, largest: int = LARGEST_FILE
) -> None:
    """Writes ``model`` to ``path``, replacing what is there only when all of it is on disk.

    Weights stay inside the file up to ``inline`` bytes; those of larger models go to ``<path>.data``, or to
    ``<stem>-00001-of-00003.onnx.data`` and so on where one file would have more than ``largest`` bytes.

    Raises:
        UsageError: the folder does not exist or cannot be written, or the path is that of a pipe or a device.
    """
    with _replacing(path) as target:
        total = weight_bytes(model)
        whole = _inlined(model, weights=total <= inline)
        if total <= inline:
            _write(whole, target)
        else:
            files = {
                "external_data": f"{target.name}.data",
                "max_shard_size_bytes": largest if total > largest else None,
            }
            onnx_ir.save(whole, target, format="protobuf", **files)  # type: ignore[arg-type]


def copy_model(source: str | Path, path: str | Path) -> None:
    """Writes the bytes of the model in ``source``, which has no external data, to ``path`` as ``save_model`` does.

    Raises:
        UsageError: as ``save_model``.
    """
    if not (Path(path).exists() and Path(path).samefile(source)):
        with _replacing(path) as target:
            shutil.copyfile(source, target)


@contextmanager
def _replacing(path: str | Path) -> Iterator[Path]:
    """A file of that name in a new folder; what the folder holds in the end takes its place beside ``path``."""
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give a file name")
    if is_special(path):
        raise UsageError(f"cannot write {path}: it is no regular file")
    try:
        folder = Path(tempfile.mkdtemp(prefix=".egraph-opt-", dir=path.parent))
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    try:
        yield folder / path.name
        for written in sorted(folder.iterdir(), key=lambda p: p.name == path.name):  # the model last: it is complete
            _sync(written)  # once it is there
            os.replace(written, path.parent / written.name)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    finally:
        for leftover in folder.glob("*"):
            leftover.unlink()
        folder.rmdir()


def is_special(path: Path) -> bool:
    """Whether a pipe, a device or an open file (``/dev/stdout``) has that name, which must not be replaced."""
    for _ in range(_LINKS):
        path = path.parent.resolve() / path.name
        if path.is_relative_to("/proc"):
            return path.exists()
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return path.exists() and not path.is_file() and not path.is_dir()


def weight_bytes(model: onnx_ir.Model) -> int:
    """Bytes of all initializers."""
    return sum(map(_bytes, model.graph.initializers.values()))


def _bytes(value: onnx_ir.Value) -> int:
    return value.const_value.nbytes if value.const_value is not None else 0


def _write(model: onnx_ir.Model, path: Path) -> None:
    """Writes ``to_proto(model)`` weight by weight, so that no second copy of all of them is ever in memory.

    The fields of the message are the same; the initializers are the last ones of the graph.
    """
    weights = [v for v in model.graph.initializers.values() if v.const_value is not None]
    light = model.clone()
    for value in light.graph.initializers.values():
        value.const_value = onnx_ir.Tensor(np.zeros(0, np.uint8))
    proto = onnx_ir.to_proto(light)
    del proto.graph.initializer[:]
    graph = proto.graph.SerializeToString()
    proto.ClearField("graph")
    small = {v.name: _tensor(v).SerializeToString() for v in weights if _bytes(v) <= _SMALL}  # most of them
    total = len(graph)
    for value in weights:
        size = len(small[value.name]) if value.name in small else _tensor(value).ByteSize()
        total += len(_head(_INITIALIZER, size)) + size
    with path.open("wb") as file:
        file.write(proto.SerializeToString() + _head(_GRAPH, total) + graph)
        for value in weights:
            data = small.get(value.name) or _tensor(value).SerializeToString()
            file.write(_head(_INITIALIZER, len(data)))
            file.write(data)


_SMALL = 4096
"""Bytes of a weight that is made into a message once, and kept until it is written."""
_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER


def _tensor(value: onnx_ir.Value) -> onnx.TensorProto:
    assert value.const_value is not None
    proto = onnx_ir.serde.serialize_tensor(value.const_value)
    proto.name = value.name or ""
    return proto


def _head(field: int, length: int) -> bytes:
    """What precedes the bytes of a message that is a field of another: its number, and their length as a varint."""
    head = bytearray([field << 3 | 2])
    while length >= 128:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes(head) + bytes([length])


def _inlined(model: onnx_ir.Model, *, weights: bool) -> onnx_ir.Model:
    """A model without references to external files, which would be wrong beside another folder.

    The weights of the main graph may keep theirs (``weights`` false) where they are written to a data file afterwards.
    """
    if not any(isinstance(v.const_value, onnx_ir.ExternalTensor) for v in _stored(model, weights)) and not any(
        isinstance(attr.value, onnx_ir.ExternalTensor) for node in model.graph.all_nodes() for attr in _tensors(node)
    ):
        return model
    clone = model.clone()
    for value in _stored(clone, weights):
        if isinstance(value.const_value, onnx_ir.ExternalTensor):
            value.const_value = _in_memory(value.const_value)
    for node in clone.graph.all_nodes():
        for attr in _tensors(node):
            if isinstance(attr.value, onnx_ir.ExternalTensor):
                node.attributes[attr.name] = onnx_ir.AttrTensor(attr.name, _in_memory(attr.value))
    return clone


def _stored(model: onnx_ir.Model, weights: bool) -> list[onnx_ir.Value]:
    graphs = [model.graph] * weights + [graph for graph in model.graph.subgraphs() if graph is not model.graph]
    return [value for graph in graphs for value in graph.initializers.values()]


def _tensors(node: onnx_ir.Node) -> list[onnx_ir.Attr]:
    return [attr for attr in node.attributes.values() if attr.type == onnx_ir.AttributeType.TENSOR]


def _in_memory(tensor: onnx_ir.ExternalTensor) -> onnx_ir.Tensor:
    return onnx_ir.Tensor(tensor.numpy(), dtype=tensor.dtype)


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
