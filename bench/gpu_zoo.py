"""The zoo's models through the GPU executor, against ONNX Runtime on the CPU.

    python bench/gpu_zoo.py prepare ZOO --out DIR      # anywhere: sizes, feeds and ONNX Runtime's outputs
    python bench/gpu_zoo.py run ZOO --out DIR          # on a GPU: runs what it accepts, says why not the others

Errors are relative: the norm of the difference over the norm of the output, the worst of all outputs. What differs
from ONNX Runtime is right if it is nearer than that to what the operator table computes in float64.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import zoo_models

from egraph_opt.errors import EgraphOptError
from egraph_opt.ir import TensorGraph
from egraph_opt.ops import operator

TOLERANCE = 2e-3


def prepare(path: Path, out: Path) -> str:
    """Writes feeds and outputs of one model; returns what there is to say."""
    import onnxruntime as ort

    from egraph_opt.onnx_io import import_model
    from egraph_opt.pipeline.sizes import measured_sizes, observe_sizes
    from egraph_opt.runtime.cuda import make_plan
    from egraph_opt.runtime.cuda.lower import lowered
    from egraph_opt.verification.feeds import random_feeds

    proto = zoo_models.load(path)
    model = onnx_ir.from_proto(proto)
    graph = import_model(model).graph
    sizes, _ = observe_sizes(model, graph, measured_sizes(model, {}))
    feeds = random_feeds(model, sizes, 0)
    wanted = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, dict(feeds))
    exact = in_float64(lowered(graph, sizes), feeds)
    arrays = {f"exact:{i}": value for i, value in enumerate(exact)}
    arrays |= {f"feed:{k}": v for k, v in feeds.items()} | {f"out:{i}": np.asarray(v) for i, v in enumerate(wanted)}
    np.savez_compressed(out / f"{path.stem}.npz", sizes=json.dumps(sizes), **arrays)  # type: ignore[arg-type]
    return f"{len(make_plan(graph, sizes, exact=True).steps)} steps"


def run(path: Path, out: Path) -> str:
    """Runs one model and compares."""
    from egraph_opt.runtime import cuda

    stored = np.load(out / f"{path.stem}.npz")
    feeds = {name[5:]: stored[name] for name in stored.files if name.startswith("feed:")}
    program = cuda.compile(zoo_models.load(path), sizes=json.loads(str(stored["sizes"])))
    got, worst, right = list(program.run(feeds).values()), 0.0, True
    for number, value in enumerate(got):
        wanted, exact = stored[f"out:{number}"], stored[f"exact:{number}"]
        worst = max(worst, error(value, wanted))
        right = right and (error(value, wanted) < TOLERANCE or error(value, exact) <= error(wanted, exact))
    ms = program.seconds(replays=10, rounds=3) * 1e3
    return f"{'ok' if right else 'WRONG'}  error {worst:.1e}  {ms:.3f} ms"


def error(value: np.ndarray, wanted: np.ndarray) -> float:
    """The norm of the difference over the norm of ``wanted``."""
    difference = np.linalg.norm(value.astype(np.float64) - wanted.astype(np.float64))
    return float(difference / max(float(np.linalg.norm(wanted.astype(np.float64))), 1e-30))


def in_float64(graph: TensorGraph, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a lowered graph by the operator table, its floats in float64."""
    values: dict[int, Any] = {}
    for index in graph.live():
        node = graph.nodes[index]
        if node.op in ("Input", "Const"):
            value: Any = feeds[str(node.attrs[0])] if node.op == "Input" else np.asarray(graph.value(index))
        else:
            value = operator(node.op).evaluate(node.attrs, [values[i] for i in node.operands])
        wide = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        values[index] = value.astype(np.float64) if wide else value
    return [values[output] for output in graph.outputs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "run"))
    parser.add_argument("zoo", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for path in zoo_models.files(arguments.zoo, small=True):
        try:
            said = prepare(path, arguments.out) if arguments.what == "prepare" else run(path, arguments.out)
        except (EgraphOptError, OSError) as problem:
            said = f"refused: {str(problem)[:150]}"
        except Exception as problem:  # noqa: BLE001 - a fault of one model must not hide the others
            said = f"FAILED  {type(problem).__name__}: {str(problem)[:150]}"
        print(f"{path.stem:50} {said}", flush=True)


if __name__ == "__main__":
    main()
