"""The zoo's files as they are measured and compared: light models get weights that mean something.

The light models of the onnx package hold their weights as ConstantOfShape nodes, so that every output is the same
whatever the input. Here each becomes an initializer of seeded random numbers of a sensible scale, and a softmax at the
end is left off, because it would hide differences (or show nothing else).
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

LARGE = ("onnx__light_vgg19", "onnx__light_bvlc_alexnet", "onnx__light_zfnet512")
"""Light models whose weights take hundreds of megabytes."""
SLOW = ("speechmos__sig", "speechmos__bak_ovr", "speechmos__sig_bak_ovr")
"""Models that take long to run."""

Array = NDArray[np.generic]


def files(folder: Path, *, small: bool = False) -> Iterator[Path]:
    """The models in a folder, in order; ``small`` leaves out what is large or slow."""
    for path in sorted(folder.glob("*.onnx")):
        if not small or path.stem not in (*LARGE, *SLOW):
            yield path


def load(path: Path, seed: int = 0) -> onnx.ModelProto:
    """A model as it is compared: light ones with random weights and without their last softmax."""
    model = onnx.load(str(path))
    if "light_" in path.stem:
        randomise(model, seed)
        expose_logits(model)
        onnx.checker.check_model(model)
    return model


def randomise(model: onnx.ModelProto, seed: int = 0) -> None:
    """Replaces weights that are ConstantOfShape nodes by random initializers, in place."""
    graph = model.graph
    stored = {t.name: t for t in graph.initializer}
    uses = {name: (node, place) for node in graph.node for place, name in enumerate(node.input)}
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        shape = stored.get(node.input[0]) if node.op_type == "ConstantOfShape" else None
        if shape is None or node.output[0] not in uses:
            kept.append(node)
            continue
        name = node.output[0]
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        array = _weights(*uses[name], tuple(int(n) for n in numpy_helper.to_array(shape)), rng)
        graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
        if model.ir_version < 4:
            graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape))
    del graph.node[:]
    graph.node.extend(kept)


def expose_logits(model: onnx.ModelProto) -> None:
    """Makes the input of a softmax that gives the only output the output instead, in place."""
    graph = model.graph
    if len(graph.output) != 1:
        return
    last = next((n for n in graph.node if graph.output[0].name in n.output), None)
    if last is None or last.op_type not in ("Softmax", "LogSoftmax"):
        return
    graph.node.remove(last)
    graph.output[0].name = last.input[0]  # of the same type and shape
    for info in [v for v in graph.value_info if v.name == last.input[0]]:
        graph.value_info.remove(info)


def _weights(node: onnx.NodeProto, place: int, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Numbers that keep activations at about the same scale from layer to layer."""
    if node.op_type == "BatchNormalization":
        low, high = ((0.8, 1.2), (-0.1, 0.1), (-0.1, 0.1), (0.5, 1.5))[place - 1]
        return rng.uniform(low, high, shape)
    if len(shape) < 2:
        return rng.normal(0.0, 0.05, shape)
    transposed = node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
    inputs = shape[0] if node.op_type in ("Gemm", "MatMul") and not transposed else math.prod(shape[1:])
    if node.op_type in ("Mul", "Add"):
        return rng.normal(1.0 if node.op_type == "Mul" else 0.0, 0.05, shape)
    return rng.normal(0.0, math.sqrt(2.0 / inputs), shape)


SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "rapidocr_onnxruntime__ch_ppocr_mobile_v2.0_cls_infer": {"x": (1, 3, 48, 192)},
    "rapidocr_onnxruntime__ch_PP-OCRv4_det_infer": {"x": (1, 3, 160, 160)},
    "silero_vad__silero_vad_op18_ifless": {"input": (1, 512)},
    "silero_vad__silero_vad_16k_op15": {"input": (1, 512)},
}
"""Shapes at which published figures were taken, or which only the model's authors know, by file stem."""


def zoo_folder() -> Path:
    """The folder with the files: ``$EGRAPH_OPT_DATA/zoo``, by default ``../shared/zoo`` beside the checkout."""
    return Path(os.environ.get("EGRAPH_OPT_DATA", Path(__file__).parents[2] / "shared")) / "zoo"
