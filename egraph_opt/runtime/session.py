"""ONNX Runtime sessions, opened in one way everywhere, and tensors across its border."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from egraph_opt.ops import numpy_dtype

Array = NDArray[Any]
_SILENT = 4  # failures reach the caller as exceptions; ONNX Runtime need not print them as well
_FOLDER_KEY = "session.model_external_initializers_file_folder_path"


def open_session(
    model: bytes | str | Path,
    *,
    optimize: bool = True,
    threads: int = 1,
    spinning: bool = True,
    external_folder: Path | None = None,
    save_optimized: Path | None = None,
) -> ort.InferenceSession:
    """A CPU session of a serialized model or of a file.

    Args:
        optimize: ONNX Runtime's highest level of graph optimization, as its users get it; otherwise none at all.
        threads: threads inside one operator; operators run one after another.
        spinning: whether idle threads wait busily, as is ONNX Runtime's habit.
        external_folder: where the external data of a model given as bytes lies.
        save_optimized: where to write the graph that ONNX Runtime made of the model.

    Raises:
        Exception: ONNX Runtime's own error when it cannot load the model.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    if not spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if external_folder is not None:
        options.add_session_config_entry(_FOLDER_KEY, str(external_folder))
    if save_optimized is not None:
        options.optimized_model_filepath = str(save_optimized)
    source = model if isinstance(model, bytes) else str(model)
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run_session(session: ort.InferenceSession, feeds: Mapping[str, Array]) -> list[Any]:
    """The outputs of one run, in the model's order: arrays, or lists and dicts of them where the model says so.

    bfloat16 tensors go in and out as ``ml_dtypes`` arrays.

    Raises:
        Exception: ONNX Runtime's own error when the run fails.
    """
    if not _needs_values(session, feeds):
        return list(session.run(None, dict(feeds)))
    names = [output.name for output in session.get_outputs()]
    values = session.run_with_ort_values(names, {name: to_ort(array) for name, array in feeds.items()})
    return [from_ort(value) for value in values]


def to_ort(array: Array) -> ort.OrtValue:
    """``array`` as ONNX Runtime's own tensor."""
    if array.dtype.name == "bfloat16":
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.asarray(array, order="C").view(np.uint16), _BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(np.asarray(array, order="C"))


def from_ort(value: ort.OrtValue) -> Array:
    """An ONNX Runtime tensor as an array of the same dtype."""
    if value.data_type() != "tensor(bfloat16)":
        return value.numpy()
    # ONNX Runtime has no NumPy name for this type, so its bytes are copied out by address
    raw = np.empty(value.shape(), np.uint16)
    ctypes.memmove(raw.ctypes.data, value.data_ptr(), raw.nbytes)
    return raw.view(numpy_dtype("bfloat16"))


_BFLOAT16 = 16  # onnx.TensorProto.BFLOAT16


def _needs_values(session: ort.InferenceSession, feeds: Mapping[str, Array]) -> bool:
    kinds: Sequence[str] = [output.type for output in session.get_outputs()]
    return any(a.dtype.name == "bfloat16" for a in feeds.values()) or "tensor(bfloat16)" in kinds
