"""Random ONNX models through the whole optimizer, in every form that nodes have: the result must compute the same.

    python bench/fuzz_models.py [--models 200] [--seed 0] [--first 0] [--keep DIR]

Opsets 9 to 22, numerics in turn, thorough effort for one in four, a symbolic size in half of them. Results are held
against ONNX Runtime without optimization, at several sizes, with inputs that the optimizer's own verification does not
see. A fault is a wrong or invalid result, a crash, and also a candidate that only the verification kept from being
taken. Exit status 1 where there is any.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np
import onnx
import onnx_layers  # noqa: F401 - its nodes register themselves
from onnx_draft import SYMBOL_SIZE, Array, Draft, RefusedError, Rng, run
from onnx_nodes import NODES

import egraph_opt
from egraph_opt import Outcome
from egraph_opt.pipeline import run as pipeline
from egraph_opt.saturation.worker import Job, saturate

OPSETS = (9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
SIZES = (SYMBOL_SIZE, 1, 2, 7)
MOST_NODES = 3000
"""E-nodes after which saturation ends."""
NUMERICS = ("standard", "exact", "fast")
TOLERANCES = {"float64": 1e-6, "float32": 1e-4, "float16": 3e-2}
SHAPES = (
    (SYMBOL_SIZE, 6),
    (SYMBOL_SIZE, 3, 6),
    (SYMBOL_SIZE, 3, 5, 6),
    (2, 3, 6),
    (6,),
    (1, 2, 6, 6),
    (SYMBOL_SIZE, 4, 6),
    (),
)


class Here:
    """Saturates in this process: a thousand models would spend their time on starting workers."""

    process = SimpleNamespace(kill=lambda: None, wait=lambda: 0)

    def begin(self, job: Job) -> BinaryIO:
        out = io.BytesIO()
        saturate(replace(job, limits=replace(job.limits, nodes=MOST_NODES)), out)
        out.seek(0)
        return out

    def close(self) -> None:
        return None

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        return None


@dataclass
class Totals:
    """Counts over all models."""

    models: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    nodes: Counter[str] = field(default_factory=Counter[str])
    rules: Counter[str] = field(default_factory=Counter[str])
    compared: int = 0
    faults: list[str] = field(default_factory=list[str])


Plan = Sequence[Sequence[str]]
"""Names of nodes, one of each group after the other."""
TRIES = 60


def planned_model(rng: Rng, plan: Plan) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of one node of each group, each on what the one before it made; raises RefusedError if none is found."""
    for _ in range(TRIES):
        draft = Draft(rng, int(rng.choice(OPSETS)), bool(rng.random() < 0.4), chained=True)
        kind = str(rng.choice(["float32", "float32", "float32", "float64", "float16"]))
        draft.input(rng.normal(size=SHAPES[int(rng.integers(len(SHAPES)))]).astype(kind))
        with suppress(RefusedError):
            for group in plan:
                NODES[str(rng.choice(list(group)))](draft)
            return draft.model(), {n: draft.values[n] for n in draft.inputs}
    raise RefusedError(f"no model of {plan}")


def random_model(rng: Rng) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model, and inputs at the sizes it was drawn at."""
    draft = Draft(rng, int(rng.choice(OPSETS)), bool(rng.random() < 0.5))
    kind = str(rng.choice(["float32"] * 6 + ["float64", "float16"]))
    for _ in range(int(rng.integers(1, 4))):
        shape = SHAPES[int(rng.integers(len(SHAPES)))]
        draft.input(rng.normal(size=shape).astype(kind) if rng.random() < 0.85 else rng.integers(-4, 5, shape))
    if not any(v.dtype.kind == "f" for v in draft.values.values()):
        draft.input(rng.normal(size=SHAPES[2]).astype(kind))
    names, wanted = list(NODES), int(rng.integers(3, 11))
    while sum(n.op_type != "Constant" for n in draft.nodes) < wanted:
        before = len(draft.nodes)
        try:
            NODES[names[int(rng.integers(len(names)))]](draft)
        except RefusedError:
            if rng.random() < 0.5:  # half a pattern is a graph too
                del draft.nodes[before:]
                made = {o for n in draft.nodes for o in n.output} | set(draft.inputs) | set(draft.stored)
                draft.values = {n: v for n, v in draft.values.items() if n in made}
    return draft.model(), {n: draft.values[n] for n in draft.inputs}


def feeds_at(model: onnx.ModelProto, given: dict[str, Array], size: int, rng: Rng) -> dict[str, Array]:
    """Other inputs than ``given``, with ``size`` for the symbol."""
    fed: dict[str, Array] = {}
    for info in model.graph.input:
        shape = [size if d.dim_param else d.dim_value for d in info.type.tensor_type.shape.dim]
        like = given[info.name]
        drawn = rng.normal(size=shape) if like.dtype.kind == "f" else rng.integers(-4, 5, shape)
        fed[info.name] = np.asarray(drawn).astype(like.dtype)
    return fed


def one(
    seed: int, number: int, totals: Totals, plan: Plan | None = None
) -> tuple[onnx.ModelProto, onnx.ModelProto | None, str]:
    """One model: what it was, what it became, and what is wrong; the latter is empty where nothing is."""
    rng = np.random.default_rng([seed, number])
    model, given = random_model(rng) if plan is None else planned_model(rng, plan)
    options: dict[str, Any] = {
        "numerics": NUMERICS[number % 3],
        "effort": "thorough" if number % 4 == 0 else "standard",
    }
    wanted: list[tuple[dict[str, Array], list[Array]]] = []
    symbolic = any(d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim)
    for size in SIZES if symbolic else SIZES[:1]:
        fed = feeds_at(model, given, size, rng)
        try:
            wanted.append((fed, run(model, fed)))
        except Exception:  # noqa: BLE001 - the model itself does not run at this size
            continue
    if not wanted:
        return model, None, ""
    said = model.SerializeToString()
    try:
        result = egraph_opt.optimize(model, target="analytic", measure=False, extractor="dag-greedy", **options)
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault
        return model, None, f"{options}: {traceback.format_exc()}"
    after, report = result.model, result.report
    assert isinstance(after, onnx.ModelProto)
    totals.models += 1
    totals.outcomes[str(report.outcome)] += 1
    totals.nodes.update(n.op_type for n in model.graph.node)
    totals.rules.update(report.rules)
    if model.SerializeToString() != said:
        return model, after, "the argument was changed"
    if report.outcome == Outcome.REJECTED or any("please report" in n for n in report.notes):
        return model, after, f"{options}: {report.reason} {report.notes} {report.verdict}"
    return model, after, differences(model, after, wanted, str(options), totals)


def differences(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    wanted: list[tuple[dict[str, Array], list[Array]]],
    said: str,
    totals: Totals,
) -> str:
    """The first way in which a result is not what the original was."""
    try:
        onnx.checker.check_model(after, full_check=True)
    except Exception as error:  # noqa: BLE001
        try:
            onnx.checker.check_model(before, full_check=True)
        except Exception:  # noqa: BLE001 - neither was the original
            return ""
        return f"{said}: invalid: {error}"
    if list(before.graph.input) != list(after.graph.input) or list(before.graph.output) != list(after.graph.output):
        return f"{said}: another signature"
    narrow = narrowest(before)
    for fed, outputs in wanted:
        for fast in (False, True):
            try:
                got = run(after, fed, optimize=fast)
            except Exception as error:  # noqa: BLE001
                return f"{said}: does not run: {error}"
            totals.compared += len(got)
            what = first_difference(before, outputs, got, narrow)
            if what and fast:  # ONNX Runtime rounds quantized models otherwise when it optimizes them
                what = first_difference(before, run(before, fed, optimize=True), got, narrow)
            if what:
                shapes = {k: v.shape for k, v in fed.items()}
                return f"{said}: {what} at {shapes}{' (optimized by ONNX Runtime)' if fast else ''}"
    return ""


def first_difference(model: onnx.ModelProto, wanted: Sequence[Array], got: Sequence[Array], narrow: str) -> str:
    """The first output that is another one, and how; empty where all agree."""
    for name, a, b in zip((o.name for o in model.graph.output), wanted, got, strict=True):
        if what := differs(a, b, narrow):
            return f"{name} {what}"
    return ""


def narrowest(model: onnx.ModelProto) -> str:
    """The float of a model with the fewest bits, by what it casts to and stores."""
    halves = onnx.TensorProto.FLOAT16
    kinds = {i.type.tensor_type.elem_type for i in model.graph.input} | {
        a.i for n in model.graph.node if n.op_type == "Cast" for a in n.attribute if a.name == "to"
    }
    return "float16" if halves in kinds else "float32"


def differs(a: Array, b: Array, narrow: str) -> str:
    """How one output is not the other; empty where they agree."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"is {b.dtype}{b.shape} instead of {a.dtype}{a.shape}"
    if a.dtype.kind != "f":
        share = float(np.mean(a != b)) if a.size else 0.0
        return f"differs in {share:.0%} of its elements" if share else ""
    x, y = a.astype(np.float64), b.astype(np.float64)
    both = np.isfinite(x) & np.isfinite(y)
    scale = max(1.0, float(np.abs(x[both]).max(initial=0.0)))
    error = float(np.abs(x[both] - y[both]).max(initial=0.0)) / scale
    return f"differs by {error:.2g}" if error > TOLERANCES[narrow] else ""


def main() -> None:
    """Fuzzes and prints the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first model")
    parser.add_argument("--keep", type=Path, help="folder for models with faults, before and after")
    chosen = parser.parse_args()
    pipeline.Worker = Here  # type: ignore[misc, assignment]
    totals, start = Totals(), time.process_time()
    for number in range(chosen.first, chosen.first + chosen.models):
        before, after, fault = one(chosen.seed, number, totals)
        if not fault:
            continue
        totals.faults.append(fault)
        print(f"FAULT: --seed {chosen.seed} --first {number} --models 1\n  {fault}", flush=True)
        if chosen.keep:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            onnx.save(before, chosen.keep / f"{chosen.seed}_{number}.onnx")
            if after is not None:
                onnx.save(after, chosen.keep / f"{chosen.seed}_{number}.after.onnx")
    print(f"models: {totals.models}, {dict(totals.outcomes)}, outputs compared: {totals.compared}")
    print(f"operators: {len(totals.nodes)}, rules in what was taken: {len(totals.rules)}")
    print(f"faults: {len(totals.faults)}, seconds of CPU: {time.process_time() - start:.0f}")
    sys.exit(1 if totals.faults else 0)


if __name__ == "__main__":
    main()
