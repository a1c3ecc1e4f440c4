"""The models of the zoo as benches and tests use them.

The ``light`` models of the onnx package hold constants for weights, so their outputs do not depend on much: here they
get seeded random weights of sensible scale, and end before the softmax, which would hide differences.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir

ROOT = Path(__file__).parent.parent
HEAVY = ("vgg19", "alexnet", "zfnet512")
"""Models whose weights take seconds to fill: for benches, not for tests."""
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "ch_ppocr_mobile_v2.0_cls_infer": {"x": (1, 3, 48, 192)},
    "ch_PP-OCRv4_det_infer": {"x": (1, 3, 160, 160)},
    "silero_vad_op18_ifless": {"input": (1, 512)},
    "silero_vad_16k_op15": {"input": (1, 512)},
}
"""Shapes at which published figures were taken, or which only the model's authors know."""


@dataclass(frozen=True)
class ZooModel:
    """One file: ``shapes`` are for ``measure_shapes``."""

    name: str
    path: Path
    shapes: dict[str, tuple[int, ...]]

    @property
    def is_light(self) -> bool:
        return self.path.name.startswith("onnx__light")

    def load(self, seed: int = 0) -> onnx_ir.Model:
        """The model, with random weights where its own say nothing."""
        model = onnx_ir.load(self.path)
        return randomised(model, seed) if self.is_light else model


def zoo_folder() -> Path:
    """The folder with the files: ``$EGRAPH_OPT_DATA/zoo``, by default ``../shared/zoo``."""
    return Path(os.environ.get("EGRAPH_OPT_DATA", ROOT.parent / "shared")) / "zoo"


def zoo_models(pattern: str = "") -> list[ZooModel]:
    """Models whose file name contains ``pattern``, by name; none where the folder is absent."""
    found: list[ZooModel] = []
    for path in sorted(zoo_folder().glob("*.onnx")):
        name = path.stem.split("__")[-1]
        if pattern in path.name:
            found.append(ZooModel(name, path, SHAPES.get(name, {})))
    return found


def randomised(model: onnx_ir.Model, seed: int = 0) -> onnx_ir.Model:
    """The model, changed in place: nodes that fill weights become random initializers, and the last softmax goes."""
    rng = np.random.default_rng(seed)
    graph = model.graph
    for node in list(graph):
        shape = node.inputs[0].const_value if node.op_type == "ConstantOfShape" and node.inputs[0] else None
        if shape is None:
            continue
        value = node.outputs[0]
        array = _weights(rng, value, tuple(int(n) for n in shape.numpy()))
        tensor = onnx_ir.tensor(array.astype(np.float32), name=value.name)
        weight = onnx_ir.Value(
            name=value.name,
            type=onnx_ir.TensorType(onnx_ir.DataType.FLOAT),
            shape=onnx_ir.Shape(array.shape),
            const_value=tensor,
        )
        value.replace_all_uses_with(weight)
        graph.remove(node, safe=True)
        graph.register_initializer(weight)
        if model.ir_version < 4:
            graph.inputs.append(weight)
    _drop_last_softmax(graph)
    return model


def _weights(rng: np.random.Generator, value: onnx_ir.Value, shape: tuple[int, ...]) -> np.ndarray:
    use = next(iter(value.uses()), None)
    op, index = (use.node.op_type, use.idx) if use else ("", 0)
    if op == "BatchNormalization" and index in (1, 4):  # scale and variance
        return rng.uniform(0.5, 1.5, shape)
    if op in ("Mul", "Unsqueeze") and len(shape) == 1:
        return rng.uniform(0.5, 1.5, shape)
    if len(shape) < 2:
        return rng.normal(0, 0.1, shape)
    return rng.normal(0, np.sqrt(2 / max(int(np.prod(shape[1:])), 1)), shape)


def _drop_last_softmax(graph: onnx_ir.Graph) -> None:
    output = graph.outputs[0]
    node = output.producer()
    if node is not None and node.op_type == "Softmax" and node.inputs[0] is not None:
        before, name = node.inputs[0], output.name
        before.type, before.shape = output.type, None
        graph.outputs[0] = before
        graph.remove(node, safe=True)
        before.name = name
