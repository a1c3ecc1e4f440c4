"""Draws cases of a rule: types and attributes under which its left side is well-typed and its conditions hold.

Cases are completed by the operators themselves, bottom-up and independently of what the author of a rule had in mind:
shapes that broadcast, groups, strides, paddings and axes all occur unless a condition rules them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from operator import is_

import numpy as np

from egraph_opt.ir import INTEGERS, AttrValue, TensorType, Type
from egraph_opt.ops import IllTyped, Operator, Sample, operator
from egraph_opt.ops.draws import one_of
from egraph_opt.terms.equation import Equation
from egraph_opt.terms.expressions import Undefined, evaluate, names_in
from egraph_opt.terms.facts import MISSING, Fact, facts_of, fitted
from egraph_opt.terms.pattern import App, Expr, Number, Pattern, Var, walk

Rng = np.random.Generator
ATTEMPTS = 4_000
"""Draws before a case is given up: where no condition says how shapes agree, some fit once in a few hundred."""
FREELY = 32
"""Draws after which every other one gives operands of one form tensors of nearly the same shapes: those of a ``Concat``
or a sum seldom fit otherwise."""
INDEX_DTYPES = ("int32", "int64")


@dataclass
class Case:
    """Types of a rule's tensors and values of its attributes; ``numbers`` holds the shapes drawn for literals.

    ``limits`` holds the lowest and the highest value of each tensor that may not hold just anything (indices).
    """

    tensors: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    attributes: dict[str, AttrValue] = field(default_factory=dict[str, AttrValue])
    numbers: dict[int, TensorType] = field(default_factory=dict[int, TensorType])
    roots: tuple[Type, ...] = ()
    limits: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])

    @property
    def environment(self) -> dict[str, AttrValue | TensorType]:
        """What expressions of the rule see."""
        out = {"out": self.roots[0]} if self.roots else {}
        return {**self.attributes, **self.tensors, **out}

    def __str__(self) -> str:
        shown = [f"{n}: {t}" for n, t in self.tensors.items()]
        shown += [f"number: {t}" for t in self.numbers.values()]
        return ", ".join(shown + [f"{n}={v!r}" for n, v in self.attributes.items()])


class Rejected(Exception):  # noqa: N818 - the usual end of a draw, not a failure
    """This draw does not fit the rule; draw again."""


def draw(
    rule: Equation, rng: Rng, attempts: int = ATTEMPTS, tensors: Mapping[str, TensorType] | None = None
) -> Case | None:
    """A random case of the rule, or ``None`` when the conditions never held. ``tensors``: types that are given."""
    return Sampler(rule, (tensors or {}).keys()).draw(rng, attempts, tensors)


@dataclass(frozen=True, slots=True)
class _Node:
    """An operator of a left side, with what drawing asks of it over and over.

    Attributes:
        known: values of attributes that are literals; ``_UNKNOWN`` for the others.
        names: names of attributes that are names, ``""`` for the others.
        leaves: per operand the name of a tensor, or ``""``.
        early: operands that are operators and are drawn before it.
        late: those that are drawn with it: they are element-wise on a tensor that has no type before.
        preserves: operands that have the type of a tensor: itself, or what an operator is element-wise on.
        numbers: per operand the key of a literal in ``Case.numbers``, or 0.
        first: its tensors that its attributes depend on, by a condition.
        conditions: those that can be answered when it is drawn, and not before.
        indexes: whether its value serves as an index.
        twins: its tensors, each with that in its place in an operand of the same form which is drawn before.
    """

    declared: Operator
    known: tuple[AttrValue, ...]
    names: tuple[str, ...]
    leaves: tuple[str, ...]
    early: tuple[tuple[int, _Node], ...]
    late: dict[int, _Node]
    preserves: dict[int, str]
    numbers: tuple[int, ...]
    first: frozenset[str]
    conditions: tuple[str, ...]
    indexes: bool
    twins: tuple[tuple[str, str], ...]


class Sampler:
    """Draws cases of one rule; what the rule says is looked up once."""

    def __init__(self, rule: Equation, given: Set[str] = frozenset()) -> None:
        self.facts = facts_of(rule)
        self.computed = sorted({e.text for q in rule.rhs for p in walk(q) if isinstance(p, App) for e in p.attrs})
        self.waiting = list(rule.conditions)  # those that are left when all nodes are made read the type of a root
        known = set(given)
        self.nodes = tuple(self._node(p, known) for p in rule.lhs)
        self.limited = tuple(p for p in rule.lhs if any(_is_limited(q) for q in walk(p)))

    def _node(self, pattern: Pattern, known: set[str], *, indexes: bool = False, like: Sequence[Pattern] = ()) -> _Node:
        """The node of a pattern. Nodes are made in the order in which they are drawn; ``known`` is drawn before, and of
        that ``like`` are operands of the same operator."""
        assert isinstance(pattern, App)
        declared, operands = operator(pattern.op), pattern.operands
        preserves = [_preserved(o) for o in operands]
        waits = [isinstance(o, App) and bool(n) and n not in known for o, n in zip(operands, preserves, strict=True)]
        twins = next((pairs for other in like if (pairs := _twins(pattern, other)) is not None), [])
        twins = tuple((name, twin) for name, twin in twins if name not in known)
        children: list[tuple[int, _Node]] = []
        before: list[Pattern] = []
        for index in sorted(range(len(operands)), key=waits.__getitem__):
            operand = operands[index]
            if isinstance(operand, App):
                below = indexes or index in declared.indices
                others = () if waits[index] else before
                children.append((index, self._node(operand, known, indexes=below, like=others)))
                before += [operand] * declared.alike
        names = tuple(e.text if e.is_name else "" for e in pattern.attrs)
        leaves = tuple(o.name if isinstance(o, Var) else "" for o in operands)
        reads = {r for name in names if name not in known for f in self.facts.get(name, ()) for r in f.reads}
        first = frozenset(reads & set(leaves) - known)
        known.update(names, leaves)
        ready = tuple(c for c in self.waiting if names_in(c) <= known)
        self.waiting = [c for c in self.waiting if c not in ready]
        return _Node(
            declared,
            tuple(e.literal if e.is_literal else _UNKNOWN for e in pattern.attrs),  # type: ignore[misc]
            names,
            leaves,
            tuple(child for child in children if not waits[child[0]]),
            {index: child for index, child in children if waits[index]},
            {index: name for index, name in enumerate(preserves) if name},
            tuple(id(o) if isinstance(o, Number) else 0 for o in operands),
            first,
            ready,
            indexes,
            twins,
        )

    def draw(self, rng: Rng, attempts: int = ATTEMPTS, tensors: Mapping[str, TensorType] | None = None) -> Case | None:
        """A random case, or ``None`` when the conditions never held. ``tensors``: types that are given."""
        for number in range(attempts):
            attempt = _Attempt(self.facts, rng, tensors or {}, alike=number >= FREELY and number % 2 == 1)
            try:
                roots = tuple([attempt.node(node) for node in self.nodes])
                case = Case(attempt.tensors, attempt.attributes, attempt.numbers, roots)
                environment = case.environment
                if all(evaluate(condition, environment) for condition in self.waiting):
                    for text in self.computed:  # a rule does not apply where an attribute that it computes is undefined
                        evaluate(text, environment)
                    for pattern in self.limited:
                        _limit(pattern, case)
                    return case
            except (Rejected, Undefined, IllTyped):
                continue
        return None


class _Attempt:
    """One attempt at a case: it is drawn bottom-up, and as conditions say. Most fail, so that each counts."""

    def __init__(
        self, facts: Mapping[str, Sequence[Fact]], rng: Rng, tensors: Mapping[str, TensorType], *, alike: bool
    ) -> None:
        self.facts, self.rng, self.alike = facts, rng, alike
        self.tensors = dict(tensors)
        self.attributes: dict[str, AttrValue] = {}
        self.numbers: dict[int, TensorType] = {}
        self.known: dict[str, AttrValue | TensorType] = dict(tensors)
        self.index_dtype = ""

    def node(self, node: _Node) -> Type:
        """The type of a node, with everything below it drawn."""
        if self.alike:
            for name, twin in node.twins:
                self._tensor(name, _varied(self.tensors[twin], self.rng))
        inner: list[Type | None] = [None] * len(node.leaves)
        for index, child in node.early:
            inner[index] = self.node(child)
        asked, sample = self._completed(node, inner)
        if node.first and not node.first <= self.known.keys():
            for name, type_ in zip(node.leaves, sample.types, strict=True):
                if name in node.first:
                    self._tensor(name, type_)
            asked, sample = self._completed(node, inner)
        chosen = [self._attribute(*each) for each in zip(node.names, asked, sample.attrs, strict=True)]
        types: list[Type] = [self._whole(t) for t in sample.types] if node.indexes else list(sample.types)
        for index, drawn in enumerate(types):
            if node.leaves[index]:
                types[index] = self._tensor(node.leaves[index], drawn)
            elif node.numbers[index]:
                types[index] = self.numbers.setdefault(node.numbers[index], drawn)  # type: ignore[arg-type]
            elif index in node.late:
                self._tensor(node.preserves[index], drawn)
                types[index] = self.node(node.late[index])
        made = _result(node.declared, sample, chosen, types)
        for condition in node.conditions:
            if not evaluate(condition, self.known):
                raise Rejected
        return made

    def _completed(self, node: _Node, inner: Sequence[Type | None]) -> tuple[Sequence[AttrValue], Sample]:
        """What of the attributes of a node is known, and a sample with that and with the types that are known."""
        asked: Sequence[AttrValue] = node.known
        if node.names:
            asked = list(asked)
            for index, name in enumerate(node.names):
                if name:
                    asked[index] = self.known[name] if name in self.known else self._determined(name, asked[index])  # type: ignore[assignment]
        types = list(inner)
        for index, name in node.preserves.items():
            types[index] = types[index] or self.tensors.get(name)
        # attributes whose value is None are given: operators take None for "draw one"
        given = [None if a is _UNKNOWN else a for a in asked]
        sample = node.declared.complete(self.rng, given, types)  # type: ignore[arg-type]
        if sample is None:
            raise Rejected
        return asked, sample

    def _attribute(self, name: str, asked: AttrValue, drawn: AttrValue) -> AttrValue:
        """The value of an attribute: as it was asked for, else as a condition says, else as drawn."""
        # an operator may write a number that it was given in its own way (1 as 1.0)
        value = drawn if asked is _UNKNOWN or (asked is not None and drawn == asked) else asked
        if not name:
            return value
        if asked is _UNKNOWN and name in self.facts:
            self.known[name] = value
            value = self._determined(name, value)
        if self.attributes.setdefault(name, value) != value:
            raise Rejected
        self.known[name] = self.attributes[name]
        return value

    def _determined(self, name: str, otherwise: AttrValue) -> AttrValue:
        """The value of an attribute that conditions determine by what is known."""
        for fact in self.facts.get(name, ()):
            if fact.reads <= self.known.keys():
                return evaluate(fact.value, self.known)
        return otherwise

    def _whole(self, type_: TensorType) -> TensorType:
        """``type_`` as part of an index: operators draw floats, and all parts have one dtype."""
        if not isinstance(type_, TensorType) or type_.dtype in INTEGERS:
            return type_
        self.index_dtype = self.index_dtype or one_of(self.rng, INDEX_DTYPES)
        return TensorType(self.index_dtype, type_.shape)

    def _tensor(self, name: str, drawn: Type) -> TensorType:
        """The type of a tensor: ``drawn`` as far as conditions say nothing else, if it has none yet."""
        found = self.tensors.get(name)
        if found is None:
            assert isinstance(drawn, TensorType)
            facts = self.facts.get(name)
            shape = fitted(drawn.shape, facts, self.known, self.rng) if facts else drawn.shape
            found = drawn if shape == drawn.shape else TensorType(drawn.dtype, shape)
            self.tensors[name] = self.known[name] = found
        return found


def _result(declared: Operator, sample: Sample, attrs: Sequence[AttrValue], types: Sequence[Type]) -> Type:
    """The type of an operator: that of the sample, where that is taken as it is; raises IllTyped."""
    if sample.result is not None and all(map(is_, (*attrs, *types), (*sample.attrs, *sample.types))):
        return sample.result
    return declared.infer(tuple(attrs), types)  # type: ignore[arg-type]


def _twins(pattern: Pattern, other: Pattern) -> list[tuple[str, str]] | None:
    """Tensors of a pattern with those in their places in the other one; ``None`` where that has another form."""
    match pattern, other:
        case Var(name), Var(twin):
            return [(name, twin)] if name != twin else []
        case App(op, _, operands), App(op_of_other, _, others) if op == op_of_other and len(operands) == len(others):
            inner = [_twins(a, b) for a, b in zip(operands, others, strict=True)]
            return None if None in inner else [pair for pairs in inner for pair in pairs or ()]
        case Number(), Number():
            return []
        case _:
            return None


def _varied(type_: TensorType, rng: Rng) -> TensorType:
    """A type of the same rank, most sizes of which are the same."""
    shape = tuple([size if rng.random() < 0.75 else int(rng.integers(*MISSING)) for size in type_.shape])
    return TensorType(type_.dtype, shape)


def _preserved(pattern: Pattern) -> str:
    """The tensor whose type a pattern has: itself, or what an operator is element-wise on; empty for others."""
    if isinstance(pattern, Var):
        return pattern.name
    if isinstance(pattern, App) and operator(pattern.op).preserves_type:
        operand = pattern.operands[0]
        return operand.name if isinstance(operand, Var) else ""
    return ""


def _is_limited(pattern: Pattern) -> bool:
    """Whether it is an operator with indices, which limits what those may hold."""
    return isinstance(pattern, App) and bool(operator(pattern.op).indices)


def _limit(pattern: Pattern, case: Case, asked: tuple[int, int] | None = None) -> None:
    """Notes what the tensors of a left side may hold, so that its values lie in ``asked`` and it has a value at all.

    What is asked of an operator that only rearranges is asked of the operands that it rearranges. Of one that computes
    it is not: the gates refuse a rule whose left side then has no value.

    Raises:
        Rejected: there is no such value (an index of an empty axis).
    """
    match pattern:
        case Var(name) if asked is not None:
            low, high = case.limits.get(name, asked)
            case.limits[name] = low, high = max(low, asked[0]), min(high, asked[1])
            if low > high:
                raise Rejected
        case App(op, attrs, operands):
            declared = operator(op)
            types = [_left_type(o, case) for o in operands]
            own = declared.limits(attribute_values(attrs, case), types)  # type: ignore[arg-type]
            passed = asked if declared.rearranges else None
            for operand, limits in zip(operands, own, strict=True):
                _limit(operand, case, limits or passed)
        case _:
            pass


def _left_type(pattern: Pattern, case: Case) -> Type:
    """The type of a term of the left side under a case."""
    match pattern:
        case Var(name):
            return case.tensors[name]
        case Number():
            return case.numbers[id(pattern)]
        case App(op, attrs, operands):
            types = [_left_type(o, case) for o in operands]
            return operator(op).infer(attribute_values(attrs, case), types)  # type: ignore[arg-type]


def attribute_values(attrs: tuple[Expr, ...], case: Case) -> tuple[AttrValue, ...]:
    """Attributes of a pattern under a case."""
    if all(e.is_literal for e in attrs):
        return tuple(e.literal for e in attrs)
    environment = case.environment
    return tuple(e.literal if e.is_literal else evaluate(e.text, environment) for e in attrs)


_UNKNOWN = object()
