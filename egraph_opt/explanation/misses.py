"""Why a rule does not apply at a node of a graph as it is: the first thing that stops it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import permutations

import numpy as np

from egraph_opt.explanation.conditions import said, why_not
from egraph_opt.ir import FLOATS, NUMERIC, AttrValue, TensorType
from egraph_opt.ops import numpy_dtype
from egraph_opt.rewrites import Rule
from egraph_opt.search.match import Match, Subject, apply
from egraph_opt.terms import App, Number, Pattern, Var, walk
from egraph_opt.terms.expressions import Environment


class Obstacle(StrEnum):
    """What stops a rule."""

    NOTHING = "nothing"
    FORM = "form"
    DTYPE = "dtype"
    CONSTANT = "constant"
    CONDITION = "condition"
    RESULT = "result"
    PARTNER = "partner"


@dataclass(frozen=True)
class Miss:
    """How far a rule came.

    Attributes:
        share: how much of its left side is there, from 0 to 1.
        reason: one sentence; empty where nothing stops it.
    """

    obstacle: Obstacle
    share: float
    reason: str = ""


@dataclass(frozen=True)
class Finder:
    """Looks for what stops rules in one graph.

    Attributes:
        swaps: operators whose two operands may change places.
        labels: what people call the nodes.
    """

    subject: Subject
    swaps: frozenset[str]
    labels: Mapping[int, str] = field(default_factory=dict[int, str])

    def miss(self, rule: Rule, index: int) -> Miss:
        """What stops a rule whose (first) left side has the operator of node ``index`` at its root."""
        first = rule.lhs[0]
        size = sum(isinstance(p, App) for p in walk(first))
        found = max(self._ways(first, index, _Binding()), key=lambda way: (not way.reason, way.matched))
        if found.reason:
            return Miss(Obstacle.FORM, found.matched / size, found.reason)
        return self._types(rule, index, found)

    def _ways(self, pattern: Pattern, index: int, binding: _Binding) -> Iterator[_Binding]:
        """Every way to lay the pattern over the node, those that fail with their reason."""
        graph = self.subject.graph
        match pattern:
            case Var(name):
                known = binding.tensors.get(name, index)
                if known == index:
                    yield binding.bound(name, index)
                else:
                    yield binding.failed(f"{self._called(index)} and {self._called(known)} would have to be the same")
            case Number(value):
                yield binding if self._is(index, value) else binding.failed(self._number(index, value))
            case App(op, _, operands):
                node = graph.nodes[index]
                if (node.op, len(node.operands)) != (op, len(operands)):
                    yield binding.failed(f"{self._called(index)} would have to be {_form(pattern)}")
                    return
                here = self._attributes(pattern, index, binding)
                if here.reason:
                    yield here
                    return
                swapped = op in self.swaps and len(operands) == 2
                for order in permutations(node.operands) if swapped else (node.operands,):
                    yield from self._operands(operands, order, here)

    def _operands(
        self, patterns: tuple[Pattern, ...], places: tuple[int, ...], binding: _Binding
    ) -> Iterator[_Binding]:
        if not patterns:
            yield binding
            return
        for way in self._ways(patterns[0], places[0], binding):
            if way.reason:
                yield way
            else:
                yield from self._operands(patterns[1:], places[1:], way)

    def _attributes(self, pattern: App, index: int, binding: _Binding) -> _Binding:
        named = dict(binding.attributes)
        for expression, value in zip(pattern.attrs, self.subject.graph.nodes[index].attrs, strict=True):
            wanted = named.setdefault(expression.text, value) if expression.is_name else expression.literal
            if repr(wanted) != repr(value):
                return binding.failed(f"{self._called(index)} has {said(value)} where {said(wanted)} is needed")
        return _Binding(binding.tensors, named, binding.matched + 1)

    def _types(self, rule: Rule, index: int, binding: _Binding) -> Miss:
        types, out = self.subject.graph.types, self.subject.graph.types[index]
        tensors = {name: types[i] for name, i in binding.tensors.items()}
        if not isinstance(out, TensorType) or not all(isinstance(t, TensorType) for t in tensors.values()):
            return Miss(Obstacle.DTYPE, 1, "a rank or a type is not known")
        allowed = {"float": FLOATS, "numeric": NUMERIC}.get(rule.dtypes)
        if allowed is not None and out.dtype not in allowed:
            return Miss(Obstacle.DTYPE, 1, f"it is for {rule.dtypes} types, and this is {out.dtype}")
        for name in rule.constants:
            if not self.subject.constant[binding.tensors[name]]:
                known = self._called(binding.tensors[name])
                return Miss(Obstacle.CONSTANT, 1, f"{known} would have to be constant (const({name}))")
        environment: Environment = {**binding.attributes, **tensors, "out": out}  # type: ignore[dict-item]
        if len(rule.lhs) > 1:
            return Miss(Obstacle.PARTNER, 1, "it takes several nodes with a common operand, and found no partner")
        for condition in rule.conditions:
            why = why_not(condition, environment)
            if why:
                return Miss(Obstacle.CONDITION, 1, why)
        if apply(self.subject, Match(rule, (index,), binding.tensors, binding.attributes)) is None:
            return Miss(Obstacle.RESULT, 1, "its right side would have another type here, or no value")
        return Miss(Obstacle.NOTHING, 1)

    def _is(self, index: int, value: float) -> bool:
        type_, splat = self.subject.graph.types[index], self.subject.splat(index)
        if splat is None or not isinstance(type_, TensorType):
            return False
        return float(np.array(value).astype(numpy_dtype(type_.dtype))) == splat

    def _number(self, index: int, value: float) -> str:
        splat = self.subject.splat(index)
        if splat is not None:
            return f"a constant is {splat:g} where {value:g} is needed"
        return f"{self._called(index)} would have to be the number {value:g}"

    def _called(self, index: int) -> str:
        node = self.subject.graph.nodes[index]
        if node.op == "Const":
            return f"the constant {self.subject.graph.types[index]}"
        if node.op == "Input":
            return f"the input {node.attrs[0]}"
        label = self.labels.get(index, "")
        return label if node.op in label else f"the {node.op} {label}".rstrip()


@dataclass(frozen=True)
class _Binding:
    tensors: Mapping[str, int] = field(default_factory=dict[str, int])
    attributes: Mapping[str, AttrValue] = field(default_factory=dict[str, AttrValue])
    matched: int = 0
    reason: str = ""

    def bound(self, name: str, index: int) -> _Binding:
        return _Binding({**self.tensors, name: index}, self.attributes, self.matched)

    def failed(self, reason: str) -> _Binding:
        return _Binding(self.tensors, self.attributes, self.matched, reason)


def _form(pattern: App) -> str:
    """A pattern without its attributes."""
    inner = [
        _form(o) if isinstance(o, App) else o.name if isinstance(o, Var) else f"{o.value:g}" for o in pattern.operands
    ]
    return f"{pattern.op}({', '.join(inner)})"
