"""Numbers for every symbolic size of a model: of its inputs, and of values whose size only a run can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import onnx_ir

from egraph_opt.errors import UsageError
from egraph_opt.ir import Node, TensorGraph, TensorType, TupleType, Type
from egraph_opt.ir.sizes import symbols as symbols_of
from egraph_opt.onnx_io.shapes import LARGEST
from egraph_opt.ops import IllTyped, operator
from egraph_opt.ops.base import concrete, concrete_type
from egraph_opt.runtime import run_session
from egraph_opt.verification import apart, default_sizes, known_types, likely_sizes, random_feeds, runnable

VERY_HEAVY = 256_000_000
"""Bytes of weights above which even a trial run is made in another process, which takes a second to start."""


def measured_sizes(
    model: onnx_ir.Model, shapes: Mapping[str, Sequence[int]], graph: TensorGraph | None = None
) -> dict[str, int]:
    """Numbers for the symbolic sizes of the inputs: the user's, or sizes at which the model runs.

    Where the operators of ``graph``, which is the model as it was read, can tell that it runs, it is not tried out.

    Raises:
        UsageError: an unknown input, a wrong rank, a size that contradicts the model, or no sizes were found.
    """
    if not shapes:
        surely = (s for s in islice(likely_sizes(model), _FIRST) if graph is not None and surely_runs(graph, s))
        return next(surely, None) or apart(default_sizes, model, above=VERY_HEAVY)
    types = known_types(model)
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        type_ = types.get(name)
        if not isinstance(type_, TensorType):
            raise UsageError(f"--measure-shape {name}: the inputs with a known rank are {', '.join(types)}")
        if len(shape) != type_.rank:
            raise UsageError(f"--measure-shape {name} has {len(shape)} sizes, but the input has rank {type_.rank}")
        if not all(0 <= size <= LARGEST for size in shape):
            raise UsageError(f"--measure-shape {name}: sizes are numbers from 0 to {LARGEST:,}")
        for axis, (size, number) in enumerate(zip(type_.shape, shape, strict=True)):
            if isinstance(size, int):
                if size != number:
                    raise UsageError(
                        f"--measure-shape {name}: axis {axis} is fixed to {size} by the model, not {number}"
                    )
            elif sizes.setdefault(str(size), number) != number:
                raise UsageError(f"--measure-shape {name}: {size} is {sizes[str(size)]} elsewhere, not {number}")
    for type_ in types.values():
        for size in type_.shape if isinstance(type_, TensorType) else ():
            if not isinstance(size, int):
                sizes.setdefault(str(size), 1)
    return sizes


def observe_sizes(model: onnx_ir.Model, graph: TensorGraph, sizes: dict[str, int]) -> tuple[dict[str, int], list[str]]:
    """``sizes`` completed with those of opaque results (named ``<value>:<axis>``), read off one run of the model.

    Returns the sizes, and notes on what could not be observed (such sizes are taken to be 1).
    """
    unknown = {s for t in graph.types for s in _symbols(t)} - set(sizes)
    if not unknown:
        return sizes, []
    producers = {v.name: v for node in model.graph for v in node.outputs if v.name}
    wanted = sorted({name.rsplit(":", 1)[0] for name in unknown} & set(producers))
    found = dict(sizes)
    try:
        shapes = apart(observed_shapes, model, names=wanted, sizes=sizes, above=VERY_HEAVY)
    except Exception as error:  # noqa: BLE001 - a model that does not run here can still be optimized by formulas
        shapes = {}
        note = f"sizes inside the model could not be observed: {str(error).splitlines()[0][:200]}"
    else:
        note = ""
    for name in unknown:
        value, _, axis = name.rpartition(":")
        shape = shapes.get(value, ())
        found[name] = shape[int(axis)] if axis.isdigit() and int(axis) < len(shape) else 1
    return found, [note] if note else []


def sizes_that_fit(graph: TensorGraph, sizes: Mapping[str, int]) -> dict[str, int]:
    """``sizes`` completed with 1 for every symbol of the body ``graph`` that they lack.

    A branch that is not taken at these sizes may need larger ones: they are doubled until all of its nodes accept them.

    Raises:
        IllTyped: that does not help.
    """
    tried = dict.fromkeys({s for t in graph.types for s in _symbols(t)}, 1) | dict(sizes)
    for _ in range(_DOUBLINGS):
        try:
            _check(graph, tried)
        except IllTyped:
            tried = {name: size * 2 if size > 1 else size for name, size in tried.items()}
        else:
            return tried
    _check(graph, tried)
    return tried


def surely_runs(graph: TensorGraph, sizes: Mapping[str, int]) -> bool:
    """Whether every operator accepts its operands at these sizes, whatever their values are.

    What is not in the operator table says nothing; of what is, indices alone may be beyond what they index.
    """
    live = [graph.nodes[i] for i in graph.live()]
    if any(n.op == "Opaque" or any(graph.nodes[i].op != "Const" for i in _indices(n)) for n in live):
        return False
    try:
        _check(graph, dict(sizes))
    except (IllTyped, KeyError):  # KeyError: a size that only a run can tell
        return False
    return True


def _indices(node: Node) -> list[int]:
    """The operands of a node that are indices."""
    return [] if node.op in ("Input", "Const") else [node.operands[i] for i in operator(node.op).indices]


def _check(graph: TensorGraph, sizes: dict[str, int]) -> None:
    """IllTyped where an operator of the graph does not accept its operands at these sizes."""
    numbers: dict[int, Type] = {}  # each type once: that of a node with 1,000 results is that of 1,000 operands
    for index in graph.live():
        node = graph.nodes[index]
        numbers[index] = _numbers(graph.types[index], sizes)
        if node.op not in ("Input", "Const", "Opaque"):
            types = [numbers[i] for i in node.operands]
            attrs = tuple(concrete(a, sizes) for a in node.attrs)
            operator(node.op).infer(attrs, types)  # type: ignore[arg-type]


def _numbers(type_: Type, sizes: dict[str, int]) -> Type:
    if isinstance(type_, TupleType):
        return TupleType(tuple(_numbers(t, sizes) for t in type_.items))  # type: ignore[arg-type]
    return concrete_type(type_, sizes) if isinstance(type_, TensorType) else type_


_DOUBLINGS = 8
_FIRST = 3
"""Sizes that the operator table is asked about before the model is tried out."""


def _symbols(type_: Type) -> set[str]:
    items = type_.items if isinstance(type_, TupleType) else (type_,)
    return {s for t in items if isinstance(t, TensorType) for size in t.shape for s in symbols_of(size)}


def observed_shapes(model: onnx_ir.Model, names: Sequence[str], sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes that these values of the model have in a run of it at these sizes."""
    probe = model.clone()
    values = {v.name: v for node in probe.graph for v in node.outputs}
    outputs = {v.name for v in probe.graph.outputs}
    for name in names:
        if name not in outputs:
            probe.graph.outputs.append(values[name])
    with runnable(probe) as source:
        session = source.open(optimize=False)
        feeds = random_feeds(model, sizes)
        results = run_session(session, feeds)
    ordered = [v.name or "" for v in probe.graph.outputs]
    named = dict(zip(ordered, results, strict=True))
    return {name: tuple(int(n) for n in named[name].shape) for name in names if hasattr(named[name], "shape")}
