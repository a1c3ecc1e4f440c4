"""The zoo's models through the GPU executor, against ONNX Runtime on the CPU.

    python bench/gpu_zoo.py prepare ZOO --out DIR      # anywhere: sizes, feeds and ONNX Runtime's outputs
    python bench/gpu_zoo.py run ZOO --out DIR          # on a GPU: runs what it accepts, says why not the others

Errors are relative: the norm of the difference over the norm of the output, the worst of all outputs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import onnx_ir
import zoo_models

from egraph_opt.errors import EgraphOptError

TOLERANCE = 2e-3


def prepare(path: Path, out: Path) -> str:
    """Writes feeds and outputs of one model; returns what there is to say."""
    import onnxruntime as ort

    from egraph_opt.onnx_io import import_model
    from egraph_opt.pipeline.sizes import measured_sizes, observe_sizes
    from egraph_opt.runtime.cuda import make_plan
    from egraph_opt.verification.feeds import random_feeds

    proto = zoo_models.load(path)
    model = onnx_ir.from_proto(proto)
    graph = import_model(model).graph
    sizes, _ = observe_sizes(model, graph, measured_sizes(model, {}))
    feeds = random_feeds(model, sizes, 0)
    wanted = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, dict(feeds))
    arrays = {f"feed:{k}": v for k, v in feeds.items()} | {f"out:{i}": np.asarray(v) for i, v in enumerate(wanted)}
    np.savez_compressed(out / f"{path.stem}.npz", sizes=json.dumps(sizes), **arrays)  # type: ignore[arg-type]
    return f"{len(make_plan(graph, sizes, exact=True).steps)} steps"


def run(path: Path, out: Path) -> str:
    """Runs one model and compares."""
    from egraph_opt.runtime import cuda

    stored = np.load(out / f"{path.stem}.npz")
    feeds = {name[5:]: stored[name] for name in stored.files if name.startswith("feed:")}
    program = cuda.compile(zoo_models.load(path), sizes=json.loads(str(stored["sizes"])))
    got, worst = list(program.run(feeds).values()), 0.0
    for number, value in enumerate(got):
        wanted = stored[f"out:{number}"].astype(np.float64)
        difference = np.linalg.norm(value.astype(np.float64) - wanted)
        worst = max(worst, float(difference / max(np.linalg.norm(wanted), 1e-30)))
    state = "ok" if worst < TOLERANCE else "WRONG"
    return f"{state}  error {worst:.1e}  {program.seconds(replays=10, rounds=3) * 1e3:.3f} ms"


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
