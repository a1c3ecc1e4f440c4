"""Signatures of the benchmark networks, and their measurement on a GPU.

    python bench/gpu_measure.py collect --recipes DIR --out signatures.jsonl
    python bench/gpu_measure.py measure --signatures signatures.jsonl --out costs.jsonl [--seconds S] [--choices FILE]

The second needs no e-graph engine: it is what ``egraph-opt costs measure`` does, for machines with little else than a
GPU.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path

from egraph_opt.runtime import Signature, cuda
from egraph_opt.runtime.cuda.measure import measure, read_signatures, scope_here, write_signatures

_GRAPHS = 5
"""How many graphs of a pool count: the original, the cheapest and a few more."""


def collect(folder: Path, out: Path) -> None:
    """The signatures of every network, as it is and optimized, in both dtypes; those of many nodes first."""
    import models
    import onnx_ir
    import recipes

    from egraph_opt.onnx_io import import_model

    counts: dict[Signature, int] = {}
    for name in recipes.EIGHT:
        for dtype in ("float32", "float16"):
            model = models.build(name, dtype=dtype)
            graphs = [import_model(onnx_ir.from_proto(model)).graph]
            pool = folder / f"{name}.{dtype}.json.gz"
            if pool.exists():
                records = json.loads(gzip.decompress(pool.read_bytes()))
                graphs += [recipes.load(record, model) for record in records[:_GRAPHS]]
            for graph in graphs:
                moving = {i for i in graph.live() if graph.nodes[i].op == "Input"}
                for index in graph.live():  # expressions over weights are folded before anything runs
                    if moving.intersection(graph.nodes[index].operands):
                        moving.add(index)
                        found = Signature.of(graph, index)
                        still = tuple(i not in moving for i in graph.nodes[index].operands)
                        found = Signature(found.op, found.attrs, found.types, still)
                        counts[found] = counts.get(found, 0) + 1
    ordered = sorted(counts, key=lambda s: (-counts[s], s.key))
    print(write_signatures(out, ordered), "signatures")


def run(signatures: Path, out: Path, seconds: float, choices: Path | None, fast: bool) -> None:
    """Measures until the time is up; writes the scope, then one (signature, seconds, layout, note) a line."""
    tuner = cuda.Tuner(cuda.Choices(choices))
    end, scope = time.monotonic() + seconds, scope_here(fast)
    print(scope.device, scope.versions, flush=True)
    known = 0
    with out.open("w") as file:
        file.write(json.dumps([scope.device, scope.versions]) + "\n")
        wanted = read_signatures(signatures)
        for key, entry in measure(wanted, tuner, fast=fast, deadline=lambda: time.monotonic() > end):
            file.write(json.dumps([key, entry.seconds, entry.layout, entry.note]) + "\n")
            file.flush()
            known += entry.seconds is not None
    tuner.choices.save()
    print(f"{known} of {len(wanted)} signatures measured")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("collect", "measure"))
    parser.add_argument("--recipes", type=Path)
    parser.add_argument("--signatures", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--choices", type=Path)
    parser.add_argument("--fast", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "collect":
        collect(arguments.recipes, arguments.out)
    else:
        run(arguments.signatures, arguments.out, arguments.seconds, arguments.choices, arguments.fast)


if __name__ == "__main__":
    main()
