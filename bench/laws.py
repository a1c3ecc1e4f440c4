"""The laws that people expect of an optimizer, each as a small model: which of them the shipped rules derive.

    python bench/laws.py [--only NAME,NAME] [--json FILE]

A law is a graph spelled out, and the operators that should be left of it. Each graph goes through ``optimize`` with the
operation-counting costs of ``--target analytic`` (where a law does not pay there, it is written in the direction that
does), and the result is compared with the goal. Exit 1 where one is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from laws_listed import LAWS, Law
from numpy.typing import NDArray
from onnx import numpy_helper, shape_inference
from rich.console import Console
from rich.table import Table

import egraph_opt

OPSET = 20


@dataclass(frozen=True)
class Row:
    """What became of one law; ``rules`` took part in it."""

    name: str
    family: str
    before: str
    after: str
    reached: bool
    rules: tuple[str, ...]


def build(law: Law, seed: int = 0) -> onnx.ModelProto:
    """The graph of a law as a model, its weights drawn at random."""
    version = 10 if law.opset > 22 else 9
    text = (
        f'<ir_version: {version}, opset_import: ["" : {law.opset}]> law ({law.inputs}) => (float[n] y) '
        f"{{ {law.body.strip()} }}"
    )
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(seed)
    for name, shape in law.weights.items():
        scale = 1 / math.sqrt(math.prod(shape[1:]) or 1)
        array = (rng.standard_normal(shape) * scale).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    for name, value in law.constants.items():
        model.graph.initializer.append(numpy_helper.from_array(typed(value), name))
    model.graph.output[0].ClearField("type")
    inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    model.graph.output[0].CopyFrom(inferred.graph.output[0])
    onnx.checker.check_model(model, full_check=True)
    return model


def typed(value: object) -> NDArray[Any]:
    """A constant as ONNX writes it: float32, or int64."""
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def operators(model: onnx.ModelProto) -> str:
    """The operators of a model, in words."""
    counts = Counter(node.op_type for node in model.graph.node if node.op_type != "Constant")
    return ", ".join(f"{n} {op}" if n > 1 else op for op, n in sorted(counts.items())) or "nothing"


def derive(law: Law) -> Row:
    """Optimizes the graph of a law."""
    model = build(law)
    result = egraph_opt.optimize(model, target="analytic", numerics=law.numerics, effort=law.effort)
    assert isinstance(result.model, onnx.ModelProto)
    after = operators(result.model)
    return Row(law.name, law.family, operators(model), after, after == law.goal, tuple(result.report.rules))


def main() -> None:
    """Prints the table; exit 1 where a law is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names or families, separated by commas")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chosen = {name for name in options.only.split(",") if name}
    rows = [derive(law) for law in LAWS if not chosen or {law.name, law.family} & chosen]
    table = Table(title="Laws", box=None)
    for column in ("law", "before", "after", "rules"):
        table.add_column(column)
    for row in rows:
        after = row.after if row.reached else f"[red]{row.after}[/]"
        table.add_row(row.name, row.before, after, ", ".join(row.rules))
    Console(width=160).print(table)
    missed = [row.name for row in rows if not row.reached]
    print(
        f"{len(rows) - len(missed)} of {len(rows)} laws derived" + (f"; missed: {', '.join(missed)}" if missed else "")
    )
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(r) for r in rows], indent=1) + "\n")
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
