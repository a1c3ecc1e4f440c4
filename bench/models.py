"""The benchmark networks, as ONNX with seeded weights.

    python bench/models.py --out DIR [NAME ...] [--dtype float16] [--batch N]      (no --out: a table of all)

Definitions: ResNet (He et al. 2016; v1.5, stride in the 3x3), ResNeXt (Xie et al. 2017), Inception-v3 (Szegedy et al.
2016, no auxiliary head), SqueezeNet 1.1 (Iandola et al. 2016), VGG (Simonyan and Zisserman 2015), a post-norm encoder
(Devlin et al. 2019). NasNet-A, NasRNN and ``bert-taso`` are the graphs of TASO's examples (github.com/jiazhihao/TASO,
examples/): ``bert-taso`` throws its attention away and has no softmax, so it serves for search times alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from netbuilder import DTYPES, Net
from rich.console import Console
from rich.table import Table


def nasrnn(net: Net, batch: int, *, steps: int = 5, hidden: int = 512, shared: bool = False) -> list[str]:
    """A recurrent cell found by search, unrolled: eight gates, 16 fresh matrices a step (TASO's graph), or ``shared``
    ones, as a recurrent network has them."""

    def matrices() -> list[str]:
        return [net.weight(hidden, hidden, scale=hidden**-0.5) for _ in range(16)]

    state = net.weight(batch, hidden, scale=1.0)
    kept = matrices() if shared else []
    for step in range(steps):
        x, weights = net.input(f"x{step}", batch, hidden), kept or matrices()
        pairs = zip(weights[::2], weights[1::2], strict=True)
        t = [net.add(net.op("MatMul", x, a), net.op("MatMul", state, b)) for a, b in pairs]
        sigmoid, tanh, relu = (lambda v, kind=kind: net.op(kind, v) for kind in ("Sigmoid", "Tanh", "Relu"))
        m0 = net.add(relu(t[0]), sigmoid(t[3]))
        m1 = net.add(sigmoid(t[1]), tanh(t[2]))
        m2 = net.op("Mul", sigmoid(t[4]), tanh(t[5]))
        m3 = net.op("Mul", sigmoid(t[6]), relu(t[7]))
        m4 = net.add(sigmoid(m1), tanh(m2))
        m5 = net.op("Mul", tanh(m0), tanh(m3))
        m6 = net.op("Mul", tanh(m4), tanh(m5))
        state = tanh(m6)
    return [state]


def encoder(net: Net, batch: int, *, layers: int, width: int, heads: int, inner: int, length: int) -> list[str]:
    """Post-norm transformer encoder: attention and a GELU feed-forward part, biases everywhere."""
    size = width // heads
    x = net.input("x", batch, length, width)

    def split_heads(y: str, *perm: int) -> str:
        return net.op("Transpose", net.reshape(y, batch, length, heads, size), perm=perm)

    for _ in range(layers):
        q, k, v = (net.linear(x, width, width) for _ in range(3))
        scores = net.op("MatMul", split_heads(q, 0, 2, 1, 3), split_heads(k, 0, 2, 3, 1))
        weights = net.op("Softmax", net.op("Mul", scores, net.constant(size**-0.5)), axis=-1)
        mixed = net.op("Transpose", net.op("MatMul", weights, split_heads(v, 0, 2, 1, 3)), perm=(0, 2, 1, 3))
        attended = net.linear(net.reshape(mixed, batch, length, width), width, width)
        x = net.layer_norm(net.add(x, attended), width)
        fed = net.linear(net.gelu(net.linear(x, width, inner)), inner, width)
        x = net.layer_norm(net.add(x, fed), width)
    return [x]


def bert_taso(net: Net, batch: int, *, layers: int = 8, width: int = 1024, heads: int = 16) -> list[str]:
    """TASO's example: each layer's attention is an output of its own, the next layer sees the projected input."""
    size = length = width // heads
    x, outputs = net.relu(net.input("x", length, width)), []
    for _ in range(layers):
        q, k, v = (
            net.op(
                "Transpose", net.reshape(net.linear(x, width, width, bias=False), length, heads, size), perm=(1, 0, 2)
            )
            for _ in range(3)
        )
        mixed = net.op("MatMul", net.op("MatMul", q, k), v)
        outputs.append(net.reshape(net.op("Transpose", mixed, perm=(1, 0, 2)), length, width))
        x = net.linear(x, width, width, bias=False)
    return [*outputs, x]


def residual(net: Net, batch: int, *, group: int, width: int) -> list[str]:
    """ResNet-50 (1 group of 64) or ResNeXt-50 (32 groups of 4): bottleneck blocks 3, 4, 6, 3."""
    x = net.pool(
        "MaxPool", net.relu(net.norm(net.conv(net.input("x", batch, 3, 224, 224), 64, 7, 2, bias=False))), 3, 2, 1
    )
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, out = group * width * 2**stage, 256 * 2**stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            y = net.relu(net.norm(net.conv(x, inner, 1, bias=False)))
            y = net.relu(net.norm(net.conv(y, inner, 3, stride, group=group, bias=False)))
            y = net.norm(net.conv(y, out, 1, bias=False), scale=0.25)
            short = net.norm(net.conv(x, out, 1, stride, bias=False, gain=1.0)) if block == 0 else x
            x = net.relu(net.add(y, short))
    return [net.head(x, 1000)]


def squeezenet(net: Net, batch: int) -> list[str]:
    """SqueezeNet 1.1."""
    x = net.pool("MaxPool", net.relu(net.conv(net.input("x", batch, 3, 224, 224), 64, 3, 2, pads=[0] * 4)), 3, 2)
    for number, (squeezed, out) in enumerate(((16, 64), (32, 128), (48, 192), (64, 256))):
        for _ in range(2):
            s = net.relu(net.conv(x, squeezed, 1))
            x = net.concat([net.relu(net.conv(s, out, 1)), net.relu(net.conv(s, out, 3))])
        if number < 2:
            x = net.pool("MaxPool", x, 3, 2)
    return [net.op("Flatten", net.op("GlobalAveragePool", net.relu(net.conv(x, 1000, 1))), axis=1)]


def vgg(net: Net, batch: int, *, convs: tuple[int, ...]) -> list[str]:
    """VGG-16 (2, 2, 3, 3, 3) or VGG-19 (2, 2, 4, 4, 4)."""
    x = net.input("x", batch, 3, 224, 224)
    for count, width in zip(convs, (64, 128, 256, 512, 512), strict=True):
        for _ in range(count):
            x = net.relu(net.conv(x, width, 3))
        x = net.pool("MaxPool", x, 2, 2)
    x = net.op("Flatten", x, axis=1)
    for fan_in, out in ((25088, 4096), (4096, 4096)):
        x = net.relu(net.linear(x, fan_in, out, gemm=True))
    return [net.linear(x, 4096, 1000, gemm=True)]


def inception_v3(net: Net, batch: int) -> list[str]:
    """Inception-v3 without the auxiliary head."""

    def unit(y: str, out: int, kernel: int | tuple[int, int], stride: int = 1, valid: bool = False) -> str:
        return net.relu(net.norm(net.conv(y, out, kernel, stride, bias=False, pads=[0] * 4 if valid else None)))

    def chain(y: str, *layers: tuple[int, int | tuple[int, int]]) -> str:
        for out, kernel in layers:
            y = unit(y, out, kernel)
        return y

    def averaged(y: str, out: int) -> str:
        return unit(net.pool("AveragePool", y, 3, 1, 1), out, 1)

    x = net.input("x", batch, 3, 299, 299)
    x = unit(unit(unit(x, 32, 3, 2, True), 32, 3, 1, True), 64, 3)
    x = net.pool("MaxPool", x, 3, 2)
    x = net.pool("MaxPool", unit(unit(x, 80, 1), 192, 3, 1, True), 3, 2)
    for features in (32, 64, 64):
        x = net.concat(
            [unit(x, 64, 1), chain(x, (48, 1), (64, 5)), chain(x, (64, 1), (96, 3), (96, 3)), averaged(x, features)]
        )
    reduced = unit(chain(x, (64, 1), (96, 3)), 96, 3, 2, True)
    x = net.concat([unit(x, 384, 3, 2, True), reduced, net.pool("MaxPool", x, 3, 2)])
    for c in (128, 160, 160, 192):
        long = chain(x, (c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7)))
        x = net.concat([unit(x, 192, 1), chain(x, (c, 1), (c, (1, 7)), (192, (7, 1))), long, averaged(x, 192)])
    wide = unit(chain(x, (192, 1), (192, (1, 7)), (192, (7, 1))), 192, 3, 2, True)
    x = net.concat([unit(unit(x, 192, 1), 320, 3, 2, True), wide, net.pool("MaxPool", x, 3, 2)])
    for _ in range(2):
        forks = [chain(x, (384, 1)), chain(x, (448, 1), (384, 3))]
        forked = [unit(y, 384, kernel) for y in forks for kernel in ((1, 3), (3, 1))]
        x = net.concat([unit(x, 320, 1), *forked, averaged(x, 192)])
    return [net.head(x, 1000)]


def nasnet_a(net: Net, batch: int) -> list[str]:
    """TASO's NasNet-A: 3 x (5 normal cells, one reduction), from 128 channels; no normalization."""

    def sep(y: str, kernel: int, stride: int = 1) -> str:
        deep = net.conv(y, net.channels[y], kernel, stride, group=net.channels[y], bias=False, gain=1.0)
        return net.conv(deep, net.channels[y], 1, bias=False, gain=1.0)

    def squeeze(y: str, out: int) -> str:
        return net.relu(net.conv(y, out, 1, bias=False, gain=1.0))

    def fit(previous: str, out: int, *, halve: bool) -> str:
        return net.relu(net.conv(previous, out, 3, 2, bias=False, gain=1.0)) if halve else squeeze(previous, out)

    def average(y: str, stride: int = 1) -> str:
        return net.pool("AveragePool", y, 3, stride, 1)

    def normal(p: str, y: str) -> str:
        return net.concat([
            net.add(sep(y, 3), y), net.add(sep(p, 3), sep(y, 3)), net.add(average(y), p),
            net.add(average(p), average(p)), net.add(sep(p, 3), sep(p, 3)),
        ])  # fmt: skip

    def reduction(p: str, y: str) -> str:
        first = net.add(sep(p, 7, 2), sep(y, 5, 2))
        second = net.add(net.pool("MaxPool", y, 3, 2, 1), sep(p, 7, 2))
        third = net.add(average(y, 2), sep(p, 5, 2))
        fourth = net.add(net.pool("MaxPool", y, 3, 2, 1), sep(first, 3))
        return net.concat([first, second, third, fourth, net.add(average(first), second)])

    x = net.relu(net.conv(net.input("x", batch, 3, 224, 224), 64, 7, 2, bias=False))
    x = net.pool("MaxPool", x, 3, 2, 1)
    c = 128
    for _ in range(3):
        previous = current = x
        halve = False
        for _ in range(5):
            made = normal(fit(previous, c, halve=halve), squeeze(current, c))
            previous, current = current, made
        c *= 2
        x = reduction(fit(previous, c, halve=False), squeeze(current, c))
    return [x]


@dataclass(frozen=True)
class Network:
    """A benchmark network.

    Attributes:
        build: adds the network for a batch size to a ``Net`` and returns its outputs.
        published: the name that TASO and Tensat publish figures under, if any.
    """

    build: Callable[[Net, int], list[str]]
    published: str = ""


def _bert(layers: int, width: int, heads: int, length: int) -> Callable[[Net, int], list[str]]:
    return lambda net, batch: encoder(
        net, batch, layers=layers, width=width, heads=heads, inner=4 * width, length=length
    )


NETWORKS: dict[str, Network] = {
    "nasrnn": Network(nasrnn, "NasRNN"),
    "nasrnn-10x128": Network(lambda net, batch: nasrnn(net, batch, steps=10, hidden=128)),
    "nasrnn-10x512": Network(lambda net, batch: nasrnn(net, batch, steps=10)),
    "bert-8x1024": Network(_bert(8, 1024, 16, 64)),
    "bert-base": Network(_bert(12, 768, 12, 64)),
    "bert-base-128": Network(_bert(12, 768, 12, 128)),
    "bert-taso": Network(bert_taso, "BERT"),
    "resnet50": Network(lambda net, batch: residual(net, batch, group=1, width=64)),
    "resnext50": Network(lambda net, batch: residual(net, batch, group=32, width=4), "ResNeXt-50"),
    "inception_v3": Network(inception_v3, "Inception-v3"),
    "squeezenet": Network(squeezenet, "SqueezeNet"),
    "vgg16": Network(lambda net, batch: vgg(net, batch, convs=(2, 2, 3, 3, 3))),
    "vgg19": Network(lambda net, batch: vgg(net, batch, convs=(2, 2, 4, 4, 4)), "VGG-19"),
    "nasnet_a": Network(nasnet_a, "NasNet-A"),
}


def build(name: str, *, batch: int = 1, dtype: str = "float32", seed: int = 0) -> onnx.ModelProto:
    """A benchmark network as ONNX; the same bytes for the same arguments."""
    net = Net(name, dtype, seed)
    return net.finish(NETWORKS[name].build(net, batch))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--batch", type=int, default=1)
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(NETWORKS))
    if unknown:
        parser.error(f"no network is called {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    table = Table("network", "nodes", "weights (M)", "inputs")
    for name in arguments.names or NETWORKS:
        model = build(name, batch=arguments.batch, dtype=arguments.dtype)
        count = sum(int(np.prod(t.dims)) for t in model.graph.initializer)
        table.add_row(name, str(len(model.graph.node)), f"{count / 1e6:.2f}", str(len(model.graph.input)))
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            onnx.save(model, arguments.out / f"{name}.onnx")
    Console().print(table)


if __name__ == "__main__":
    main()
