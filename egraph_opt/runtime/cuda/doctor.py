"""For ``egraph-opt doctor``: is there a GPU, do its libraries fit together, and does what they compute agree?"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from egraph_opt.errors import EgraphOptError
from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import operator
from egraph_opt.runtime.cuda.device import PACKAGES, free_memory, machine
from egraph_opt.runtime.cuda.executor import compile

Row = tuple[str, str, bool]
_LITTLE = 2**30
"""Bytes of free memory below which a card counts as busy."""


def report() -> list[Row]:
    """What, its state in words, and whether it is fine. Never raises."""
    if platform.system() != "Linux":
        return [("GPU", "the executor runs on Linux only", False)]
    rows: list[Row] = []
    for package in PACKAGES.values():
        try:
            found = version(package)
        except PackageNotFoundError:
            found = ""
        rows.append((package, found or "not installed", bool(found)))
    try:
        rows.append(("GPU", str(machine()), True))
        rows += [_memory(), _numbers()]
    except EgraphOptError as error:
        rows.append(("GPU", str(error), False))
    except Exception as error:  # noqa: BLE001 - a doctor reports whatever is wrong
        rows.append(("GPU", f"{type(error).__name__}: {error}", False))
    return rows


def _memory() -> Row:
    free, total = free_memory()
    said = f"{free / 2**30:.1f} of {total / 2**30:.1f} GB free"
    return "GPU memory", said if free > _LITTLE else f"{said}: other processes use the card", free > _LITTLE


def _numbers() -> Row:
    """Runs a convolution, a product and a kernel of our own, and compares with NumPy."""
    graph, feeds, wanted = probe()
    (got,) = compile(graph).run(feeds).values()
    worst = float(np.max(np.abs(got - wanted)))
    fine = bool(worst < 1e-3)
    return "GPU kernels", f"cuDNN, cuBLAS and generated kernels differ from NumPy by {worst:.0e}", fine


def probe() -> tuple[TensorGraph, dict[str, np.ndarray], np.ndarray]:
    """tanh(flat(conv(x, w)) @ m) for random x, w and m: the graph, its feeds, and its result by the operator table."""
    rng, graph = np.random.default_rng(0), TensorGraph()
    x = rng.standard_normal((2, 8, 6, 6)).astype(np.float32)
    weight, matrix = (rng.standard_normal(s).astype(np.float32) * 0.1 for s in ((16, 8, 3, 3), (576, 32)))
    rows: list[tuple[str, tuple[object, ...], np.ndarray | None]] = [
        ("Conv", ((1, 1), (1, 1, 1, 1), (1, 1), 1), weight),
        ("Reshape", ((2, 576),), None),
        ("MatMul", (), matrix),
        ("Tanh", (), None),
    ]
    node, value = graph.add("Input", ("x",), (), TensorType("float32", x.shape)), x
    for op, attrs, constant in rows:
        operands, values = [node], [value]
        if constant is not None:
            operands.append(graph.constant(Constant.of(constant)))
            values.append(constant)
        type_ = operator(op).infer(attrs, [graph.types[i] for i in operands])  # type: ignore[arg-type]
        node = graph.add(op, attrs, operands, type_)  # type: ignore[arg-type]
        value = operator(op).evaluate(attrs, values)  # type: ignore[arg-type]
        assert not isinstance(value, tuple)
    graph.outputs = (node,)
    return graph, {"x": x}, value
