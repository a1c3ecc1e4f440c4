"""Whether the rules derive a known substitution: from its left side alone, in an e-graph that has never seen the right.

The right side is looked up, not added. An expression of constants is found by its value as well: rules may compute the
same weights in other words.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from egraph_opt.ir import AttrValue, Constant, TensorGraph, TensorType
from egraph_opt.ops import operator
from egraph_opt.rewrites import Effort, Rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.saturation.constants import ConstantFolder
from egraph_opt.saturation.engine import Engine
from egraph_opt.saturation.frozen import freeze
from egraph_opt.saturation.saturate import problem_of
from egraph_opt.terms import App, Case, Equation, Number, Pattern, Var
from egraph_opt.terms.sampling import attribute_values

Array = NDArray[np.generic]
Value = Array | tuple[Array, ...]
ROUNDS = 4
"""Rounds of saturation."""
NODES = 20_000
"""E-nodes after which no new round starts."""
ROUNDING = 1e-12
"""How far two computations of one float64 constant may be apart, relative to its largest element."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """What came of it: the rounds that were needed (or made in vain) and the e-nodes after them."""

    found: bool
    rounds: int
    nodes: int


def derive(
    equation: Equation, case: Case, rules: Sequence[Rule], rng: np.random.Generator, *, rounds: int = ROUNDS
) -> Derivation:
    """Saturates the left side of ``equation`` under ``case``; looks for the right side in its class after each round.

    Tensors are inputs, those that a condition ``const(x)`` names are random positive constants.
    """
    side = _Left(equation, case, rng)
    engine = Engine(problem_of(side.graph, rules))
    number = 0
    while True:
        frozen = freeze(side.graph, engine.snapshot(), rules)
        leaves = {name: frozen.original[index] for name, index in side.leaves.items()}
        lookup = _Lookup(frozen.folder, case, leaves, side.values)
        if all(frozen.original[root] in lookup.classes(p) for root, p in zip(side.roots, equation.rhs, strict=True)):
            return Derivation(True, number, frozen.egraph.node_count)
        full = number == rounds or frozen.egraph.node_count > NODES
        if full or not engine.iterate(merge=number == 0).changed:
            return Derivation(False, number, frozen.egraph.node_count)
        number += 1


def least_effort(equation: Equation, case: Case, seed: int) -> tuple[Effort | None, Derivation]:
    """The effort whose shipped rules derive ``equation`` under ``case`` (``None``: neither), and how."""
    found = Derivation(False, 0, 0)
    for effort in get_args(Effort):
        found = derive(equation, case, all_rules(effort), np.random.default_rng(seed))
        if found.found:
            return effort, found
    return None, found


class _Left:
    """The left side of an equation, under a case, as a graph."""

    def __init__(self, equation: Equation, case: Case, rng: np.random.Generator) -> None:
        self.graph, self.case = TensorGraph(), case
        self.values: dict[str, Array] = {
            name: rng.uniform(0.5, 2.0, t.numbers()).astype(t.dtype)
            for name, t in case.tensors.items()
            if name in equation.constants
        }
        self.leaves = {
            name: self.graph.constant(Constant.of(self.values[name]))
            if name in self.values
            else self.graph.add("Input", (name,), (), t)
            for name, t in case.tensors.items()
        }
        self.roots = [self._place(p) for p in equation.lhs]
        self.graph.outputs = tuple(self.roots)

    def _place(self, pattern: Pattern) -> int:
        match pattern:
            case Var(name):
                return self.leaves[name]
            case Number(value):
                type_ = self.case.numbers[id(pattern)]
                return self.graph.constant(Constant.of(np.full(type_.numbers(), value, type_.dtype)))
            case App(op, attrs, operands):
                placed = [self._place(o) for o in operands]
                known = attribute_values(attrs, self.case)
                type_ = operator(op).infer(known, [self.graph.types[i] for i in placed])  # type: ignore[arg-type]
                return self.graph.add(op, known, placed, type_)


@dataclass
class _Lookup:
    """Classes of an e-graph that hold a term."""

    folder: ConstantFolder
    case: Case
    leaves: Mapping[str, int]
    values: Mapping[str, Array]
    _table: dict[tuple[str, str, tuple[int, ...]], int] = field(init=False)

    def __post_init__(self) -> None:
        self._table = {(e.op, repr(e.attrs), e.operands): e.cls for e in self.folder.enodes}

    def classes(self, pattern: Pattern) -> frozenset[int]:
        """Every class in which ``pattern`` is found."""
        found = {self.leaves[pattern.name]} if isinstance(pattern, Var) else set[int]()
        if isinstance(pattern, App):
            attrs = repr(attribute_values(pattern.attrs, self.case))
            for operands in itertools.product(*(self.classes(o) for o in pattern.operands)):
                cls = self._table.get((pattern.op, attrs, operands))
                if cls is not None:
                    found.add(cls)
        value = self._value(pattern)
        return frozenset(found if value is None else found.union(self._equal(value)))

    def _value(self, pattern: Pattern) -> Value | None:
        """The value of an expression of constants."""
        match pattern:
            case Var(name):
                return self.values.get(name)
            case Number(value):
                root = self.case.roots[0]
                assert isinstance(root, TensorType)
                return np.asarray(value, root.dtype)
            case App(op, attrs, operands):
                known = [self._value(o) for o in operands]
                if any(v is None for v in known):
                    return None
                given: tuple[AttrValue, ...] = attribute_values(attrs, self.case)
                return operator(op).evaluate(given, known)  # type: ignore[arg-type]

    def _equal(self, value: Value) -> Iterator[int]:
        if isinstance(value, tuple):
            return
        type_ = TensorType(value.dtype.name, value.shape)
        scale = float(np.max(np.abs(value.astype(np.float64)), initial=0.0))
        for cls in self.folder.recipe:
            if self.folder.class_types[cls] == type_:
                other = np.asarray(self.folder.value(cls), np.float64)
                if bool(np.all(np.abs(other - value.astype(np.float64)) <= ROUNDING * scale)):
                    yield cls
