"""E4: substitutions only, layout only, one after the other, and both at once, on bert-base (the same 12 layers in all).

    python bench/gpu_layout.py --pool DIR [--name bert-base] [--numerics fp16,tf32] [--choices FILE] [--json FILE]
    python bench/gpu_layout.py --estimate [--name bert-base] [--numerics fp16,fp32]

A layout here is how an operand of a product lies: weights as (K, N) or (N, K), results as their readers want them. The
strategies pick from one pool of equal graphs (bench/recipes.py), by the estimate from measured steps:

    substitutions   the best graph where nothing is laid out, run like that
    layout          the original graph, laid out
    sequential      the best graph where nothing is laid out, then laid out
    joint           the best graph of all when each is laid out

The few best by estimate are run, and the fastest counts: what an optimizer that races its candidates returns. TASO's
own figures (its artefact; V100, ms): 3.67, 3.17, 3.16, 2.77, the last on 9 layers and the others on 12.

``--estimate`` needs no GPU: the strategies of ``pipeline.layouts``, in which layouts are e-nodes, on one e-graph of the
network, each by the least estimate from the measured steps of an H100 among the graphs that it proposes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import models
import onnx
import recipes

from egraph_opt.ir import TensorGraph
from egraph_opt.runtime import cuda

TRIED = 5


def estimated(graph: TensorGraph, layouts: bool, fast: bool, tuner: cuda.Tuner) -> cuda.Program:
    """The graph as a program, whose schedule says what it should take."""
    plan = cuda.make_plan(graph, exact=not fast, layouts=layouts)
    names = tuple(f"output{i}" for i in range(len(plan.outputs)))
    return cuda.Program(plan, names, fast=fast, tuner=tuner, layouts=layouts)


def strategies(
    model: onnx.ModelProto, records: list[recipes.Record], fast: bool, tuner: cuda.Tuner
) -> dict[str, tuple[float, str]]:
    """Milliseconds by strategy, and which graph it was."""
    graphs = [recipes.load(record, model) for record in records]
    order: dict[bool, list[int]] = {}
    for layouts in (False, True):
        expected = [estimated(graph, layouts, fast, tuner).schedule.seconds for graph in graphs]
        order[layouts] = sorted(range(len(graphs)), key=expected.__getitem__)[:TRIED]

    def best(numbers: list[int], chosen: bool, run: bool) -> tuple[float, str]:
        """Races ``numbers`` with or without layouts; the time of the winner as it is run in the end."""

        def ms(number: int, layouts: bool) -> float:
            return estimated(graphs[number], layouts, fast, tuner).seconds() * 1e3

        winner = min(numbers, key=lambda number: ms(number, chosen))
        return ms(winner, run), f"{winner}: {records[winner]['why']}"

    return {
        "original": best([0], False, False),
        "substitutions": best(order[False], False, False),
        "layout": best([0], True, True),
        "sequential": best(order[False], False, True),
        "joint": best(list(dict.fromkeys([*order[True], *order[False], 0])), True, True),
    }


def estimates(name: str, dtype: str) -> Iterator[tuple[str, float, float]]:
    """Strategy, estimated milliseconds, and CPU seconds of its extractions."""
    import onnx_ir

    from egraph_opt.pipeline import Options, Run
    from egraph_opt.pipeline.layouts import Strategy

    model = onnx_ir.from_proto(models.build(name, dtype=dtype))
    proposer = Run(model, Options(target="cuda:h100")).chooser().proposer
    if proposer.layouts is None:
        raise SystemExit(f"no value of {name} may lie in two orders")
    for strategy in get_args(Strategy):
        begin = time.process_time()
        drawn = replace(proposer, layouts=replace(proposer.layouts, strategy=strategy))
        found = min([drawn.original(), *(p.estimated for p in drawn.proposals(TRIED))])
        yield strategy, found * 1e3, time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--pool", type=Path)
    source.add_argument("--estimate", action="store_true", help="without a GPU")
    parser.add_argument("--name", default="bert-base")
    parser.add_argument("--numerics", default="fp16,tf32")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--choices", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.estimate:
        for numerics in arguments.numerics.split(","):
            dtype = "float16" if numerics == "fp16" else "float32"
            for strategy, ms, seconds in estimates(arguments.name, dtype):
                print(f"{arguments.name} {dtype} {strategy:14} {ms:.4f} ms estimated, {seconds:.1f} s", flush=True)
        return
    print(cuda.machine(), flush=True)
    tuner, rows = cuda.Tuner(cuda.Choices(arguments.choices)), dict[str, dict[str, tuple[float, str]]]()
    for numerics in arguments.numerics.split(","):
        dtype = "float16" if numerics == "fp16" else "float32"
        path = arguments.pool / f"{arguments.name}.{dtype}.json.gz"
        records = json.loads(gzip.decompress(path.read_bytes()))[: arguments.count]
        model = models.build(arguments.name, dtype=dtype)
        rows[numerics] = strategies(model, records, numerics == "tf32", tuner)
        for strategy, (ms, which) in rows[numerics].items():
            print(f"{arguments.name} {numerics} {strategy:14} {ms:.4f} ms  graph {which}", flush=True)
        tuner.choices.save()
        if arguments.json:
            arguments.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
