"""The other ONNX optimizers, each as a function from model to model; all are optional packages.

``pip install onnxsim onnxslim onnxoptimizer onnxscript``; ``ort-all`` is what ONNX Runtime writes at its highest level,
which only ONNX Runtime runs.
"""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import onnx
import onnxruntime

Peer = Callable[[onnx.ModelProto], onnx.ModelProto]


def onnxsim(proto: onnx.ModelProto) -> onnx.ModelProto:
    return importlib.import_module("onnxsim").simplify(proto)[0]


def onnxslim(proto: onnx.ModelProto) -> onnx.ModelProto:
    return cast(onnx.ModelProto, importlib.import_module("onnxslim").slim(proto))


def onnxoptimizer(proto: onnx.ModelProto) -> onnx.ModelProto:
    return importlib.import_module("onnxoptimizer").optimize(proto)


def onnxscript(proto: onnx.ModelProto) -> onnx.ModelProto:
    return importlib.import_module("onnxscript.optimizer").optimize(proto)


def ort_all(proto: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "optimized.onnx"
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(written)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 4
        onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(str(written))


PEERS: dict[str, Peer] = {
    "onnxsim": onnxsim,
    "onnxslim": onnxslim,
    "onnxoptimizer": onnxoptimizer,
    "onnxscript": onnxscript,
    "ort-all": ort_all,
}


def is_installed(name: str) -> bool:
    """Whether the package of a peer can be imported."""
    return name == "ort-all" or importlib.util.find_spec(name) is not None
