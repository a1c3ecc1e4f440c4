"""Random graphs, saturated with the shipped rules: every e-node must compute what its class stands for.

    python bench/fuzz.py [--graphs 500] [--seed 0] [--effort standard|thorough] [--json FILE]

Every rule of the effort is planted in its turn. One graph in four is saturated with exact rules alone and compared bit
by bit; float32 graphs also run in ONNX Runtime.
A disagreement is shrunk and printed with the rules that are needed for it. Exit status 1 where there is any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import onnx_ir
import onnxruntime as ort
from fuzz_check import Array, Feeds, Found, Semantics, check, described, evaluate, narrowest, shrink
from fuzz_graphs import random_array, random_graph

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.ir import evaluate as size_of
from egraph_opt.onnx_io import export_graph, import_model, needed_opset
from egraph_opt.rewrites import Effort, Rule
from egraph_opt.rewrites.library import all_rules, select_rules

OLDEST_OPSET, NEWEST_OPSET = 13, 26
SYMBOLS = (3, 5)
"""Numbers that a symbolic size stands for."""
RUNTIME_TOLERANCE = 2e-3


@dataclass
class Totals:
    """Counts over all graphs."""

    graphs: int = 0
    exact: int = 0
    symbolic: int = 0
    enodes: int = 0
    extracted: int = 0
    ran: int = 0
    opaque: Counter[str] = field(default_factory=Counter[str])
    operators: Counter[str] = field(default_factory=Counter[str])
    fired: Counter[str] = field(default_factory=Counter[str])
    runtime: list[str] = field(default_factory=list[str])
    faults: list[str] = field(default_factory=list[str])


def main() -> None:
    """Fuzzes and prints the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--effort", choices=get_args(Effort), default="standard", help="thorough: every rule")
    parser.add_argument("--json")
    chosen = parser.parse_args()
    start = time.monotonic()
    rules = all_rules(chosen.effort)
    totals = fuzz(rules, chosen.graphs, chosen.seed, first=chosen.first, say=lambda text: print(text, flush=True))
    silent = sorted(r.name for r in rules if r.name not in totals.fired)
    counts = {
        "graphs": totals.graphs,
        "of them with exact rules": totals.exact,
        "of them with a symbolic size": totals.symbolic,
        "operators that occurred": len(totals.operators),
        "e-nodes tried": totals.enodes,
        "extracted": totals.extracted,
        "ran in ONNX Runtime": totals.ran,
        "rules that fired": f"{len(rules) - len(silent)} of {len(rules)}",
        "differences of ONNX Runtime": len(totals.runtime),
        "disagreements": len(totals.faults),
        "seconds": round(time.monotonic() - start, 1),
    }
    print("\n".join(f"{name}: {value}" for name, value in counts.items()))
    print(f"rules that never fired: {', '.join(silent) or 'none'}")
    print(f"operators that came back opaque: {dict(totals.opaque) or 'none'}")
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as out:
            json.dump(counts | {"silent rules": silent, "faults": totals.faults}, out, indent=1)
    sys.exit(1 if totals.faults else 0)


def fuzz(rules: Sequence[Rule], graphs: int, seed: int, *, first: int = 0, say=print) -> Totals:
    """Graphs number ``first`` and on of a seed; each depends on the seed and its number alone."""
    totals, exact = Totals(), select_rules(rules, "exact")
    for number in range(first, first + graphs):
        try:
            one(rules, exact, seed, number, totals, say)
        except Exception as error:  # noqa: BLE001 - whichever it is, the number of the graph must be known
            totals.faults.append(f"graph {number}: {error!r}")
            say(totals.faults[-1])
    return totals


def one(rules: Sequence[Rule], exact: Sequence[Rule], seed: int, number: int, totals: Totals, say) -> None:
    """One graph: through ONNX and back, saturated, tried."""
    rng = np.random.default_rng([seed, number])
    bits = number % 4 == 3
    loaded = exact if bits else rules
    turn = number // 4 if bits else number - number // 4  # every rule has its turn among either kind of graphs
    graph = random_graph(rng, loaded, loaded[turn % len(loaded)] if loaded else None)
    graph, lost = through_onnx(graph)
    totals.opaque.update(lost)
    if lost:
        return
    totals.operators.update(graph.nodes[i].op for i in graph.live())
    feeds = list(feeds_of(graph, rng))
    totals.graphs += 1
    totals.exact += bits
    totals.symbolic += any(sizes for sizes, _ in feeds)
    found = check(graph, loaded, feeds, exact=bits)
    totals.enodes += found.enodes
    totals.extracted += found.extracted
    totals.fired.update(found.fired)
    if found.faults:
        totals.faults.append(report(graph, loaded, seed, number, found, bits))
        say(totals.faults[-1])
    elif narrowest(graph) == "float32" and feeds and not feeds[-1][0]:
        said = in_runtime(graph, found, feeds[-1][1], totals)
        totals.runtime += [f"graph {number}: {s}" for s in said]
        for text in said:
            say(f"graph {number}: {text}\n{described(graph)}")


def through_onnx(graph: TensorGraph) -> tuple[TensorGraph, Counter[str]]:
    """The graph written as ONNX and read back, and the operators that were not understood."""
    imported = import_model(as_model(graph))
    return imported.graph, Counter(op for op, _ in imported.opaque)


def as_model(graph: TensorGraph) -> onnx_ir.Model:
    """A graph as ONNX, at the lowest opset that fits; outputs are called y0, y1..."""
    inputs = [(str(n.attrs[0]), t) for n, t in zip(graph.nodes, graph.types, strict=True) if n.op == "Input"]
    names = [f"y{i}" for i in range(len(graph.outputs))]
    opset = needed_opset(graph, OLDEST_OPSET)
    return export_graph(graph, [(n, t) for n, t in inputs if isinstance(t, TensorType)], names, opset=opset)


def feeds_of(graph: TensorGraph, rng: np.random.Generator) -> list[tuple[Mapping[str, int], Feeds]]:
    """Signed and positive inputs, at every number of ``SYMBOLS`` where there is a symbol."""
    inputs = [
        (str(n.attrs[0]), t)
        for n, t in zip(graph.nodes, graph.types, strict=True)
        if n.op == "Input" and isinstance(t, TensorType)
    ]
    sizes = [{"N": n} for n in SYMBOLS] if any(not t.is_static for _, t in inputs) else [dict[str, int]()]
    made: list[tuple[Mapping[str, int], Feeds]] = []
    for chosen in sizes:
        for positive in (False, True):
            fed: dict[str, Array] = {}
            for name, type_ in inputs:
                numbers = tuple(size_of(s, chosen) for s in type_.shape)
                array = random_array(rng, TensorType(type_.dtype, numbers))
                above = positive and type_.dtype != "bool"
                fed[name] = np.asarray(np.abs(array) + np.array(1, array.dtype)) if above else array
            if _runs(graph, chosen, fed):
                made.append((chosen, fed))
    return made


def _runs(graph: TensorGraph, sizes: Mapping[str, int], feeds: Feeds) -> bool:
    """Whether the graph has a value at these sizes (a window may not fit into a symbolic axis, say)."""
    try:
        evaluate(graph, Semantics(False, 0.0, sizes), feeds)
    except (ValueError, IndexError):
        return not sizes
    return True


def report(graph: TensorGraph, rules: Sequence[Rule], seed: int, number: int, found: Found, exact: bool) -> str:
    """A disagreement as a case that can be repeated: the smallest graph, the rules that are needed, the fault."""

    def faults(smaller: TensorGraph, fewer: Sequence[Rule]) -> Found:
        feeds = feeds_of(smaller, np.random.default_rng([seed, number]))
        return check(smaller, fewer, feeds, exact=exact)

    def fails(smaller: TensorGraph, fewer: Sequence[Rule]) -> bool:
        try:
            return bool(faults(smaller, fewer).faults)
        except Exception:  # noqa: BLE001 - a smaller graph that cannot be tried is no smaller case
            return False

    small, guilty = (graph, tuple(rules))
    if fails(graph, rules):
        small, guilty = shrink(graph, rules, fails)
        found = faults(small, guilty)
    fault = found.faults[0]
    names = ", ".join(r.name for r in guilty) if len(guilty) < 20 else f"{len(guilty)} rules"
    return (
        f"DISAGREEMENT: --seed {seed} --first {number} --graphs 1{' (exact rules)' if exact else ''}\n"
        f"  e-node {fault.enode}: {fault.what}\n  needs the rules {names or 'none at all'}\n{described(small)}"
    )


def in_runtime(graph: TensorGraph, found: Found, feeds: Feeds, totals: Totals, most: int = 2) -> list[str]:
    """What ONNX Runtime makes of a graph and of graphs extracted for its roots, held against float64."""
    meaning = Semantics(False, RUNTIME_TOLERANCE)
    said: list[str] = []
    step = max(len(found.graphs) // most, 1)
    for name, candidate in [("original", graph), *(("extracted", g) for g in found.graphs[::step][:most])]:
        try:
            got = run(candidate, feeds)
        except Exception:  # noqa: BLE001 - as above
            if candidate is graph:
                return []  # ONNX Runtime does not take all that the specification allows
            raise
        if got is None:
            continue
        totals.ran += 1
        values = evaluate(candidate, meaning, feeds)
        for index, array in zip(candidate.outputs, got, strict=True):
            wanted = values[index]
            what = meaning.differs(wanted, meaning.load(np.asarray(array)), strict=False)
            if what:
                said.append(f"ONNX Runtime on the {name} graph {what}")
    return said


def run(graph: TensorGraph, feeds: Feeds) -> list[Array] | None:
    """Outputs in ONNX Runtime without optimizations; None where it has no kernel for an operator."""
    model = onnx_ir.to_proto(as_model(graph)).SerializeToString()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors have no common base class
        if "NOT_IMPLEMENTED" in str(error) or "Could not find an implementation" in str(error):
            return None
        raise
    return [np.asarray(v) for v in session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()})]


if __name__ == "__main__":
    main()
