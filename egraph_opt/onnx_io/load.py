"""Reads an ONNX model and says in one sentence what is wrong with it, if anything is."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir
from google.protobuf.message import DecodeError
from onnx.external_data_helper import ExternalDataInfo, load_external_data_for_tensor

from egraph_opt.errors import InvalidModelError, UnsupportedModelError, UsageError
from egraph_opt.onnx_io.checker import bare, complaint, tensors

OLDEST_OPSET = 9
KEY = "location"
"""Under which a tensor names its file of external data."""
Model = str | Path | onnx.ModelProto | onnx_ir.Model


def to_ir(model: Model) -> onnx_ir.Model:
    """Any accepted kind of model as an ``onnx_ir.Model`` that the caller does not share.

    Raises:
        UsageError, InvalidModelError: as ``load_model``.
    """
    if isinstance(model, onnx_ir.Model):
        clone = model.clone()
        _check_opsets(dict(clone.opset_imports), "the model")
        return clone
    if isinstance(model, onnx.ModelProto):
        _check_proto(model, "the model", complaint(model))
        return _read(model, "the model")
    return load_model(model)


def load_model(path: str | Path) -> onnx_ir.Model:
    """The model in a file; external data of weights stays on disk, that of attributes and subgraphs is read.

    Raises:
        UsageError: there is no such file.
        InvalidModelError: it is no valid ONNX model, or its external data is missing or outside its folder.
    """
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give an ONNX file")
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise InvalidModelError(f"{path} is empty: it is no ONNX model")
    said = complaint(str(path))  # first: the checker's own copy of the model is gone before there is another
    try:
        proto = onnx.load(str(path), format="protobuf", load_external_data=False)
    except DecodeError:
        raise InvalidModelError(f"{path} is no ONNX model, or it was cut off: download or export it again") from None
    if not proto.HasField("graph"):
        raise InvalidModelError(f"{path} holds no graph: it is no ONNX model")
    if said is not None and bare(proto.graph.input, proto.graph.output):
        said = complaint(proto)
    _check_proto(proto, str(path), said)
    _read_parts(proto, path)
    model = _read(proto, str(path))
    onnx_ir.external_data.set_base_dir(model.graph, path.absolute().parent)
    _check_weights(model, path)
    return model


def external_files(path: str | Path) -> list[str]:
    """Files of weights that a model refers to, by the names that it uses (relative to its folder), in their order.

    None for a file that is no model, which is for ``load_model`` to say.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        proto = onnx.load(str(path), format="protobuf", load_external_data=False)
    except DecodeError:
        return []
    found = {e.value for t in tensors(proto) if t.data_location == t.EXTERNAL for e in t.external_data if e.key == KEY}
    return sorted(found)


def _read_parts(proto: onnx.ModelProto, path: Path) -> None:
    """Reads the external data of all but the weights of the main graph: ONNX Runtime finds only these beside a model
    that it gets as bytes."""
    for part in (*proto.graph.node, *proto.functions):
        for tensor in tensors(part):
            if tensor.data_location == tensor.EXTERNAL:
                info = ExternalDataInfo(tensor)
                end = (info.offset or 0) + (info.length or 0)
                _check_external(path, path.absolute().parent / info.location, end)
                load_external_data_for_tensor(tensor, str(path.absolute().parent))
                tensor.ClearField("data_location")
                del tensor.external_data[:]


def _check_weights(model: onnx_ir.Model, path: Path) -> None:
    for tensor in (v.const_value for v in model.graph.initializers.values()):
        if isinstance(tensor, onnx_ir.ExternalTensor):
            _check_external(path, Path(tensor.path), (tensor.offset or 0) + tensor.nbytes)


def _check_external(path: Path, data: Path, end: int) -> None:
    """Says that a file of weights is missing, was cut off, or lies elsewhere, before they are needed."""
    if not data.resolve().is_relative_to(path.absolute().parent.resolve()):
        raise InvalidModelError(f"{path} wants weights of {data}, which is not in its folder: put them there")
    if not data.is_file():
        raise InvalidModelError(f"{path} wants weights of {data}, which is no file: put it there")
    if data.stat().st_size < end:
        raise InvalidModelError(f"{path} needs more bytes than {data} has: it was cut off, download it again")


def _check_proto(proto: onnx.ModelProto, name: str, said: str | None) -> None:
    _check_opsets({o.domain: o.version for o in proto.opset_import}, name)
    if said is not None:
        raise InvalidModelError(f"{name} fails ONNX's checker: {said}")
    if proto.graph.sparse_initializer:
        raise UnsupportedModelError(_SPARSE.format(name))


def _read(proto: onnx.ModelProto, name: str) -> onnx_ir.Model:
    """The model in memory, by a library that says of some parts of ONNX that it has no words for them."""
    try:
        return onnx_ir.from_proto(proto)
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # the innermost says what it is; those around it print the whole graph
            cause = cause.__cause__
        why = str(cause)
        known = next((text for word, text in _UNREADABLE.items() if word in why), None)
        said = known.format(name) if known else f"{name} cannot be read: {' '.join(why.split())[:300]}"
        raise UnsupportedModelError(said) from None


_SPARSE = "{} has sparse weights, which are not supported: store them as dense ones"
_UNREADABLE = {
    "Sparse tensors": _SPARSE,
    "Map types": "{} has values that are maps, which are not supported: cut off what makes them, such as ZipMap"
    " (skl2onnx: options={{'zipmap': False}})",
}
"""What is not supported, by words in the library's complaint."""


def _check_opsets(opsets: dict[str, int], name: str) -> None:
    version = opsets.get("", opsets.get("ai.onnx"))
    newest = onnx.defs.onnx_opset_version()
    if version is None:
        if set(opsets) - {"", "ai.onnx"}:
            return  # only custom operators: nothing of ONNX's own to misread
        raise InvalidModelError(f"{name} does not say which opset it uses")
    if version > newest:
        raise UnsupportedModelError(
            f"{name} uses opset {version}, but the installed onnx knows opsets up to {newest}: upgrade onnx"
        )
    if version < OLDEST_OPSET:
        raise UnsupportedModelError(
            f"{name} uses opset {version}; convert it to {OLDEST_OPSET} or newer first (onnx.version_converter)"
        )
