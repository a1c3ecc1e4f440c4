"""Random tensor graphs over the whole operator table, with left sides of rules planted in them.

Graphs are made of what the operators' own ``complete`` draws, in float64, and are given other dtypes and symbolic sizes
afterwards, where every type rule accepts that. A new operator is therefore fuzzed without a change here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from egraph_opt.ir import FLOATS, INTEGERS, AttrValue, Constant, Size, TensorGraph, TensorType, TupleType, Type, symbol
from egraph_opt.ops import IllTyped, Operator, numpy_dtype, operator, operators
from egraph_opt.ops.base import as_element
from egraph_opt.rewrites import Rule
from egraph_opt.terms.pattern import App, Number, Pattern, Var, tensor_names
from egraph_opt.terms.sampling import Case, attribute_values, draw

Rng = np.random.Generator
LEAVES = ("Input", "Const")
LARGEST = 4096
"""Elements of the largest tensor; what is larger is not kept."""
PLANTED = 0.6
"""Share of steps that plant the left side of a rule instead of a single operator."""
OTHER_DTYPES = ("float32", "float32", "float32", "float32", "float16", "int32", "int64", "bfloat16", "uint8")


@dataclass
class Draft:
    """A graph in the making: nodes whose values are tensors, and how inputs and weights are drawn."""

    rng: Rng
    graph: TensorGraph = field(default_factory=TensorGraph)
    inputs: int = 0

    def leaf(self, type_: TensorType, *, constant: bool, limits: tuple[int, int] | None = None) -> int:
        """A new input or weight; operands with ``limits`` (indices) are always weights."""
        if constant or limits is not None:
            return self.graph.constant(Constant.of(random_array(self.rng, type_, limits), type_.dtype))
        self.inputs += 1
        return self.graph.add("Input", (f"x{self.inputs - 1}",), (), type_)

    def operand(self, type_: TensorType, *, constant: bool = False, limits: tuple[int, int] | None = None) -> int:
        """A node of the given type: one that is there, a new leaf, or an element-wise operator of one."""
        fitting = [i for i, t in enumerate(self.graph.types) if t == type_ and self.graph.nodes[i].op != "Const"]
        if fitting and not constant and limits is None and self.rng.random() < 0.8:
            return int(self.rng.choice(fitting))
        return self.leaf(type_, constant=constant or self.rng.random() < 0.3, limits=limits)

    def tensors(self) -> list[int]:
        """Nodes whose value is one tensor, and not of their own making as weights."""
        return [
            i
            for i, t in enumerate(self.graph.types)
            if isinstance(t, TensorType) and t.is_static and self.graph.nodes[i].op != "Const"
        ]

    def apply(self, op: str, attrs: Sequence[AttrValue], operands: Sequence[int]) -> int:
        """A node; raises IllTyped where the operator does not accept its operands, or the result is too large."""
        result = operator(op).infer(tuple(attrs), [self.graph.types[i] for i in operands])  # type: ignore[misc]
        parts = result.items if isinstance(result, TupleType) else (result,)
        if any(isinstance(t, TensorType) and np.prod(t.numbers(), dtype=np.int64) > LARGEST for t in parts):
            raise IllTyped("too large")
        return self.graph.add(op, tuple(attrs), operands, result)


def random_graph(rng: Rng, rules: Sequence[Rule], first: Rule | None = None) -> TensorGraph:
    """A graph of 3 to 12 operators with one to four outputs; some have other dtypes, some a symbolic size.

    ``first``: a rule whose left side is in it, where one can be drawn.
    """
    draft, count, table = Draft(rng), int(rng.integers(3, 13)), operators()
    if first is not None:
        with suppress(IllTyped):
            plant(draft, first, attempts=4000)
    while sum(n.op not in (*LEAVES, "Get") for n in draft.graph.nodes) < count:
        try:
            if rules and rng.random() < PLANTED:
                plant(draft, rules[int(rng.integers(len(rules)))])
            else:
                grow(draft, table)
        except IllTyped:
            continue
    graph = draft.graph
    used = {i for n in graph.nodes for i in n.operands}
    ends = [i for i in draft.tensors() if i not in used and graph.nodes[i].op not in LEAVES]
    inner = [i for i in draft.tensors() if i in used and graph.nodes[i].op not in LEAVES]
    graph.outputs = (*ends[-3:], *([int(rng.choice(inner))] if inner and rng.random() < 0.4 else []))
    return _varied(rng, graph)


def grow(draft: Draft, table: Mapping[str, Operator]) -> None:
    """Adds one operator of the table, to what is there or to new leaves."""
    rng, names = draft.rng, [n for n in table if n != "Get"]
    declared = table[names[int(rng.integers(len(names)))]]
    low, high = declared.arity
    count = int(rng.integers(low, (low + 2 if high is None else high) + 1))
    given: list[TensorType | None] = [None] * count
    there = draft.tensors()
    fixed: dict[int, int] = {}
    if there and count and rng.random() < 0.75:
        place = int(rng.integers(count))
        fixed[place] = int(rng.choice(there[-6:]))
        type_ = draft.graph.types[fixed[place]]
        assert isinstance(type_, TensorType)
        given[place] = type_
    try:
        sample = declared.complete(rng, [None] * len(declared.params), given)
    except (ValueError, IndexError, TypeError):  # operators complete what fits them; a random node need not
        sample = None
    kept = sample is not None and all(g in (None, t) for g, t in zip(given, sample.types, strict=False))
    if sample is None or not kept:
        raise IllTyped("not completed")
    limits = declared.limits(sample.attrs, sample.types)
    weight = int(rng.integers(1, count + 1)) if count else 0  # operands from here on are weights
    operands = [
        fixed.get(i, -1) if i in fixed else draft.operand(t, constant=i >= weight and rng.random() < 0.7, limits=bound)
        for i, (t, bound) in enumerate(zip(sample.types, limits, strict=True))
    ]
    _parts(draft, draft.apply(declared.name, sample.attrs, operands))


def plant(draft: Draft, rule: Rule, attempts: int = 300) -> None:
    """Adds an instance of the left side of a rule, where possible with one of its tensors already there."""
    case: Case | None = None
    there, rng = draft.tensors(), draft.rng
    free = [n for n in rule.tensors if n not in rule.constants and len(rule.lhs) == 1]
    fixed: dict[str, int] = {}
    if there and free and rng.random() < 0.6:
        fixed = {free[int(rng.integers(len(free)))]: int(rng.choice(there[-6:]))}
        types = {n: t for n, i in fixed.items() if isinstance(t := draft.graph.types[i], TensorType)}
        try:
            case = draw(rule, rng, 20, types)
        except (ValueError, IndexError, TypeError):
            case = None
    if case is None or fixed.keys() & case.limits.keys():  # what is there may hold anything
        fixed, case = {}, draw(rule, rng, attempts)
    if case is None:
        raise IllTyped("no case")
    # operators that share an operand are merged where the others are weights
    shared = set(tensor_names(rule.lhs[0])).intersection(*(tensor_names(p) for p in rule.lhs))
    weights = {*rule.constants, *(set(rule.tensors) - shared if len(rule.lhs) > 1 else ())}
    nodes = {
        name: fixed[name]
        if name in fixed
        else draft.operand(type_, constant=name in weights, limits=case.limits.get(name))
        for name, type_ in case.tensors.items()
    }
    for pattern in rule.lhs:
        _parts(draft, _build(draft, pattern, case, nodes))


def _build(draft: Draft, pattern: Pattern, case: Case, nodes: Mapping[str, int]) -> int:
    match pattern:
        case Var(name):
            return nodes[name]
        case Number(value):
            type_ = case.numbers[id(pattern)]
            array = np.full(type_.numbers(), value, numpy_dtype(type_.dtype))
            return draft.graph.constant(Constant.of(array, type_.dtype))
        case App(op, attrs, operands):
            built = [_build(draft, o, case, nodes) for o in operands]
            return draft.apply(op, attribute_values(attrs, case), built)


def _parts(draft: Draft, index: int) -> None:
    type_ = draft.graph.types[index]
    if isinstance(type_, TupleType):
        for number in range(len(type_.items)):
            draft.apply("Get", (number,), (index,))


# --- other dtypes and symbolic sizes


def _varied(rng: Rng, graph: TensorGraph) -> TensorGraph:
    """The graph as it is, or in another dtype, or with a size of its inputs as a symbol."""
    choice = rng.random()
    if choice < 0.3:
        return graph
    if choice < 0.75:
        try:
            return retyped(graph, str(rng.choice(OTHER_DTYPES)))
        except IllTyped:
            return graph
    inputs = [t for n, t in zip(graph.nodes, graph.types, strict=True) if n.op == "Input"]
    counts = sorted({s for t in inputs if isinstance(t, TensorType) for s in t.numbers()})
    for size in rng.permutation(counts):
        with suppress(IllTyped):
            return symbolic(graph, int(size))
    return graph


def retyped(graph: TensorGraph, dtype: str) -> TensorGraph:
    """The graph with ``dtype`` where float64 was; raises IllTyped where a type rule does not accept it."""

    def convert(type_: TensorType) -> TensorType:
        return replace(type_, dtype=dtype) if type_.dtype == "float64" else type_

    def attribute(value: AttrValue) -> AttrValue:
        if value == "float64":
            return dtype
        return as_element(dtype, value) if isinstance(value, float) and dtype in INTEGERS else value

    return _rebuilt(graph, convert, attribute, keep=frozenset({"alpha", "beta", "epsilon"}))


def symbolic(graph: TensorGraph, size: int) -> TensorGraph:
    """The graph with a symbol for every axis of an input that has ``size``; raises IllTyped as above."""

    def convert(type_: TensorType) -> TensorType:
        shape: list[Size] = [symbol("N") if s == size else s for s in type_.shape]
        return TensorType(type_.dtype, tuple(shape))

    return _rebuilt(graph, convert, lambda value: value, inputs_only=True)


def _rebuilt(
    graph: TensorGraph,
    convert: Callable[[TensorType], TensorType],
    attribute: Callable[[AttrValue], AttrValue],
    *,
    keep: frozenset[str] = frozenset(),
    inputs_only: bool = False,
) -> TensorGraph:
    new, place = TensorGraph(), list[int]()
    for index, (node, type_) in enumerate(zip(graph.nodes, graph.types, strict=True)):
        if node.op == "Const":
            array, old = graph.value(index), type_
            assert array is not None
            assert isinstance(old, TensorType)
            wanted = old if inputs_only else convert(old)
            with np.errstate(all="ignore"):
                array = np.asarray(np.abs(array) if wanted.dtype.startswith("u") else array)
                place.append(new.constant(Constant.of(array.astype(numpy_dtype(wanted.dtype)), wanted.dtype)))
        elif node.op == "Input":
            assert isinstance(type_, TensorType)
            place.append(new.add("Input", node.attrs, (), convert(type_)))
        else:
            params = operator(node.op).params
            attrs = tuple(a if p.name in keep else attribute(a) for p, a in zip(params, node.attrs, strict=True))
            operands = [place[i] for i in node.operands]
            types: list[Type] = [new.types[i] for i in operands]
            place.append(new.add(node.op, attrs, operands, operator(node.op).infer(attrs, types)))  # type: ignore[arg-type]
    new.outputs = tuple(place[i] for i in graph.outputs)
    return new


def random_array(rng: Rng, type_: TensorType, limits: tuple[int, int] | None = None) -> np.ndarray:
    """Values of a type: normal floats, small integers within ``limits``, both truth values."""
    shape = type_.numbers()
    if type_.dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if type_.dtype in FLOATS:
        return np.asarray(rng.normal(size=shape)).astype(numpy_dtype(type_.dtype))
    low, high = limits or (0 if type_.dtype.startswith("u") else -4, 4)
    return np.asarray(rng.integers(low, high + 1, shape)).astype(type_.dtype)
