"""Public bugs of ONNX optimizers as small graphs: which tool breaks which, and which structural goals it reaches.

    python bench/faults.py [PATTERN] [--tools egraph-opt,onnxsim,...] [--cases FILE] [--json FILE]

Each tool gets each graph in a process of its own. Faults: it crashes (or does not end), the result is no valid model,
other inputs or outputs, values that differ from ONNX Runtime without optimization (from ONNX's reference where that
runtime is itself unfaithful), a random node folded, a quantized weight lost, a file that grows.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
from peer_tools import PEERS, is_installed
from rich.console import Console
from rich.table import Table

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "bug_cases.py"
PATIENCE = 180.0
"""Seconds for one tool and graph."""
OURS = "egraph-opt"
GOOD = "good"


def optimized(tool: str, proto: onnx.ModelProto) -> onnx.ModelProto:
    """What a tool makes of a model."""
    if tool != OURS:
        return PEERS[tool](proto)
    from egraph_opt import optimize

    model = optimize(proto, target="analytic").model
    assert isinstance(model, onnx.ModelProto)
    return model


def load_cases(path: Path) -> ModuleType:
    """The module with the graphs."""
    spec = importlib.util.spec_from_file_location("bug_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge(cases: Any, name: str, before: onnx.ModelProto, after: onnx.ModelProto) -> tuple[str, bool | None]:
    """The first fault of a result, or that it is good; and whether its structural goal is reached, if it has one."""
    goal = cases.GOALS.get(name)
    reached = None if goal is None else bool(goal(after))
    try:
        onnx.checker.check_model(after, full_check=all(o.domain in ("", "ai.onnx") for o in after.opset_import))
        if _signature(before) != _signature(after):
            return "signature", reached
        for feed in cases.feeds(name, before):
            faithful = name not in cases.REFERENCE_ORACLE
            wanted, found = (_run(m, feed, faithful=faithful) for m in (before, after))
            if not all(_same(a, b) for a, b in zip(wanted, found, strict=True)):
                return "wrong", reached
    except Exception as error:  # whatever stops a result from running is a fault of the result
        return f"invalid: {type(error).__name__}", reached
    if name in cases.MUST and not reached:
        return cases.MUST[name].lower(), reached
    return GOOD, reached


def _signature(model: onnx.ModelProto) -> tuple[object, ...]:
    inputs = [(i.name, i.type.tensor_type.elem_type) for i in model.graph.input]
    return inputs, [(o.name, o.type.tensor_type.elem_type) for o in model.graph.output]


def _run(model: onnx.ModelProto, feed: dict[str, Any], *, faithful: bool) -> list[Any]:
    if not faithful:
        return list(ReferenceEvaluator(model).run(None, feed))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feed))


def _same(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return (
        bool(np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)) if a.dtype.kind == "f" else np.array_equal(a, b)
    )


def _child(pipe: Connection, tool: str, name: str, path: Path) -> None:
    cases = load_cases(path)
    before = cases.CASES[name][0]()
    try:
        after = optimized(tool, cases.CASES[name][0]())
    except Exception as error:  # a tool may fail in any way; that is a result
        pipe.send((f"crash: {type(error).__name__}", None))
        return
    pipe.send(judge(cases, name, before, after))


def verdict(tool: str, name: str, path: Path) -> tuple[str, bool | None]:
    """One tool on one graph, in a process of its own."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_child, args=(there, tool, name, path), daemon=True)
    process.start()
    there.close()
    try:
        found: tuple[str, bool | None] = here.recv() if here.poll(PATIENCE) else ("does not end", None)
    except EOFError:
        process.join()
        found = (f"crash: exit {process.exitcode}", None)
    process.kill()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="?", default="", help="only graphs whose name contains this")
    parser.add_argument("--tools", default=",".join((OURS, *PEERS)))
    parser.add_argument("--cases", type=Path, default=CASES, help="module with CASES, GOALS, MUST and feeds()")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not arguments.cases.exists():
        parser.exit(0, f"skipped: {arguments.cases} is not here; name a module of cases with --cases\n")
    tools = [t for t in arguments.tools.split(",") if t == OURS or is_installed(t)]
    cases = load_cases(arguments.cases)
    names = [n for n in cases.CASES if arguments.pattern in n]
    pairs = [(tool, name) for name in names for tool in tools]
    with ThreadPoolExecutor(arguments.jobs) as pool:  # threads wait; the work is in the processes
        found = dict(zip(pairs, pool.map(lambda p: verdict(p[0], p[1], arguments.cases), pairs), strict=True))
    if arguments.json:
        plain = {tool: {name: found[tool, name] for name in names} for tool in tools}
        arguments.json.write_text(json.dumps(plain, indent=1) + "\n")
    show(tools, names, found, cases)


def show(tools: list[str], names: list[str], found: dict[tuple[str, str], tuple[str, bool | None]], cases: Any) -> None:
    """Graphs that some tool breaks or some goal misses, then the counts."""
    table = Table("graph", *tools, title=f"{len(names)} graphs from public bug reports")
    for name in names:
        cells = [_cell(*found[tool, name]) for tool in tools]
        if any(cells):
            table.add_row(name, *cells)
    faults = {tool: Counter(found[tool, n][0].split(":")[0] for n in names) for tool in tools}
    goals = [n for n in names if n in cases.GOALS]
    table.add_section()
    table.add_row("faults", *(str(len(names) - faults[t][GOOD]) for t in tools))
    table.add_row("goals reached", *(f"{sum(bool(found[t, n][1]) for n in goals)} of {len(goals)}" for t in tools))
    Console(width=160).print(table)


def _cell(fault: str, reached: bool | None) -> str:
    missed = "goal missed" if reached is False else ""
    return ", ".join(part for part in ("" if fault == GOOD else f"[red]{fault}[/red]", missed) if part)


if __name__ == "__main__":
    main()
