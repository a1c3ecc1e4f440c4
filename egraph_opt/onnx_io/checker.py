"""ONNX's checker, without what it asks of a model and no runtime does: types and shapes of all inputs and outputs, and
that a size of -1, which exporters write for one that they do not know, is the size that inference finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx
from google.protobuf.message import Message

_LONGEST = 250
"""Characters of a complaint; what follows are whole nodes."""


def complaint(model: onnx.ModelProto | str, *, full: bool = False) -> str | None:
    """What ONNX's checker says of a model, or of the one in a file, in one line; ``None`` when it is content.

    Args:
        full: with inference of all shapes, as far as the ranks of the inputs are known.
    """
    if isinstance(model, onnx.ModelProto) and (bare(model.graph.input, model.graph.output) or any(_unknown(model))):
        full = full and not bare(model.graph.input)
        model = _checkable(model)
    try:
        onnx.checker.check_model(model, full_check=full)
    except Exception as error:  # ValidationError, InferenceError, and plain ValueError or RuntimeError from C++
        return " ".join(str(error).split())[:_LONGEST] or type(error).__name__
    return None


def bare(*groups: Sequence[onnx.ValueInfoProto]) -> list[onnx.ValueInfoProto]:
    """The values among inputs or outputs that have no type, or are tensors of unknown rank."""
    return [value for values in groups for value in values if _is_bare(value.type)]


def _is_bare(type_: onnx.TypeProto) -> bool:
    if not type_.WhichOneof("value"):
        return True
    return type_.HasField("tensor_type") and not type_.tensor_type.HasField("shape")


def _checkable(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every input has a shape, any one, that lacks the outputs that have none, and sizes below zero.

    The nodes are those of the model, so that the checker looks at all of them. Whoever reads the model checks its
    external data, of which the copy knows nothing: the checker would look for them in the current folder.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in bare(copy.graph.input):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()
    lacking = {value.name for value in bare(copy.graph.output)}
    kept = [value for value in copy.graph.output if value.name not in lacking]
    del copy.graph.output[:]
    copy.graph.output.extend(kept)
    for size in _unknown(copy):
        size.Clear()
    for tensor in tensors(copy):
        if tensor.data_location == tensor.EXTERNAL:
            tensor.ClearField("data_location")
            del tensor.external_data[:]
            tensor.dims[:] = [0]
    return copy


def _unknown(model: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """The sizes below zero, in subgraphs and functions too."""
    return (size for size in _messages(model, onnx.TensorShapeProto.Dimension) if size.dim_value < 0)


def tensors(message: Message) -> Iterator[onnx.TensorProto]:
    """Every tensor in a message: weights, attributes, those of subgraphs and of functions."""
    return _messages(message, onnx.TensorProto)


def _messages[Kind: Message](message: Message, kind: type[Kind]) -> Iterator[Kind]:
    """Every message of a kind that is in another, or is it."""
    if isinstance(message, kind):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if field.is_repeated else (value,):
                yield from _messages(item, kind)
