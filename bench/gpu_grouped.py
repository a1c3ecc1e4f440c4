"""E3: one convolution with 1 to 32 groups on this machine's GPU.

    python bench/gpu_grouped.py [--numerics fp16,tf32] [--choices FILE] [--json FILE]

A convolution of 32 groups is one of fewer groups whose weights are padded with zeros: more arithmetic, fewer and
larger products. TASO (Jia et al. 2019, its artefact) found the optimum in between, at 8 groups, for a 3x3 convolution
of 512 channels at 28x28 on a V100; printed beside ours. Every time is of the convolution with bias and Relu, the
fastest of all implementations that cuDNN and cuBLASLt propose, in a replayed CUDA graph, its weights cold.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from egraph_opt.errors import EgraphOptError
from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.runtime import cuda

GROUPS = (1, 2, 4, 8, 16, 32)
SHAPES = ((1, 512, 28, 28), (1, 128, 56, 56), (1, 256, 28, 28), (1, 512, 14, 14), (1, 1024, 7, 7), (16, 512, 28, 28))
TASO = (0.2690, 0.1496, 0.1244, 0.1119, 0.1667, 0.3039)
"""ms on a V100 in float32, of the first shape."""


def grouped(shape: tuple[int, int, int, int], groups: int, dtype: str) -> TensorGraph:
    """relu(conv3x3(x) + bias) with as many channels out as in."""
    graph, channels = TensorGraph(), shape[1]
    rng, type_ = np.random.default_rng(0), TensorType(dtype, shape)
    weight = (rng.standard_normal((channels, channels // groups, 3, 3)) * 0.05).astype(dtype)
    x = graph.add("Input", ("x",), (), type_)
    operands = [x, graph.constant(Constant.of(weight)), graph.constant(Constant.of(np.ones(channels, dtype)))]
    y = graph.add("Conv", ((1, 1), (1, 1, 1, 1), (1, 1), groups), operands, type_)
    graph.outputs = (graph.add("Relu", (), (y,), type_),)
    return graph


def seconds(graph: TensorGraph, fast: bool, tuner: cuda.Tuner) -> tuple[float, str]:
    """Of the convolution alone, without the changes of layout around it, and the implementation."""
    plan = cuda.make_plan(graph, exact=not fast, lay_inputs=True)
    program = cuda.Program(plan, ("y",), fast=fast, tuner=tuner)
    timed = [(t, place) for place, (step, t) in enumerate(zip(program.plan.steps, program.alone, strict=True))
             if not step.title.startswith("copy of")]  # fmt: skip
    (place,) = (place for _, place in timed)
    return timed[0][0], program.calls[place].label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numerics", default="fp16,tf32")
    parser.add_argument("--choices", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    print(cuda.machine(), flush=True)
    tuner, rows = cuda.Tuner(cuda.Choices(arguments.choices)), list[dict[str, object]]()
    print(f"{'shape':18} numerics " + " ".join(f"{f'{g} groups':>10}" for g in GROUPS) + "  (us)  best")
    for numerics in arguments.numerics.split(","):
        for shape in SHAPES:
            found: list[float] = []
            for groups in GROUPS:
                graph = grouped(shape, groups, "float16" if numerics == "fp16" else "float32")
                try:
                    taken, label = seconds(graph, numerics == "tf32", tuner)
                except EgraphOptError as problem:
                    taken, label = float("nan"), str(problem)
                found.append(taken * 1e6)
                rows.append({"shape": shape, "numerics": numerics, "groups": groups, "us": taken * 1e6, "by": label})
            best = GROUPS[int(np.nanargmin(found))]
            print(f"{'x'.join(map(str, shape)):18} {numerics:8} " + " ".join(f"{t:10.2f}" for t in found)
                  + f"        {best}", flush=True)  # fmt: skip
            if arguments.json:
                arguments.json.write_text(json.dumps(rows))
    print(f"{'TASO, V100':18} {'fp32':8} " + " ".join(f"{t * 1e3:10.1f}" for t in TASO) + "        8")
    tuner.choices.save()


if __name__ == "__main__":
    main()
