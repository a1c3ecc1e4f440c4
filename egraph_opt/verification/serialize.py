"""A model in the form that ONNX Runtime opens, without copying external weights where that can be avoided."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir
import onnxruntime as ort

from egraph_opt.onnx_io.checker import complaint
from egraph_opt.runtime import Array, open_session, run_session

INLINE_LIMIT = 1_500_000_000
"""Bytes of weights that still go through protobuf, which ends at 2 GiB."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """``source`` is the serialized model, or a file; ``folder`` is where its external data lies; ``nbytes`` of all
    weights."""

    source: bytes | Path
    folder: Path | None
    nbytes: int

    def open(self, *, optimize: bool) -> ort.InferenceSession:
        """A session with at most four threads, which do not spin: other work may share the machine.

        Raises:
            Exception: ONNX Runtime's own error.
        """
        threads = min(4, os.cpu_count() or 1)
        return open_session(
            self.source, optimize=optimize, threads=threads, spinning=False, external_folder=self.folder
        )

    def model(self) -> onnx_ir.Model:
        """The model itself; external weights stay where they are."""
        if isinstance(self.source, Path):
            return onnx_ir.load(self.source)
        model = onnx_ir.from_proto(onnx.load_model_from_string(self.source))
        if self.folder is not None:
            onnx_ir.external_data.set_base_dir(model.graph, self.folder)
        return model

    def runs(self, feeds: Mapping[str, Array]) -> bool:
        """Whether ONNX Runtime, at its highest level, runs the model on ``feeds``."""
        try:
            run_session(self.open(optimize=True), feeds)
        except Exception:  # noqa: BLE001 - ONNX Runtime's errors have no common base class, and the answer is no
            return False
        return True


@contextmanager
def runnable(model: onnx_ir.Model, *, inline: int | None = None, within: Path | None = None) -> Iterator[Runnable]:
    """``model`` ready to be opened; temporary files, if it takes any, live as long as the context.

    Args:
        inline: bytes of weights in memory above which it is written to a file; what protobuf takes if not given.
        within: the folder that its external data, if it has any, must lie in; any one folder if not given.
    """
    tensors = [v.const_value for v in model.graph.initializers.values() if v.const_value is not None]
    total = sum(t.nbytes for t in tensors)
    external = [t for t in tensors if isinstance(t, onnx_ir.ExternalTensor)]
    folders = {str(t.base_dir) for t in external}
    wanted = {str(within)} if within is not None else folders
    fits = not external or (len(folders) == 1 and "" not in folders and folders <= wanted)
    limit = INLINE_LIMIT if inline is None else inline
    if total - sum(t.nbytes for t in external) <= limit and fits:
        folder = Path(folders.pop()) if folders else None
        yield Runnable(onnx_ir.to_proto(model).SerializeToString(), folder, total)
        return
    with tempfile.TemporaryDirectory(prefix="egraph-opt-") as temporary:
        path = Path(temporary) / "model.onnx"
        onnx_ir.save(model, path, external_data="model.data")
        yield Runnable(path, None, total)


def checker_complaint(model: onnx_ir.Model) -> str | None:
    """What ``onnx.checker`` says with full shape inference, in one line; ``None`` when it is content.

    An input or output may lack its shape, for a runtime does not mind.

    The weights of a model that does not fit protobuf, or lie outside it, are checked as inputs of the same type: the
    checker looks at every node, and no weight is read.
    """
    light = _without_weights(model) if _is_heavy(model) else model
    return complaint(onnx_ir.to_proto(light), full=True)


def _is_heavy(model: onnx_ir.Model) -> bool:
    tensors = [v.const_value for v in model.graph.initializers.values() if v.const_value is not None]
    return any(isinstance(t, onnx_ir.ExternalTensor) for t in tensors) or sum(t.nbytes for t in tensors) > INLINE_LIMIT


def _without_weights(model: onnx_ir.Model) -> onnx_ir.Model:
    light = model.clone()
    inputs = {value.name for value in light.graph.inputs}
    for name, value in list(light.graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or (tensor.nbytes < 1 << 16 and not isinstance(tensor, onnx_ir.ExternalTensor)):
            continue
        del light.graph.initializers[name]
        value.type, value.shape = onnx_ir.TensorType(tensor.dtype), onnx_ir.Shape(tensor.shape.numpy())
        value.const_value = None
        if name not in inputs:
            light.graph.inputs.append(value)
    return light
