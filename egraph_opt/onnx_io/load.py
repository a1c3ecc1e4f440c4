"""Reads an ONNX model and says in one sentence what is wrong with it, if anything is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx_ir
from google.protobuf.message import DecodeError, Message

from egraph_opt.errors import InvalidModelError, UnsupportedModelError, UsageError

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
        _check_proto(model, "the model", _complaint(model))
        return onnx_ir.from_proto(model)
    return load_model(model)


def load_model(path: str | Path) -> onnx_ir.Model:
    """The model in a file; external data stays on disk.

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
    complaint = _complaint(str(path))  # first: the checker's own copy of the model is gone before there is another
    try:
        proto = onnx.load(str(path), format="protobuf", load_external_data=False)
    except DecodeError:
        raise InvalidModelError(f"{path} is no ONNX model, or it was cut off: download or export it again") from None
    if not proto.HasField("graph"):
        raise InvalidModelError(f"{path} holds no graph: it is no ONNX model")
    _check_proto(proto, str(path), complaint)
    model = onnx_ir.from_proto(proto)
    onnx_ir.external_data.set_base_dir(model.graph, path.absolute().parent)
    _check_external(model, path)
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
    found = {e.value for t in _tensors(proto) if t.data_location == t.EXTERNAL for e in t.external_data if e.key == KEY}
    return sorted(found)


def _tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """Every tensor in a message: weights, attributes, those of subgraphs and of functions."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else (value,):
                yield from _tensors(item)


def _check_external(model: onnx_ir.Model, path: Path) -> None:
    """Says that a file of weights was cut off before they are needed."""
    for tensor in (v.const_value for v in model.graph.initializers.values()):
        if isinstance(tensor, onnx_ir.ExternalTensor):
            data = Path(tensor.path)
            if data.stat().st_size < (tensor.offset or 0) + tensor.nbytes:
                raise InvalidModelError(f"{path} needs more bytes than {data} has: it was cut off, download it again")


def _complaint(model: onnx.ModelProto | str) -> str | None:
    """What ONNX's checker says of a model, or of the one in a file; ``None`` when it is content."""
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:
        return _first_line(error)
    return None


def _check_proto(proto: onnx.ModelProto, name: str, complaint: str | None) -> None:
    _check_opsets({o.domain: o.version for o in proto.opset_import}, name)
    if complaint is not None:
        raise InvalidModelError(f"{name} fails ONNX's checker: {complaint}{_remedy(proto)}")
    if proto.graph.sparse_initializer:
        raise UnsupportedModelError(
            f"{name} has sparse initializers, which are not supported: store them as dense ones"
        )


def _remedy(proto: onnx.ModelProto) -> str:
    """What to do where the complaint is one that runtimes do not share: an input or output without a shape."""
    bare = [
        v.name
        for v in (*proto.graph.input, *proto.graph.output)
        if v.type.HasField("tensor_type") and not v.type.tensor_type.HasField("shape")
    ]
    if not bare:
        return ""
    return f" ({', '.join(bare)} has no shape: onnx.shape_inference.infer_shapes(model) adds those that follow)"


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


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
