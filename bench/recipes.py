"""Optimized graphs without their weights: what the optimizer chose, small enough to carry to another machine.

    python bench/recipes.py --out DIR [NAME ...] [--dtype float16] [--target analytic:h100]

A recipe is the chosen graph with every weight as it is made: an initializer of the model by name, or an expression over
those. ``load`` puts it together again with the weights of the model that it was made for.
"""

from __future__ import annotations

import argparse
import ast
import base64
import json
import time
from pathlib import Path

import models
import numpy as np
import onnx
import onnx_ir
from rich.console import Console

from egraph_opt.ir import Constant, TensorGraph, TensorType, TupleType, Type
from egraph_opt.onnx_io import import_model

Record = dict[str, object]
EIGHT = ("nasrnn", "bert-8x1024", "resnet50", "resnext50", "inception_v3", "squeezenet", "vgg16", "nasnet_a")


class Writer:
    """Collects the nodes of one selection; ``rows`` are [operator, attributes, operands, type]."""

    def __init__(self) -> None:
        self.rows: list[list[object]] = []
        self.place: dict[int, int] = {}

    def add(self, cls: int, op: str, attrs: object, operands: list[int], type_: Type) -> None:
        self.rows.append([op, repr(attrs), [self.place[c] for c in operands], _written(type_)])
        self.place[cls] = len(self.rows) - 1


def make(name: str, *, dtype: str = "float32", target: str = "analytic:h100") -> Record:
    """Optimizes a benchmark network and returns the recipe of the graph that is the cheapest by estimate."""
    from egraph_opt.extraction import extract
    from egraph_opt.pipeline.options import Options
    from egraph_opt.pipeline.run import Run

    model = onnx_ir.from_proto(models.build(name, dtype=dtype))
    found = Run(model, Options(target=target, measure=False)).explore()
    frozen, folder, writer = found.frozen, found.frozen.folder, Writer()
    chosen = extract(frozen.egraph, found.prices.seconds, extractor="ilp", time_limit=20.0, seed=0)

    def constant(cls: int) -> None:
        """A constant class, as the expression that the folder would evaluate."""
        stack = [(cls, False)]
        while stack:
            current, ready = stack.pop()
            if current in writer.place:
                continue
            enode, type_ = folder.enodes[folder.recipe[current]], frozen.class_types[current]
            assert type_ is not None
            if enode.op == "Const":
                writer.add(current, "Const", _weight(frozen.graph.constants[int(str(enode.attrs[0]))]), [], type_)
            elif ready:
                writer.add(current, enode.op, enode.attrs, list(enode.operands), type_)
            else:
                stack.append((current, True))
                stack += [(c, False) for c in enode.operands]

    for number in chosen.selection.order(frozen.egraph):
        enode, type_ = frozen.enodes[number], frozen.class_types[frozen.enodes[number].cls]
        assert type_ is not None
        if enode.op == "Const":
            constant(enode.cls)
        else:
            writer.add(enode.cls, enode.op, enode.attrs, list(enode.operands), type_)
    outputs = [writer.place[int(root)] for root in frozen.egraph.roots]
    return {"network": name, "dtype": dtype, "nodes": writer.rows, "outputs": outputs}


def load(record: Record, model: onnx.ModelProto) -> TensorGraph:
    """The graph of a recipe, with the weights of ``model``; expressions over weights are not evaluated."""
    original = import_model(onnx_ir.from_proto(model)).graph
    named = {name: constant for constant in original.constants for name in constant.names}
    graph, place = TensorGraph(), list[int]()
    rows = record["nodes"]
    assert isinstance(rows, list)
    for op, attrs, operands, type_ in rows:
        values = ast.literal_eval(attrs)
        if op == "Const":
            place.append(graph.constant(named[values] if isinstance(values, str) else _inline(values)))
        else:
            place.append(graph.add(op, values, [place[i] for i in operands], _read(type_)))
    outputs = record["outputs"]
    assert isinstance(outputs, list)
    graph.outputs = tuple(place[i] for i in outputs)
    return graph


def _weight(constant: Constant) -> object:
    """A name, or dtype, shape and bytes of a constant that the model does not name."""
    if constant.names:
        return constant.names[0]
    data = np.ascontiguousarray(constant.load())
    return data.dtype.name, data.shape, base64.b64encode(data.tobytes()).decode()


def _inline(value: tuple[str, tuple[int, ...], str]) -> Constant:
    dtype, shape, text = value
    return Constant.of(np.frombuffer(base64.b64decode(text), dtype).reshape(shape))


def _written(type_: Type) -> object:
    items = type_.items if isinstance(type_, TupleType) else (type_,)
    rows = [[t.dtype, t.numbers()] for t in items if isinstance(t, TensorType)]
    return rows if isinstance(type_, TupleType) else rows[0]


def _read(type_: list) -> Type:
    if type_ and isinstance(type_[0], str):
        return TensorType(type_[0], tuple(type_[1]))
    return TupleType(tuple(TensorType(dtype, tuple(shape)) for dtype, shape in type_))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32")
    parser.add_argument("--target", default="analytic:h100")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or EIGHT:
        begin = time.perf_counter()
        record = make(name, dtype=arguments.dtype, target=arguments.target)
        path = arguments.out / f"{name}.{arguments.dtype}.json"
        path.write_text(json.dumps(record))
        Console().print(f"{path}: {len(record['nodes'])} nodes, {time.perf_counter() - begin:.1f} s")  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
