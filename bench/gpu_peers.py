"""The benchmark networks in PyTorch and JAX, from their ONNX: what the GPU executor is compared with.

    python bench/gpu_peers.py eager|compile|max-autotune|jax NAME fp32|tf32|fp16 [--batch N] [--channels-last] [--wait]

Prints milliseconds of a run and the error relative to ONNX Runtime in float32, as JSON. With ``--wait`` nothing is done
on the GPU before a line comes in.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import models
import numpy as np
import onnx
import onnxruntime as ort
from gpu_networks import error, feeds_of
from onnx import numpy_helper

Feeds = Mapping[str, np.ndarray]


def source(model: onnx.ModelProto) -> tuple[str, dict[str, np.ndarray]]:
    """The model as a straight-line Python function of its inputs ``f(w, x...)`` over ``ops``, and its weights.

    The five nodes that spell GELU, and attention, become one call each, as people write them in these frameworks.
    """
    graph = model.graph
    weights = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    lines, dropped, later = [], set[str](), dict[str, str]()
    for node in graph.node:
        if node.output[0] in later:  # a pattern is written where its last node stands: all operands are there by then
            lines.append(later[node.output[0]])
            continue
        if node.output[0] in dropped:
            continue
        made = _gelu(node, users, dropped) or _attention(node, users, weights, dropped)
        if made is None:
            lines.append(_plain(node, weights))
        else:
            later[made.partition(" ")[0]] = made
    names = [i.name for i in graph.input]
    body = "\n    ".join([*lines, f"return {', '.join(o.name for o in graph.output)}"])
    used = {k: v for k, v in weights.items() if f"w['{k}']" in body}
    return f"def f(w, {', '.join(names)}):\n    {body}\n", used


def _arguments(node: onnx.NodeProto, weights: Mapping[str, np.ndarray]) -> list[str]:
    return [f"w['{n}']" if n in weights else n for n in node.input if n]


def _plain(node: onnx.NodeProto, weights: Mapping[str, np.ndarray]) -> str:
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Reshape":
        shape = tuple(int(n) for n in weights[node.input[1]])
        return f"{node.output[0]} = ops.reshape({node.input[0]}, {shape})"
    words = [*_arguments(node, weights), *(f"{k}={_value(v)}" for k, v in given.items())]
    return f"{node.output[0]} = ops.{node.op_type}({', '.join(words)})"


def _value(value: object) -> str:
    return repr(tuple(int(v) for v in value) if isinstance(value, list) else value)  # type: ignore[union-attr]


def _gelu(node: onnx.NodeProto, users: Mapping[str, list[onnx.NodeProto]], dropped: set[str]) -> str | None:
    if node.op_type != "Div" or [u.op_type for u in users.get(node.output[0], [])] != ["Erf"]:
        return None
    chain = [node]
    while chain[-1].op_type != "Mul" or len([c for c in chain if c.op_type == "Mul"]) < 2:
        chain.append(users[chain[-1].output[0]][0])
    dropped.update(n.output[0] for n in chain)
    return f"{chain[-1].output[0]} = ops.gelu({node.input[0]})"


def _attention(
    node: onnx.NodeProto,
    users: Mapping[str, list[onnx.NodeProto]],
    weights: Mapping[str, np.ndarray],
    dropped: set[str],
) -> str | None:
    chain = [node]
    for kind in ("MatMul", "Mul", "Softmax", "MatMul"):
        if chain[-1].op_type != kind:
            return None
        following = users.get(chain[-1].output[0], [])
        if len(chain) < 4:
            if len(following) != 1:
                return None
            chain.append(following[0])
    dropped.update(n.output[0] for n in chain)
    scale = float(weights[chain[1].input[1]])
    return f"{chain[3].output[0]} = ops.attention({node.input[0]}, {node.input[1]}, {chain[3].input[1]}, {scale})"


# --- PyTorch


class Torch:
    """``ops`` for PyTorch."""

    def __init__(self) -> None:
        torch = importlib.import_module("torch")
        self.torch, self.F = torch, torch.nn.functional
        for name in ("Add", "Mul", "Div"):
            setattr(self, name, {"Add": torch.add, "Mul": torch.mul, "Div": torch.div}[name])
        self.MatMul, self.Sigmoid, self.Tanh, self.Relu = torch.matmul, torch.sigmoid, torch.tanh, torch.relu
        self.gelu = self.F.gelu

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.reshape(shape)

    def Transpose(self, x: Any, perm: tuple[int, ...]) -> Any:  # noqa: N802
        return x.permute(perm)

    def Softmax(self, x: Any, axis: int) -> Any:  # noqa: N802
        return self.torch.softmax(x, axis)

    def attention(self, q: Any, k: Any, v: Any, scale: float) -> Any:
        return self.F.scaled_dot_product_attention(q, k.transpose(-1, -2), v, scale=scale)

    def LayerNormalization(self, x: Any, scale: Any, bias: Any, axis: int, epsilon: float) -> Any:  # noqa: N802
        return self.F.layer_norm(x, x.shape[axis:], scale, bias, epsilon)

    def Conv(self, x: Any, w: Any, b: Any = None, *, kernel_shape: Any, strides: Any, pads: Any, group: int) -> Any:  # noqa: N802
        return self.F.conv2d(x, w, b, strides, pads[:2], 1, group)

    def BatchNormalization(self, x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float) -> Any:  # noqa: N802
        return self.F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)

    def MaxPool(self, x: Any, kernel_shape: Any, strides: Any, pads: Any) -> Any:  # noqa: N802
        return self.F.max_pool2d(x, kernel_shape, strides, pads[:2])

    def AveragePool(self, x: Any, kernel_shape: Any, strides: Any, pads: Any, count_include_pad: int = 0) -> Any:  # noqa: N802
        return self.F.avg_pool2d(x, kernel_shape, strides, pads[:2], count_include_pad=bool(count_include_pad))

    def GlobalAveragePool(self, x: Any) -> Any:  # noqa: N802
        return self.F.adaptive_avg_pool2d(x, 1)

    def Flatten(self, x: Any, axis: int) -> Any:  # noqa: N802
        return self.torch.flatten(x, axis)

    def Gemm(self, x: Any, w: Any, b: Any) -> Any:  # noqa: N802
        return self.torch.addmm(b, x, w)

    def Concat(self, *parts: Any, axis: int) -> Any:  # noqa: N802
        return self.torch.cat(parts, axis)


def torch_seconds(
    model: onnx.ModelProto, feeds: Feeds, kind: str, *, tf32: bool, channels_last: bool
) -> tuple[float, list[np.ndarray]]:
    """Seconds of one run and the outputs.

    Args:
        kind: ``eager`` (under a CUDA graph), or a mode of ``torch.compile``.
    """
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.benchmark = True
    text, arrays = source(model)
    scope: dict[str, Any] = {"ops": Torch()}
    exec(compile(text, "<network>", "exec"), scope)
    function = scope["f"]

    def put(a: np.ndarray) -> Any:
        made = torch.from_numpy(np.array(a)).cuda()
        return made.to(memory_format=torch.channels_last) if channels_last and made.ndim == 4 else made

    w, x = {k: put(v) for k, v in arrays.items()}, [put(v) for v in feeds.values()]
    out: Any = None
    with torch.inference_mode():
        if kind != "eager":
            torch._dynamo.reset()
            function = torch.compile(function, mode=kind)
            for _ in range(4):
                out = function(w, *x)
            torch.cuda.synchronize()
            seconds = _torch_timed(torch, lambda: function(w, *x))
        else:
            for _ in range(3):
                out = function(w, *x)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = function(w, *x)
            seconds = _torch_timed(torch, graph.replay)
        outputs = [o.float().cpu().numpy() for o in (out if isinstance(out, tuple) else (out,))]
    return seconds, outputs


def _torch_timed(torch: Any, call: Callable[[], object], replays: int = 50, rounds: int = 7) -> float:
    found: list[float] = []
    for _ in range(3):
        call()
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(replays):
            call()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) / 1e3 / replays)
    return median(found)


# --- JAX


class Jax:
    """``ops`` for JAX: what NasRNN and BERT need."""

    def __init__(self) -> None:
        jax, jnp = importlib.import_module("jax"), importlib.import_module("jax.numpy")
        self.jax, self.jnp = jax, jnp
        self.Add, self.Mul, self.Div, self.MatMul = jnp.add, jnp.multiply, jnp.divide, jnp.matmul
        self.Sigmoid, self.Tanh, self.Relu = jax.nn.sigmoid, jnp.tanh, jax.nn.relu

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.reshape(shape)

    def gelu(self, x: Any) -> Any:
        return self.jax.nn.gelu(x, approximate=False)

    def Transpose(self, x: Any, perm: tuple[int, ...]) -> Any:  # noqa: N802
        return self.jnp.transpose(x, perm)

    def attention(self, q: Any, k: Any, v: Any, scale: float) -> Any:
        return self.jnp.matmul(self.jax.nn.softmax(self.jnp.matmul(q, k) * scale, axis=-1), v)

    def LayerNormalization(self, x: Any, scale: Any, bias: Any, axis: int, epsilon: float) -> Any:  # noqa: N802
        wide = x.astype(self.jnp.float32)
        centred = wide - wide.mean(axis, keepdims=True)
        y = centred / self.jnp.sqrt((centred * centred).mean(axis, keepdims=True) + epsilon)
        return y.astype(x.dtype) * scale + bias


def jax_seconds(model: onnx.ModelProto, feeds: Feeds, *, tf32: bool) -> tuple[float, list[np.ndarray]]:
    """Seconds of one call of the jitted network, calls queued back to back, and the outputs."""
    jax = importlib.import_module("jax")
    text, arrays = source(model)
    scope: dict[str, Any] = {"ops": Jax()}
    exec(compile(text, "<network>", "exec"), scope)
    w, x = {k: jax.device_put(v) for k, v in arrays.items()}, [jax.device_put(v) for v in feeds.values()]
    with jax.default_matmul_precision("tensorfloat32" if tf32 else "float32"):
        function = jax.jit(scope["f"])
        out = jax.block_until_ready(function(w, *x))
        found: list[float] = []
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(100):
                out = function(w, *x)
            jax.block_until_ready(out)
            found.append((time.perf_counter() - start) / 100)
    return median(found), [np.asarray(o, np.float32) for o in (out if isinstance(out, tuple) else (out,))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=("eager", "compile", "max-autotune", "jax"))
    parser.add_argument("name")
    parser.add_argument("numerics", choices=("fp32", "tf32", "fp16"))
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--wait", action="store_true")
    given = parser.parse_args()
    model = models.build(given.name, batch=given.batch, dtype="float16" if given.numerics == "fp16" else "float32")
    feeds, tf32 = feeds_of(model), given.numerics == "tf32"
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = list(session.run(None, feeds))
    importlib.import_module("jax" if given.peer == "jax" else "torch")
    if given.wait and not sys.stdin.readline():
        return  # whoever started this has ended
    if given.peer == "jax":
        seconds, got = jax_seconds(model, feeds, tf32=tf32)
    else:
        kind = "reduce-overhead" if given.peer == "compile" else given.peer
        seconds, got = torch_seconds(model, feeds, kind, tf32=tf32, channels_last=given.channels_last)
    print(json.dumps([seconds * 1e3, error(got, wanted)]))


if __name__ == "__main__":
    main()
