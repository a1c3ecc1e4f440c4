"""One step of ``peers.py`` in a process of its own: ``make``, ``judge`` or ``race``; prints its answer as JSON."""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import onnx
import packs
from peer_tools import PEERS
from zoo_models import SHAPES, load, zoo_folder

SAMPLES, SECONDS = 100, 8.0
"""Of each model in a race, and of a whole race."""


def original(key: str) -> tuple[onnx.ModelProto, dict[str, tuple[int, ...]]]:
    """The model called ``kind:name``, and the shapes at which it is measured."""
    kind, name = key.split(":", 1)
    if kind == "pack":
        return packs.build(name), {}
    return load(zoo_folder() / f"{name}.onnx"), SHAPES.get(name, {})


def make(key: str, tool: str, out: str) -> dict[str, Any]:
    """Optimizes a model and writes the result."""
    model, shapes = original(key)
    importlib.import_module({"egraph-opt": "egraph_opt", "ort-all": "onnxruntime"}.get(tool, tool))
    given = model.SerializeToString()
    start = time.perf_counter()
    try:
        made = _ours(model, shapes) if tool == "egraph-opt" else PEERS[tool](model)
        seconds = time.perf_counter() - start
        onnx.save(made, out)
    except Exception as error:  # a tool may fail in any way; that is a result
        return {"fault": f"crash: {type(error).__name__}: {' '.join(str(error).split())[:160]}"}
    nodes = [_nodes(onnx.load_model_from_string(given).graph), _nodes(made.graph)]
    return {"seconds": seconds, "nodes": nodes, "same": made.SerializeToString() == given, "fault": ""}


def _ours(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    from egraph_opt import optimize

    result = optimize(model, measure_shapes=shapes)
    assert isinstance(result.model, onnx.ModelProto)
    return result.model if result.changed else model


def _nodes(graph: onnx.GraphProto) -> int:
    """Nodes, those of subgraphs included."""
    bodies = (a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH)
    return len(graph.node) + sum(_nodes(body) for body in bodies)


def judge(key: str, tool: str, out: str) -> dict[str, Any]:
    """What is wrong with a result; an empty fault if nothing is."""
    from egraph_opt.onnx_io import to_ir
    from egraph_opt.verification import verify

    before, shapes = original(key)
    after = onnx.load(out)
    try:
        onnx.checker.check_model(after, full_check=all(o.domain in ("", "ai.onnx") for o in after.opset_import))
    except Exception as error:
        if tool != "ort-all":  # which may write operators that only ONNX Runtime has a schema for
            return {"fault": f"invalid: {type(error).__name__}"}
    if before.ir_version < 4:  # weights are inputs by name only; tools that raise the version may leave them or not
        before, after = _without_weight_inputs(before), _without_weight_inputs(after)
    sizes = _sizes(to_ir(before), shapes)
    verdict = verify(to_ir(before), to_ir(after), sizes=sizes, time_limit=30)
    return {"fault": "" if verdict.equivalent else f"{verdict.kind}: {verdict.reason}"[:200]}


def _without_weight_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    stored = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in stored]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    return model


def _sizes(model: Any, shapes: dict[str, tuple[int, ...]]) -> list[Any]:
    from egraph_opt.pipeline.sizes import measured_sizes
    from egraph_opt.verification import alternative_sizes

    first = measured_sizes(model, shapes)
    return [first, *alternative_sizes(model, first)] if first else []


def race(key: str, *made: str) -> dict[str, Any]:
    """Latency ratios of results, by tool, against the original."""
    from egraph_opt.onnx_io import to_ir
    from egraph_opt.pipeline.sizes import measured_sizes
    from egraph_opt.runtime import race as run_race
    from egraph_opt.verification import random_feeds

    before, shapes = original(key)
    model = to_ir(before)
    racers: dict[str, bytes | Path] = {"original": before.SerializeToString()}
    racers |= {Path(path).stem: onnx.load(path).SerializeToString() for path in made}
    feeds = random_feeds(model, measured_sizes(model, shapes))
    timed = run_race(racers, feeds, samples=SAMPLES, budget_seconds=SECONDS)
    laps = {lap.name: {"ratio": lap.ratio, "median": lap.median_ratio} for lap in timed.laps[1:]}
    return {"laps": laps, "spread": timed.spread, "milliseconds": timed.laps[0].b10 * 1e3}


def main() -> None:
    step, *arguments = sys.argv[1:]
    answer = {"make": make, "judge": judge, "race": race}[step](*arguments)
    print("\n" + json.dumps({"answer": answer}), flush=True)


if __name__ == "__main__":
    main()
