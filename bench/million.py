"""A million e-nodes: seconds and memory from the JSON file to a checked answer.

    python bench/million.py [--nodes 1000000] [--extractor dag-greedy] [--time-limit S] [--seed 0] [--json FILE]

The e-graph is made up, in the shape of saturated ones: three e-nodes per class on average with few classes that have
many, operands mostly close by and a few shared by very many, one operand in fifty that leads back up and so closes
cycles, a fifth of the e-nodes free. It is written by one process and read by another, whose peak memory counts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
from pathlib import Path

from egraph_opt.egraph import read_egraph
from egraph_opt.extraction import extract


def write_random_egraph(path: Path, node_count: int, seed: int) -> None:
    """Writes an e-graph of about ``node_count`` e-nodes to ``path``, e-node by e-node."""
    rng = random.Random(seed)
    class_count = max(node_count // 3, 2)
    hubs = max(class_count // 1000, 1)
    with path.open("w", encoding="utf-8") as file:
        file.write('{"nodes": {\n')
        for cls in range(class_count):
            for index in range(min(1 + int(rng.expovariate(0.42)), 40) if cls else 1):
                record = {
                    "op": f"op{rng.randrange(60)}",
                    "children": [f"{child}.0" for child in _operands(rng, cls, index, class_count, hubs)],
                    "eclass": str(cls),
                    "cost": 0.0 if rng.random() < 0.2 else round(rng.lognormvariate(0.0, 1.0), 4),
                }
                comma = "" if not cls and not index else ",\n"
                file.write(f'{comma}"{cls}.{index}": {json.dumps(record)}')
        roots = [str(class_count - 1 - step) for step in range(min(8, class_count))]
        file.write(f'\n}}, "root_eclasses": {json.dumps(roots)}, "class_data": {{}}}}\n')


def _operands(rng: random.Random, cls: int, index: int, class_count: int, hubs: int) -> list[int]:
    """One class close below ``cls``, others there or shared by many; above it now and then, if not the first e-node."""
    operands: list[int] = []
    for position in range(rng.choice((1, 1, 2, 2, 2, 3)) if cls else 0):
        kind = rng.random()
        if kind < 0.02 and index:
            operands.append(min(cls + int(rng.expovariate(0.1)), class_count - 1))
        elif kind < 0.3 and position:
            operands.append(rng.randrange(min(hubs, cls)))
        else:
            operands.append(max(cls - 1 - int(rng.expovariate(0.1)), 0))
    return operands


def main() -> None:
    """Writes, reads and extracts, and prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--extractor", default="dag-greedy")
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.json"
        writer = multiprocessing.get_context("spawn").Process(
            target=write_random_egraph, args=(path, given.nodes, given.seed)
        )
        writer.start()
        writer.join()
        figures: dict[str, object] = {"file MB": round(path.stat().st_size / 1e6, 1)}
        started = time.perf_counter()
        stored = read_egraph(path)
        loaded = time.perf_counter()
    figures |= {
        "e-nodes": stored.egraph.node_count,
        "classes": stored.egraph.class_count,
        "load s": round(loaded - started, 2),
        "load peak GB": _peak_gb(),
    }
    found = extract(stored.egraph, stored.costs, extractor=given.extractor, time_limit=given.time_limit)
    figures |= {
        "extractor": found.extractor,
        "extract s": round(time.perf_counter() - loaded, 2),
        "stages s": {stage: round(seconds, 2) for stage, seconds in found.seconds.items()},
        "cost": found.cost,
        "lower bound": found.lower_bound,
        "selected e-nodes": int((found.selection.choice >= 0).sum()),
        "peak GB": _peak_gb(),
    }
    for name, value in figures.items():
        print(f"{name:18} {value}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


def _peak_gb() -> float:
    """Peak resident memory of this process so far, in 10^9 bytes (Linux counts in KiB)."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2)


if __name__ == "__main__":
    main()
