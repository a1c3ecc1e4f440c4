"""Draws cases of a rule: types and attributes under which its left side is well-typed and its conditions hold.

Cases are completed by the operators themselves, bottom-up and independently of what the author of a rule had in mind:
shapes that broadcast, groups, strides, paddings and axes all occur unless a condition rules them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops import IllTyped, Operator, operator
from egraph_opt.terms.equation import Equation
from egraph_opt.terms.expressions import Undefined, evaluate, names_in
from egraph_opt.terms.pattern import App, Expr, Number, Pattern, Var, walk

Rng = np.random.Generator
ATTEMPTS = 12_000
"""Draws before a case is given up: shapes that four tensors have to agree on come up once in about a thousand."""


@dataclass
class Case:
    """Types of a rule's tensors and values of its attributes; ``numbers`` holds the shapes drawn for literals."""

    tensors: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    attributes: dict[str, AttrValue] = field(default_factory=dict[str, AttrValue])
    numbers: dict[int, TensorType] = field(default_factory=dict[int, TensorType])
    roots: tuple[Type, ...] = ()

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
    return Sampler(rule).draw(rng, attempts, tensors)


@dataclass(frozen=True, slots=True)
class _Node:
    """An operator of a left side, with what drawing asks of it over and over.

    Attributes:
        known: values of attributes that are literals; ``_UNKNOWN`` for the others.
        names: names of attributes that are names, ``""`` for the others.
        leaves: per operand the name of a tensor, or ``""``.
        children: per operand its node, if it is an operator.
        numbers: per operand the key of a literal in ``Case.numbers``, or 0.
        preserves: per operand the tensor whose type it has: a child that is element-wise on one tensor.
    """

    declared: Operator
    known: tuple[AttrValue, ...]
    names: tuple[str, ...]
    leaves: tuple[str, ...]
    children: tuple[_Node | None, ...]
    numbers: tuple[int, ...]
    preserves: tuple[str, ...]


class Sampler:
    """Draws cases of one rule; what the rule says is looked up once."""

    def __init__(self, rule: Equation) -> None:
        self.nodes = tuple(_node(p) for p in rule.lhs)
        self.conditions = rule.conditions
        self.computed = sorted({e.text for q in rule.rhs for p in walk(q) if isinstance(p, App) for e in p.attrs})
        self.given = _equations(rule)

    def draw(self, rng: Rng, attempts: int = ATTEMPTS, tensors: Mapping[str, TensorType] | None = None) -> Case | None:
        """A random case, or ``None`` when the conditions never held. ``tensors``: types that are given."""
        for _ in range(attempts):
            case = Case(dict(tensors or {}))
            try:
                case.roots = tuple(self._type(node, case, rng) for node in self.nodes)
                environment = case.environment
                if all(evaluate(condition, environment) for condition in self.conditions):
                    for text in self.computed:  # a rule does not apply where an attribute that it computes is undefined
                        evaluate(text, environment)
                    return case
            except (Rejected, Undefined, IllTyped):
                continue
        return None

    def _type(self, node: _Node, case: Case, rng: Rng) -> Type:
        """The type of a node, with everything below it drawn."""
        tensors = case.tensors
        # an element-wise operator of a tensor that has no type yet: its surroundings may choose one
        late = [bool(name) and name not in tensors for name in node.preserves]
        inner: list[Type | None] = [
            self._type(child, case, rng) if child is not None and not wait else tensors.get(leaf)
            for leaf, child, wait in zip(node.leaves, node.children, late, strict=True)
        ]
        attrs = self._attributes(node, case)
        # attributes whose value is None are given: operators take None for "draw one", so those are put back afterwards
        asked = [None if a is _UNKNOWN else a for a in attrs]
        sample = node.declared.complete(rng, asked, inner)  # type: ignore[arg-type]
        if sample is None:
            raise Rejected
        # an operator may write a number that it was given in its own way (1 as 1.0)
        chosen = tuple(
            new if old is _UNKNOWN or (old is not None and new == old) else old
            for old, new in zip(attrs, sample.attrs, strict=True)
        )
        for name, value in zip(node.names, chosen, strict=True):
            if name and case.attributes.setdefault(name, value) != value:
                raise Rejected
        types: list[Type] = []
        for index, type_ in enumerate(sample.types):
            if late[index]:
                tensors.setdefault(node.preserves[index], type_)
                child = node.children[index]
                assert child is not None
                types.append(self._type(child, case, rng))
            elif node.leaves[index]:
                types.append(tensors.setdefault(node.leaves[index], type_))
            elif node.numbers[index]:
                types.append(case.numbers.setdefault(node.numbers[index], type_))
            else:
                types.append(type_)
        return node.declared.infer(chosen, types)  # type: ignore[arg-type]

    def _attributes(self, node: _Node, case: Case) -> list[AttrValue]:
        """Attributes that are literals, that have been drawn, or that a condition determines; else ``_UNKNOWN``."""
        values = list(node.known)
        for index, name in enumerate(node.names):
            if name in case.attributes:
                values[index] = case.attributes[name]
            elif name in self.given:
                text = self.given[name]
                if names_in(text) <= {*case.attributes, *case.tensors}:
                    values[index] = evaluate(text, case.environment)
        return values


def _node(pattern: Pattern) -> _Node:
    assert isinstance(pattern, App)
    operands = pattern.operands
    return _Node(
        operator(pattern.op),
        tuple(e.literal if e.is_literal else _UNKNOWN for e in pattern.attrs),  # type: ignore[misc]
        tuple(e.text if e.is_name else "" for e in pattern.attrs),
        tuple(o.name if isinstance(o, Var) else "" for o in operands),
        tuple(_node(o) if isinstance(o, App) else None for o in operands),
        tuple(id(o) if isinstance(o, Number) else 0 for o in operands),
        tuple(_preserved(o) for o in operands),
    )


def _preserved(pattern: Pattern) -> str:
    """The tensor whose type an element-wise operator of one tensor has; empty for other patterns."""
    if isinstance(pattern, App) and operator(pattern.op).preserves_type:
        operand = pattern.operands[0]
        return operand.name if isinstance(operand, Var) else ""
    return ""


def right_type(pattern: Pattern, rule: Equation, case: Case) -> Type:
    """The type of a right-hand side under a case.

    Raises:
        IllTyped, Undefined: it has none.
    """
    match pattern:
        case Var(name):
            return case.tensors[name]
        case Number():
            root = case.roots[0]
            assert isinstance(root, TensorType)
            return TensorType(root.dtype, ())
        case App(op, attrs, operands):
            types = [right_type(o, rule, case) for o in operands]
            return operator(op).infer(attribute_values(attrs, case), types)  # type: ignore[arg-type]


def attribute_values(attrs: tuple[Expr, ...], case: Case) -> tuple[AttrValue, ...]:
    """Attributes of a pattern under a case."""
    if all(e.is_literal for e in attrs):
        return tuple(e.literal for e in attrs)
    environment = case.environment
    return tuple(e.literal if e.is_literal else evaluate(e.text, environment) for e in attrs)


def _equations(rule: Equation) -> dict[str, str]:
    """Attributes that a condition ``name == expression`` determines: drawing them at random would hardly ever fit."""
    sides = [tuple(part.strip() for part in c.split("==")) for c in rule.conditions if c.count("==") == 1]
    return {
        s[0]: s[1] for s in sides if s[0] in rule.attributes and names_in(s[1]) <= {*rule.tensors, *rule.attributes}
    }


_UNKNOWN = object()
