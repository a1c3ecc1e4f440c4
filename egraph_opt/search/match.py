"""Where a rule applies in a tensor graph, and the graph that it makes there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from egraph_opt.ir import FLOATS, NUMERIC, AttrValue, Constant, TensorGraph, TensorType
from egraph_opt.ops import IllTyped, numpy_dtype, operator
from egraph_opt.rewrites import Rule
from egraph_opt.terms import App, Expr, Number, Pattern, Var
from egraph_opt.terms.expressions import Environment, Undefined, evaluate
from egraph_opt.terms.pattern import tensor_names


@dataclass(frozen=True)
class Match:
    """A rule, the nodes that its roots matched, and what its names stand for (nodes, attribute values)."""

    rule: Rule
    roots: tuple[int, ...]
    tensors: Mapping[str, int]
    attributes: Mapping[str, AttrValue]


@dataclass(frozen=True)
class Subject:
    """A graph to match in. ``constant`` tells, by node, whether it is known before the model runs."""

    graph: TensorGraph
    _splats: dict[int, float | None] = field(default_factory=dict[int, float | None])

    @cached_property
    def live(self) -> list[int]:
        """Nodes that the outputs need, in topological order."""
        return self.graph.live()

    @cached_property
    def by_op(self) -> dict[tuple[str, int], list[int]]:
        """Live nodes by operator and number of operands."""
        found: dict[tuple[str, int], list[int]] = {}
        for index in self.live:
            node = self.graph.nodes[index]
            found.setdefault((node.op, len(node.operands)), []).append(index)
        return found

    @cached_property
    def constant(self) -> list[bool]:
        """By node, also of nodes that are not live."""
        known: list[bool] = []
        for node in self.graph.nodes:
            computed = node.op not in ("Input", "Opaque") and all(known[i] for i in node.operands)
            known.append(node.op == "Const" or (computed and bool(node.operands)))
        return known

    def splat(self, index: int) -> float | None:
        """The number that all elements of a stored constant equal, if there is one."""
        if index not in self._splats:
            self._splats[index] = self.graph.splat(index)
        return self._splats[index]

    def filling(self, index: int) -> tuple[AttrValue, ...] | None:
        """The attributes of the ``Fill`` that a stored constant of one float is equal to."""
        type_, number = self.graph.types[index], self.splat(index)
        if number is None or not isinstance(type_, TensorType) or type_.dtype not in FLOATS or type_.elements != 1:
            return None
        return type_.shape, number, type_.dtype


Binding = tuple[dict[str, int], dict[str, AttrValue]]


def matches(subject: Subject, rule: Rule) -> Iterator[Match]:
    """Every way in which the left sides of ``rule`` occur at different live nodes, conditions included.

    Of rules with several roots only operators on weights are matched, as the e-graph does.
    """
    for roots, binding in _roots(subject, rule.lhs, (), ({}, {})):
        if _holds(subject, rule, roots, binding):
            yield Match(rule, roots, *binding)


def _roots(
    subject: Subject, patterns: Sequence[Pattern], roots: tuple[int, ...], binding: Binding
) -> Iterator[tuple[tuple[int, ...], Binding]]:
    if not patterns:
        yield roots, binding
        return
    first = patterns[0]
    assert isinstance(first, App)
    for index in subject.by_op.get((first.op, len(first.operands)), ()):
        if index in roots or (roots and index < roots[-1]):
            continue  # each set of roots once: rules with several roots treat them alike
        bound = _match(subject, first, index, binding)
        if bound is not None:
            yield from _roots(subject, patterns[1:], (*roots, index), bound)


def _match(subject: Subject, pattern: Pattern, index: int, binding: Binding) -> Binding | None:
    graph = subject.graph
    match pattern:
        case Var(name):
            known = binding[0].get(name, index)
            return ({**binding[0], name: index}, binding[1]) if known == index else None
        case Number(value):
            type_, splat = graph.types[index], subject.splat(index)
            if splat is None or not isinstance(type_, TensorType):
                return None
            return binding if float(np.array(value).astype(numpy_dtype(type_.dtype))) == splat else None
        case App(op, attrs, operands):
            node = graph.nodes[index]
            given = node.attrs
            if op == "Fill" and node.op == "Const":  # a stored number counts as the operator that would make it
                filling = subject.filling(index)
                if filling is None:
                    return None
                given = filling
            elif node.op != op or len(node.operands) != len(operands):
                return None
            named = dict(binding[1])
            for expression, value in zip(attrs, given, strict=True):
                wanted = named.setdefault(expression.text, value) if expression.is_name else expression.literal
                if repr(wanted) != repr(value):
                    return None
            bound: Binding | None = (binding[0], named)
            for operand, place in zip(operands, node.operands, strict=True):
                bound = _match(subject, operand, place, bound)
                if bound is None:
                    return None
            return bound


def _holds(subject: Subject, rule: Rule, roots: Sequence[int], binding: Binding) -> bool:
    types = subject.graph.types
    out = types[roots[0]]
    if not isinstance(out, TensorType) or not all(isinstance(types[i], TensorType) for i in binding[0].values()):
        return False
    if (rule.dtypes == "float" and out.dtype not in FLOATS) or (rule.dtypes == "numeric" and out.dtype not in NUMERIC):
        return False
    weights = rule.constants if len(roots) == 1 else _private(rule)
    if not all(subject.constant[binding[0][name]] for name in weights):
        return False
    try:
        return all(bool(evaluate(c, _environment(subject, binding, out))) for c in rule.conditions)
    except Undefined:
        return False


def _private(rule: Rule) -> list[str]:
    """Tensors of a rule with several roots that its roots do not share."""
    each = [set(tensor_names(p)) for p in rule.lhs]
    shared = set[str].intersection(*each)
    return [name for name in rule.tensors if name not in shared]


def _environment(subject: Subject, binding: Binding, out: TensorType) -> Environment:
    types = {name: subject.graph.types[index] for name, index in binding[0].items()}
    return {**binding[1], **types, "out": out}


def apply(subject: Subject, match: Match) -> TensorGraph | None:
    """The graph with the right sides in place of the roots; ``None`` where they have no type, another, or a cycle."""
    try:
        return _Builder(subject, match).build()
    except (IllTyped, Undefined, _Cycle):
        return None


class _Cycle(Exception):  # noqa: N818 - tells the caller that the match leads nowhere
    pass


class _Builder:
    """One application of one match."""

    def __init__(self, subject: Subject, match: Match) -> None:
        self.subject, self.match = subject, match
        self.new = TensorGraph(opaques=subject.graph.opaques)
        self.placed: dict[int, int] = {}
        self.replaced = dict(zip(match.roots, match.rule.rhs, strict=True))
        out = subject.graph.types[match.roots[0]]
        assert isinstance(out, TensorType)
        self.out = out
        self.environment = _environment(subject, (dict(match.tensors), dict(match.attributes)), out)

    def build(self) -> TensorGraph:
        graph = self.subject.graph
        for index in range(len(graph.nodes)):
            if graph.nodes[index].op == "Input":
                self._place(index)  # inputs stay, used or not, in their order
        self.new.outputs = tuple(self._place(i) for i in graph.outputs)
        return self.new

    def _place(self, index: int) -> int:
        """Places a node and all that it needs, without recursion over the depth of the graph."""
        graph, stack, open_ = self.subject.graph, [index], set[int]()
        while stack:
            top = stack[-1]
            if top in self.placed:
                stack.pop()
                continue
            needs = self._needs(top)
            missing = [i for i in needs if i not in self.placed]
            if missing:
                open_.add(top)
                if open_.intersection(missing):
                    raise _Cycle
                stack.extend(missing)
                continue
            open_.discard(top)
            self.placed[stack.pop()] = self._emit(top)
        assert index < len(graph.nodes)
        return self.placed[index]

    def _needs(self, index: int) -> Sequence[int]:
        if index in self.replaced:
            return [self.match.tensors[n] for n in tensor_names(self.replaced[index])]
        return self.subject.graph.nodes[index].operands

    def _emit(self, index: int) -> int:
        graph = self.subject.graph
        node, type_ = graph.nodes[index], graph.types[index]
        if index in self.replaced:
            made = self._term(self.replaced[index])
            if self.new.types[made] != type_:
                raise IllTyped("the right side has another type")
        elif node.op == "Const":
            return self.new.constant(graph.constants[int(str(node.attrs[0]))])
        else:
            made = self.new.add(node.op, node.attrs, [self.placed[i] for i in node.operands], type_)
        if index in graph.names:
            self.new.names.setdefault(made, graph.names[index])
        return made

    def _term(self, pattern: Pattern) -> int:
        match pattern:
            case Var(name):
                return self.placed[self.match.tensors[name]]
            case Number(value):
                return self.new.constant(Constant.of(np.array(value, numpy_dtype(self.out.dtype)), self.out.dtype))
            case App(op, attrs, operands):
                places = [self._term(o) for o in operands]
                values = tuple(self._value(e) for e in attrs)
                type_ = operator(op).infer(values, [self.new.types[i] for i in places])  # type: ignore[arg-type]
                return self.new.add(op, values, places, type_)

    def _value(self, expression: Expr) -> AttrValue:
        return expression.literal if expression.is_literal else evaluate(expression.text, self.environment)
