"""Graphs of the benchmark networks without their weights, small enough to carry to another machine.

    python bench/recipes.py --out DIR [NAME ...] [--dtype float16] [--target cuda:h100] [--count 50] [--candidates 5]
                             [--batch 16]

A recipe is a graph with every weight as it is made: an initializer of the model by name, or an expression over those.
``load`` puts it together again with the weights of the model that it was made for. A file holds many graphs of one
network, the first as it was.
"""

from __future__ import annotations

import argparse
import ast
import base64
import gzip
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import models
import numpy as np
import onnx
import onnx_ir

from egraph_opt.ir import Constant, TensorGraph, TensorType, TupleType, Type
from egraph_opt.onnx_io import import_model

if TYPE_CHECKING:  # ``load`` works where there is no e-graph engine
    from egraph_opt.egraph import Selection
    from egraph_opt.pipeline.run import Explored

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


def path_of(folder: Path, network: str, numerics: str, batch: int) -> Path:
    """Where the recipes of a network are: all of a dtype, or the few best for one kind of arithmetic."""
    return folder / f"{network}.{numerics}{'' if batch == 1 else f'.{batch}'}.json.gz"


def explore(name: str, *, dtype: str, target: str, batch: int = 1) -> Explored:
    """The e-graph of a benchmark network, priced."""
    from egraph_opt.pipeline.options import Options
    from egraph_opt.pipeline.run import Run

    model = onnx_ir.from_proto(models.build(name, batch=batch, dtype=dtype))
    return Run(model, Options(target=target, measure=False)).explore()


def pool(found: Explored, count: int, seed: int = 0) -> list[tuple[str, Selection]]:
    """Up to ``count`` different graphs of one e-graph, the first as it was, the second the cheapest by prices.

    The others are the cheapest at prices that are off by random factors, small ones and large ones in turn: what a
    search that errs would pick.
    """
    from egraph_opt.extraction import extract

    frozen, rng = found.frozen, np.random.default_rng(seed)
    chosen = [("original", frozen.selection_of_original())]
    seen = {_identity(found, chosen[0][1])}
    for attempt in range(4 * count):
        spread = 0.0 if attempt == 0 else (0.1, 0.3, 1.0, 2.0)[attempt % 4]
        prices = found.prices.seconds * np.exp(spread * rng.standard_normal(len(frozen.enodes)))
        extractor = "ilp" if attempt == 0 else "dag-greedy"
        selection = extract(frozen.egraph, prices, extractor=extractor, time_limit=20.0, seed=0).selection
        if _identity(found, selection) not in seen:
            seen.add(_identity(found, selection))
            chosen.append((f"prices off by {spread}" if attempt else "cheapest", selection))
        if len(chosen) == count:
            break
    return chosen


def _identity(found: Explored, selection: Selection) -> tuple[int, ...]:
    return tuple(sorted(selection.order(found.frozen.egraph)))


def record(found: Explored, selection: Selection, name: str, dtype: str, why: str) -> Record:
    """The recipe of one selection."""
    frozen, folder, writer = found.frozen, found.frozen.folder, Writer()

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

    for number in selection.order(frozen.egraph):
        enode, type_ = frozen.enodes[number], frozen.class_types[frozen.enodes[number].cls]
        assert type_ is not None
        if enode.op == "Const":
            constant(enode.cls)
        else:
            writer.add(enode.cls, enode.op, enode.attrs, list(enode.operands), type_)
    outputs = [writer.place[int(root)] for root in frozen.egraph.roots]
    return {"network": name, "dtype": dtype, "why": why, "nodes": writer.rows, "outputs": outputs}


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


def candidates(records: Sequence[Record], model: onnx.ModelProto, fast: bool, count: int) -> list[Record]:
    """The ``count`` of the graphs of a pool with the least estimates by the measured steps of an H100, all different;
    not the original, which is the first of the pool."""
    from egraph_opt.runtime import cuda
    from egraph_opt.runtime.cuda.prices import shipped_steps

    prices, priced = shipped_steps("h100"), dict[float, Record]()
    for record in records[1:]:
        seconds = prices.plan(cuda.make_plan(load(record, model), exact=not fast), fast)
        priced.setdefault(round(seconds, 9), {**record, "estimate": seconds})
    return [priced[seconds] for seconds in sorted(priced)[:count]]


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
    parser.add_argument("--target", default="cuda:h100")
    parser.add_argument("--count", type=int, default=50, help="how many different graphs of each network")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=0, help="also the few best of them, for gpu_networks.py")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or EIGHT:
        begin = time.process_time()
        found = explore(name, dtype=arguments.dtype, target=arguments.target, batch=arguments.batch)
        graphs = [record(found, s, name, arguments.dtype, why) for why, s in pool(found, arguments.count)]
        _write(path_of(arguments.out, name, arguments.dtype, arguments.batch), graphs)
        if arguments.candidates:
            model = models.build(name, batch=arguments.batch, dtype=arguments.dtype)
            for numerics in ("fp16",) if arguments.dtype == "float16" else ("tf32", "fp32"):
                few = candidates(graphs, model, numerics == "tf32", arguments.candidates)
                _write(path_of(arguments.out, name, numerics, arguments.batch), few)
        print(f"{name}: {len(graphs)} graphs, {time.process_time() - begin:.1f} s", flush=True)


def _write(path: Path, records: Sequence[Record]) -> None:
    path.write_bytes(gzip.compress(json.dumps(list(records)).encode(), mtime=0))


if __name__ == "__main__":
    main()
