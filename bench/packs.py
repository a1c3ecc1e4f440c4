"""Small networks, each with one thing to gain (or nothing): what egraph-opt makes of them against a mark.

    python bench/packs.py [PATTERN] [--races N] [--samples N] [--json FILE] [--check]   (--list: the table of packs)

The baseline is ONNX Runtime at its highest level on the original, and both run on one thread: random order, warm-up,
fastest tenth of the samples, several races in sessions of their own. A ratio is the geometric mean of the races, with
its 95 % interval; "A/A" is how far the original differs from itself at most. A mark is the least ratio wanted, and the
lower end of the interval must reach it; controls have nothing to gain on a CPU, and their interval must lie within 0.97
to 1.03. ``--check`` ends with 1 where a mark is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
from intervals import interval
from models import encoder, nasrnn
from netbuilder import Net
from rich.console import Console
from rich.table import Table

from egraph_opt import Outcome, optimize
from egraph_opt.onnx_io import to_ir
from egraph_opt.runtime import race
from egraph_opt.verification import random_feeds

CONTROL = (0.97, 1.03)
"""Where the ratio of a network with nothing to gain must end."""
BUDGET_SECONDS = 12.0


def reassociation(net: Net) -> list[str]:
    a, b, x = net.input("a", 768, 768), net.input("b", 768, 768), net.input("x", 768, 8)
    return [net.op("MatMul", net.op("MatMul", a, b), x)]


def linear_attention(net: Net, *, length: int = 512, size: int = 64) -> list[str]:
    q, k, v = (net.input(name, length, size) for name in "qkv")
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=(1, 0)))
    return [net.op("MatMul", scores, v)]


def halves(net: Net) -> list[str]:
    """Relu on each half of the channels."""
    x = net.input("x", 1, 64, 112, 112)
    parts = [
        net.relu(net.op("Slice", x, *(net.constant(np.array([n])) for n in (start, start + 32, 1))))
        for start in (0, 32)
    ]
    return [net.op("Concat", *parts, axis=1)]


def affine(net: Net) -> list[str]:
    """BatchNormalization before a 1x1 convolution, a scalar scale and offset behind: the first expansion, from 8 to 48
    channels, of a MobileNet-v2 of half width."""
    y = net.conv(net.norm(net.input("x", 1, 8, 112, 112)), 48, 1)
    return [net.add(net.op("Mul", y, net.constant(0.7)), net.constant(0.3))]


def rnn(net: Net, *, hidden: int, steps: int = 10) -> list[str]:
    """TASO's NasRNN cell, its 16 matrices shared by the steps."""
    return nasrnn(net, 1, steps=steps, hidden=hidden, shared=True)


def siamese(net: Net, *, rows: int, width: int = 512, layers: int = 3) -> list[str]:
    """Two towers with the same weights; the distance of what they see."""
    a, b = net.input("a", rows, width), net.input("b", rows, width)
    for _ in range(layers):
        weight, bias = net.weight(width, width, scale=width**-0.5), net.weight(width, scale=0.1)
        a, b = (net.relu(net.add(net.op("MatMul", t, weight), bias)) for t in (a, b))
    return [net.op("Abs", net.op("Sub", a, b))]


def constant_fold(net: Net) -> list[str]:
    x = net.input("x", 1, 64, 56, 56)
    for _ in range(4):
        channels = (net.weight(1, 64, 1, 1, scale=0.1, mean=1.0) for _ in range(2))
        for factor in channels:
            x = net.op("Mul", x, factor)
        x = net.relu(x)
    return [x]


def ping_pong(net: Net, *, layers: int = 3) -> list[str]:
    """Depthwise and 1x1 convolutions as a channels-last framework exports them: each between transposes, with its
    pixels in one axis in between."""
    side, channels = 56, 64

    def first(x: str) -> str:
        turned = net.op("Transpose", net.reshape(x, 1, side, side, channels), perm=(0, 3, 1, 2))
        net.channels[turned] = channels
        return turned

    def last(x: str) -> str:
        return net.reshape(net.op("Transpose", x, perm=(0, 2, 3, 1)), 1, side * side, channels)

    x = net.input("x", 1, side * side, channels)
    for _ in range(layers):
        x = net.relu(last(net.conv(first(x), channels, 3, group=channels)))
        x = last(net.conv(first(x), channels, 1))
    return [x]


def repvgg(net: Net, *, blocks: int = 3) -> list[str]:
    """Training-time blocks of RepVGG-A0's second stage: a 3x3, a 1x1 and the input itself, added up."""
    x = net.input("x", 1, 48, 56, 56)
    for _ in range(blocks):
        x = net.relu(net.add(net.add(net.conv(x, 48, 3, gain=0.7), net.conv(x, 48, 1, gain=0.7)), x))
    return [x]


def lora(net: Net, *, rank: int, rows: int, width: int = 768, layers: int = 4) -> list[str]:
    """x W + (x A) B per layer."""
    x = net.input("x", rows, width)
    for _ in range(layers):
        adapted = net.linear(net.linear(x, width, rank, bias=False), rank, width, bias=False)
        x = net.op("Tanh", net.add(net.linear(x, width, width, bias=False), adapted))
    return [x]


def experts(net: Net, *, rows: int, width: int = 256, count: int = 8) -> list[str]:
    """Dense experts of two layers, weighted by a gate."""
    x = net.input("x", rows, width)
    gate = net.op("Softmax", net.linear(x, width, count), axis=-1)
    shares = [net.op("Slice", gate, *(net.constant(np.array([n])) for n in (i, i + 1, 1))) for i in range(count)]
    parts = [net.linear(net.relu(net.linear(x, width, width)), width, width) for _ in range(count)]
    total = net.op("Mul", parts[0], shares[0])
    for part, share in zip(parts[1:], shares[1:], strict=True):
        total = net.add(total, net.op("Mul", part, share))
    return [total]


def grouped(net: Net, *, channels: int, side: int, per_group: int, layers: int = 3) -> list[str]:
    """ResNeXt's grouped convolutions between 1x1 ones."""
    x = net.input("x", 1, channels, side, side)
    for _ in range(layers):
        x = net.relu(net.conv(net.relu(net.conv(x, channels, 1)), channels, 3, group=channels // per_group))
    return [x]


def attention_layer(net: Net) -> list[str]:
    return encoder(net, 1, layers=1, width=768, heads=12, inner=3072, length=64)


def inception(net: Net) -> list[str]:
    """Parallel 1x1 convolutions of one input, as in Inception-v1's 3a."""
    x = net.input("x", 1, 192, 28, 28)
    first, second, third = (net.relu(net.conv(x, out, 1)) for out in (64, 96, 16))
    pooled = net.relu(net.conv(net.pool("MaxPool", x, 3, 1, 1), 32, 1))
    return [net.concat([first, net.relu(net.conv(second, 128, 3)), net.relu(net.conv(third, 32, 5)), pooled])]


def fire(net: Net) -> list[str]:
    """A fire module of SqueezeNet: enlarging its 1x1 convolution would let it merge with the 3x3 one."""
    squeezed = net.relu(net.conv(net.input("x", 1, 128, 28, 28), 32, 1))
    return [net.concat([net.relu(net.conv(squeezed, 128, 1)), net.relu(net.conv(squeezed, 128, 3))])]


def pooled_sum(net: Net) -> list[str]:
    """Two equal average poolings, as in a NASNet cell."""
    x = net.input("x", 1, 128, 28, 28)
    return [net.add(net.pool("AveragePool", x, 3, 1, 1), net.pool("AveragePool", x, 3, 1, 1))]


@dataclass(frozen=True)
class Pack:
    """A small network.

    Attributes:
        mark: the least ratio wanted; None: it must only not get slower.
        why: what there is to gain.
        control: whether there is nothing to gain, so that the ratio must stay within ``CONTROL``.
    """

    build: Callable[[Net], list[str]]
    mark: float | None
    why: str
    control: bool = False

    def holds(self, low: float, high: float) -> bool:
        """Whether all of an interval is what is wanted."""
        least, most = CONTROL if self.control else (self.mark or CONTROL[0], float("inf"))
        return least <= low and high <= most


PACKS: dict[str, Pack] = {
    "reassociation": Pack(reassociation, 5.0, "(A B) x is A (B x)"),
    "linear-attention": Pack(linear_attention, 3.0, "(Q K') V is Q (K' V) without a softmax"),
    "halves": Pack(halves, 1.5, "Slice, Relu and Concat of halves is Relu"),
    "affine": Pack(affine, 1.4, "BatchNormalization and scalars go into the convolution"),
    "nasrnn-512": Pack(lambda net: rnn(net, hidden=512), 1.4, "products of all steps with the same weights at once"),
    "nasrnn-128": Pack(lambda net: rnn(net, hidden=128), None, "many small products"),
    "siamese-1": Pack(lambda net: siamese(net, rows=1), 1.25, "both towers as one batch"),
    "siamese-16": Pack(lambda net: siamese(net, rows=16), None, "the same, where it gains less"),
    "constant-fold": Pack(constant_fold, 1.2, "(x a) b is x (a b)"),
    "ping-pong": Pack(ping_pong, 1.15, "transposes and reshapes that cancel"),
    "repvgg": Pack(repvgg, 1.15, "3x3 + 1x1 + identity is one convolution"),
    "lora-8": Pack(lambda net: lora(net, rank=8, rows=64), None, "W + A B is a constant"),
    "lora-64": Pack(lambda net: lora(net, rank=64, rows=64), None, "W + A B is a constant"),
    "experts-32": Pack(lambda net: experts(net, rows=32), None, "eight products of one input"),
    "grouped-4": Pack(lambda net: grouped(net, channels=128, side=28, per_group=4), None, "fewer, larger groups"),
    "grouped-16": Pack(lambda net: grouped(net, channels=512, side=7, per_group=16), None, "ditto, too large", True),
    "bert-qkv": Pack(attention_layer, None, "one product for Q, K and V", True),
    "inception-1x1": Pack(inception, None, "one convolution for three", True),
    "fire": Pack(fire, None, "a 1x1 convolution made 3x3", True),
    "pooled-sum": Pack(pooled_sum, None, "ONNX Runtime merges these itself", True),
}


def build(name: str, seed: int = 0) -> onnx.ModelProto:
    """A pack as ONNX; the same bytes for the same arguments."""
    net = Net(name, seed=seed)
    return net.finish(PACKS[name].build(net))


@dataclass(frozen=True)
class Row:
    """What became of one pack: ``ratio`` is of the fastest tenth of the samples, ``low`` and ``high`` are the ends of
    its interval, ``spread`` is the control's largest."""

    name: str
    mark: float | None
    control: bool
    outcome: str
    reason: str
    ratio: float
    low: float
    high: float
    median: float
    spread: float
    milliseconds: float
    nodes: tuple[int, int]
    estimated: tuple[float | None, float | None]
    seconds: float
    rules: dict[str, int]
    holds: bool


def bench(name: str, races: int, samples: int) -> Row:
    """One pack: optimized with the default target, and raced against the original."""
    pack, original = PACKS[name], build(name)
    start = time.perf_counter()
    result = optimize(original)
    seconds, report = time.perf_counter() - start, result.report
    assert isinstance(result.model, onnx.ModelProto)
    racers: dict[str, bytes | Path] = {
        "original": original.SerializeToString(),
        "egraph-opt": result.model.SerializeToString(),
    }
    feeds, budget = random_feeds(to_ir(original), {}), BUDGET_SECONDS / races
    timed = [race(racers, feeds, samples=samples, budget_seconds=budget, seed=turn) for turn in range(races)]
    laps = [t.lap("egraph-opt") for t in timed]
    changed = report.outcome == Outcome.OPTIMIZED
    ratio, low, high = interval([lap.ratio for lap in laps]) if changed else (1.0, 1.0, 1.0)
    median = statistics.median(lap.median_ratio for lap in laps) if changed else 1.0
    assert report.before is not None
    assert report.after is not None
    return Row(
        name, pack.mark, pack.control, str(report.outcome), report.reason, ratio, low, high, median,
        max(t.spread for t in timed), min(t.laps[0].b10 for t in timed) * 1e3,
        (report.before.nodes, report.after.nodes), (report.estimated_before, report.estimated_after), seconds,
        dict(report.rules), pack.holds(low, high),
    )  # fmt: skip


def show(rows: list[Row]) -> None:
    table = Table(title="Speed against ONNX Runtime on the original (above 1 is faster)")
    for column in ("pack", "ORT ms", "nodes", "ratio", "95 %", "median", "A/A", "mark", "seconds"):
        table.add_column(column, justify="left" if column == "pack" else "right")
    for row in rows:
        mark = f"{CONTROL[0]}-{CONTROL[1]}" if row.control else f"{row.mark:.2f}" if row.mark else ""
        changed = row.outcome == Outcome.OPTIMIZED
        ratio, ends = (f"{row.ratio:.2f}", f"{row.low:.2f}-{row.high:.2f}") if changed else (row.outcome, "")
        table.add_row(
            row.name, f"{row.milliseconds:.3f}", f"{row.nodes[0]} -> {row.nodes[1]}",
            ratio if row.holds else f"[red]{ratio}[/red]", ends, f"{row.median:.2f}", f"{row.spread:.1%}", mark,
            f"{row.seconds:.0f}",
        )  # fmt: skip
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="only packs whose name contains this")
    parser.add_argument("--races", type=int, default=5)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    names = [name for name in PACKS if arguments.pattern in name]
    if arguments.list:
        table = Table("pack", "mark", "what there is to gain")
        for name in names:
            mark = "none to gain" if PACKS[name].control else str(PACKS[name].mark or "")
            table.add_row(name, mark, PACKS[name].why)
        Console().print(table)
        return
    rows: list[Row] = []
    for name in names:
        print(f"{name}...", file=sys.stderr, flush=True)
        rows.append(bench(name, arguments.races, arguments.samples))
        if arguments.json:
            arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    show(rows)
    if arguments.check and not all(row.holds for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
