"""E2: the benchmark networks on a GPU, ours against PyTorch and JAX, in one run on one card.

    python bench/gpu_networks.py [NAME ...] [--numerics fp32,tf32,fp16] [--recipes DIR] [--peers eager,compile,jax]
                                 [--choices FILE] [--json FILE] [--profile]

Ours runs the graph as it is and, with ``--recipes``, the fastest of that and the candidates of the optimizer (see
bench/recipes.py), raced in turns on this card as ``optimize --target cuda`` does. Every peer has a process of its own
(bench/gpu_peers.py): what else a process has launched makes its graphs slower. Every time is the median of replays that
are queued back to back, in ms.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import onnx_ir
import recipes
from gpu_turns import in_turns

from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io import import_model
from egraph_opt.runtime import cuda

TOLERANCE = {"fp32": 2e-4, "tf32": 1e-2, "fp16": 2e-2}
LEAST_GAIN = 0.01
"""By what share a candidate must win, as in ``optimize``: what differs less may be no difference."""
PATIENCE = 300
"""Seconds that a peer may take."""
BYTES_PER_SECOND, FLOPS = 3.0e12, {"fp32": 5.1e13, "tf32": 4.0e14, "fp16": 8.0e14}


@dataclass
class Row:
    """One network with one kind of arithmetic; times in ms, errors relative to ONNX Runtime in float32."""

    network: str
    numerics: str
    ms: dict[str, float] = field(default_factory=dict[str, float])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    notes: list[str] = field(default_factory=list[str])
    profile: list[tuple[str, str, float]] = field(default_factory=list[tuple[str, str, float]])
    race: dict[str, float] = field(default_factory=dict[str, float])
    floor: float = 0.0
    chosen: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--numerics", default="fp16,tf32,fp32")
    parser.add_argument("--recipes", type=Path)
    parser.add_argument("--peers", default="")
    parser.add_argument("--choices", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    print(cuda.machine(), flush=True)
    tuner = cuda.Tuner(cuda.Choices(arguments.choices), again=True)
    rows: list[Row] = []
    for name in arguments.names or recipes.EIGHT:
        built: dict[str, onnx.ModelProto] = {}
        for numerics in arguments.numerics.split(","):
            dtype = "float16" if numerics == "fp16" else "float32"
            if dtype not in built:
                built[dtype] = models.build(name, batch=arguments.batch, dtype=dtype)
            row = Row(name, numerics)
            rows.append(row)
            begin = time.perf_counter()
            measure(row, built[dtype], tuner, arguments)
            print(shown(row), f"[{time.perf_counter() - begin:.0f} s]", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps([vars(r) for r in rows]))
            tuner.choices.save()
    summary(rows)


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Random inputs of a model, the same ones every time."""
    rng, feeds = np.random.default_rng(1), dict[str, np.ndarray]()
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [d.dim_value for d in kind.shape.dim]
        feeds[value.name] = rng.standard_normal(shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return feeds


def measure(row: Row, model: onnx.ModelProto, tuner: cuda.Tuner, arguments: argparse.Namespace) -> None:
    """Fills the row; what fails is noted and the rest goes on."""
    import onnxruntime as ort

    feeds = feeds_of(model)
    wanted = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    wanted = list(wanted)
    peers = _peers(row, model, [peer for peer in arguments.peers.split(",") if peer])
    children = {name: _start(row, peer, last, arguments.batch) for name, peer, last in peers}
    try:
        _ours(row, model, feeds, wanted, tuner, arguments)
        for name, child in children.items():
            _finish(row, name, child)
    finally:
        for child in children.values():
            child.kill()


def _ours(
    row: Row, model: onnx.ModelProto, feeds: dict[str, np.ndarray], wanted: list[Any], tuner: cuda.Tuner,
    arguments: argparse.Namespace,
) -> None:  # fmt: skip
    """Races the original and the candidates; the fastest is timed once more and is ours."""
    fast, programs = row.numerics == "tf32", dict[str, cuda.Program]()
    graphs: dict[str, TensorGraph] = {"original": import_model(onnx_ir.from_proto(model)).graph}
    if arguments.recipes:
        path = recipes.path_of(arguments.recipes, row.network, row.numerics, arguments.batch)
        for number, record in enumerate(json.loads(gzip.decompress(path.read_bytes()))):
            graphs[f"{number}: {record['why']}"] = recipes.load(record, model)
    for name, graph in graphs.items():
        try:
            program = cuda.compile(graph, fast=fast, tuner=tuner, streams=arguments.streams)
            difference = error(list(program.run(feeds).values()), wanted)
            if difference < TOLERANCE[row.numerics] or name == "original":
                programs[name] = program
        except Exception as problem:  # noqa: BLE001 - a bench goes on; what failed is printed
            row.notes.append(f"{name}: {type(problem).__name__}: {str(problem)[:600]}")
    if not programs:
        return
    row.race = _in_turns(programs)
    best = min(programs, key=lambda name: row.race[name])
    if "original" in programs and row.race["original"] < row.race[best] * (1 + LEAST_GAIN):
        best = "original"
    last = _in_turns({name: programs[name] for name in (best, "original") if name in programs})
    for label, name in (("ours", best), ("ours, original", "original")):
        if name in programs:
            row.ms[label] = last[name]
            row.errors[label] = error(list(programs[name].run(feeds).values()), wanted)
    row.floor, row.chosen = floor(programs[best].plan, row.numerics), best
    if arguments.profile:
        profile = programs[best].profile(tuner)
        row.profile = [(kind, title, seconds * 1e6) for kind, title, seconds in profile]


def _in_turns(programs: Mapping[str, cuda.Program]) -> dict[str, float]:
    """Milliseconds by name."""
    return {name: seconds * 1e3 for name, seconds in zip(programs, in_turns(list(programs.values())), strict=True)}


def _start(row: Row, peer: str, last: bool, batch: int) -> subprocess.Popen[str]:
    """A process that gets a peer ready, and measures it when it is told to."""
    command = [sys.executable, str(Path(__file__).with_name("gpu_peers.py")), peer, row.network, row.numerics]
    command += ["--batch", str(batch), "--wait", *["--channels-last"] * last]
    env = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env)


def _finish(row: Row, name: str, child: subprocess.Popen[str]) -> None:
    """Lets a peer measure, alone on the card."""
    try:
        out, said = child.communicate("go\n", timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        row.notes.append(f"{name}: not done after {PATIENCE} s")
        return
    if child.returncode:
        row.notes.append(f"{name}: {said.strip()[-300:]}")
    else:
        row.ms[name], row.errors[name] = json.loads(out.splitlines()[-1])


def _peers(row: Row, model: onnx.ModelProto, asked: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Name, kind and whether images lie channels-last, of the peers that are asked for and take this network."""
    convolutions, found = any(n.op_type == "Conv" for n in model.graph.node), list[tuple[str, str, bool]]()
    for peer in asked:
        if peer in ("jax", "max-autotune") and not row.network.startswith(("nasrnn", "bert")):
            continue
        both = peer == "eager" and convolutions
        for last in [False, True] if both else [peer == "compile" and convolutions and row.numerics != "fp32"]:
            name = peer if peer == "jax" else f"torch {'reduce-overhead' if peer == 'compile' else peer}"
            found.append((f"{name}{' channels-last' if last else ''}", peer, last))
    return found


def error(got: list[Any], wanted: list[Any]) -> float:
    """The largest relative error (norm of the difference over the norm) of any output; NaN counts as infinite."""
    found = 0.0
    for a, b in zip(got, wanted, strict=True):
        b = np.asarray(b, np.float64)
        value = float(np.linalg.norm(np.asarray(a, np.float64) - b) / max(float(np.linalg.norm(b)), 1e-30))
        found = max(found, value if math.isfinite(value) else math.inf)
    return found


def floor(plan: cuda.Plan, numerics: str) -> float:
    """Milliseconds below which the plan cannot go: its weights read once, or its products at full speed."""
    from egraph_opt.runtime.cuda.steps import Convolution, Product

    weights = sum(b.bytes for b in plan.buffers if b.role == "weight")
    flops = 0
    for step in plan.steps:
        if isinstance(step, Product):
            flops += 2 * step.d.elements * step.a.shape[-1]
        elif isinstance(step, Convolution):
            flops += 2 * step.y.elements * math.prod(step.w.shape[1:])
    return max(weights / BYTES_PER_SECOND, flops / FLOPS[numerics]) * 1e3


def shown(row: Row) -> str:
    """One line, or more with notes and a profile."""
    times = "  ".join(f"{k} {v:.4f}" for k, v in row.ms.items())
    bad = [f"{k} {v:.1e}" for k, v in row.errors.items() if not v < TOLERANCE[row.numerics]]
    ours = min((v for k, v in row.ms.items() if k.startswith("ours")), default=math.nan)
    peers = min((v for k, v in row.ms.items() if not k.startswith("ours")), default=math.nan)
    lines = [f"{row.network:13} {row.numerics:5} {times}  x{peers / ours:.2f}  floor {row.floor:.4f}"
             f"  error {row.errors.get('ours', math.nan):.1e}  chosen {row.chosen or '-'}"]  # fmt: skip
    lines += [f"    WRONG {b}" for b in bad] + [f"    {n}" for n in row.notes]
    total: dict[str, tuple[int, float]] = {}
    for kind, title, us in row.profile:
        count, spent = total.get(f"{kind} {title}", (0, 0.0))
        total[f"{kind} {title}"] = count + 1, spent + us
    ordered = sorted(total.items(), key=lambda item: -item[1][1])[:14]
    lines += [
        f"    {spent:8.1f} us  {count:3} x {spent / count:6.2f}  {what[:110]}" for what, (count, spent) in ordered
    ]
    if row.profile:
        lines.append(f"    {sum(us for _, _, us in row.profile):8.1f} us in {len(row.profile)} steps one by one")
    return "\n".join(lines)


def summary(rows: list[Row]) -> None:
    """Ratios to the best peer."""
    for numerics in dict.fromkeys(r.numerics for r in rows):
        ratios: list[float] = []
        for row in rows:
            peers = [v for k, v in row.ms.items() if not k.startswith("ours")]
            if row.numerics == numerics and peers and "ours" in row.ms:
                ratios.append(min(peers) / row.ms["ours"])
        if ratios:
            mean = math.exp(np.mean(np.log(ratios)))
            print(f"{numerics}: geometric mean of {len(ratios)} ratios to the best peer {mean:.2f},"
                  f" least {min(ratios):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
