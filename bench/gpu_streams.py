"""What a second stream costs: the same CUDA graphs before and after kernels were launched on other streams.

    python bench/gpu_streams.py [NAME ...] [--numerics fp16] [--others 6]

Each network is compiled twice (twins). Then its steps are launched once on each of some new streams, and its graph is
replayed again on the stream that it was on all along. Printed: ms of each reading. Why the executor launches everything
on one stream (``egraph_opt.runtime.cuda.device.main_stream``).
"""

from __future__ import annotations

import argparse

import models
import onnx_ir

from egraph_opt.onnx_io import import_model
from egraph_opt.runtime import cuda
from egraph_opt.runtime.cuda.device import library


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--numerics", choices=("fp16", "tf32", "fp32"), default="fp16")
    parser.add_argument("--others", type=int, default=6)
    parser.add_argument("--choices")
    given = parser.parse_args()
    print(cuda.machine(), flush=True)
    programs: dict[str, cuda.Program] = {}
    for name in given.names or ("resnet50", "squeezenet"):
        model = models.build(name, dtype="float16" if given.numerics == "fp16" else "float32")
        graph = import_model(onnx_ir.from_proto(model)).graph
        for twin in (name, f"{name}, twin"):
            programs[twin] = cuda.compile(graph, fast=given.numerics == "tf32", cache=given.choices)
            shown("as built", programs)
    for program in list(programs.values()):
        for _ in range(given.others):
            elsewhere(program)
            shown("steps launched on another stream", programs)


def shown(what: str, programs: dict[str, cuda.Program]) -> None:
    """One line: what was done, and milliseconds of all programs."""
    print(f"{what:34}", *(f"{name} {p.seconds() * 1e3:.4f}" for name, p in programs.items()), sep="  ", flush=True)


def elsewhere(program: cuda.Program) -> None:
    """Launches every step of a program once on a stream of its own."""
    own, program.stream = program.stream, library("cupy").cuda.Stream(non_blocking=True)
    try:
        program.enqueue()
        program.stream.synchronize()
    finally:
        program.stream = own


if __name__ == "__main__":
    main()
