"""Draws cases of a rule: types and attributes under which its left side is well-typed and its conditions hold.

Cases are completed by the operators themselves, bottom-up and independently of what the author of a rule had in mind:
shapes that broadcast, groups, strides, paddings and axes all occur unless a condition rules them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops import IllTyped, operator
from egraph_opt.terms.equation import Equation
from egraph_opt.terms.expressions import Undefined, evaluate, names_in
from egraph_opt.terms.pattern import App, Expr, Number, Pattern, Var, walk

Rng = np.random.Generator


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
    rule: Equation, rng: Rng, attempts: int = 4000, tensors: Mapping[str, TensorType] | None = None
) -> Case | None:
    """A random case of the rule, or ``None`` when the conditions never held. ``tensors``: types that are given."""
    computed = sorted({e.text for q in rule.rhs for p in walk(q) if isinstance(p, App) for e in p.attrs})
    given = _equations(rule)
    for _ in range(attempts):
        case = Case(dict(tensors or {}))
        try:
            case.roots = tuple(_left(pattern, case, rng, given) for pattern in rule.lhs)
            if all(evaluate(condition, case.environment) for condition in rule.conditions):
                for text in computed:  # a rule does not apply where an attribute that it computes is undefined
                    evaluate(text, case.environment)
                return case
        except (Rejected, Undefined, IllTyped):
            continue
    return None


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
    return tuple(e.literal if e.is_literal else evaluate(e.text, case.environment) for e in attrs)


def _equations(rule: Equation) -> dict[str, str]:
    """Attributes that a condition ``name == expression`` determines: drawing them at random would hardly ever fit."""
    sides = [tuple(part.strip() for part in c.split("==")) for c in rule.conditions if c.count("==") == 1]
    return {
        s[0]: s[1] for s in sides if s[0] in rule.attributes and names_in(s[1]) <= {*rule.tensors, *rule.attributes}
    }


def _left(pattern: Pattern, case: Case, rng: Rng, given: dict[str, str]) -> Type:
    assert isinstance(pattern, App)
    late = [isinstance(o, App) and _takes_any_type(o, case) for o in pattern.operands]
    inner: list[Type | None] = [
        _left(operand, case, rng, given) if isinstance(operand, App) and not wait else case.tensors.get(_name(operand))
        for operand, wait in zip(pattern.operands, late, strict=True)
    ]
    attrs = tuple(_known(e, case, given) for e in pattern.attrs)
    # attributes whose value is None are given: operators take None for "draw one", so those are put back afterwards
    asked = [None if a is _UNKNOWN else a for a in attrs]
    sample = operator(pattern.op).complete(rng, asked, inner)  # type: ignore[arg-type]
    if sample is None:
        raise Rejected
    # an operator may write a number that it was given in its own way (1 as 1.0)
    chosen = tuple(
        new if old is _UNKNOWN or (old is not None and new == old) else old
        for old, new in zip(attrs, sample.attrs, strict=True)
    )
    for expression, value in zip(pattern.attrs, chosen, strict=True):
        if expression.is_name and case.attributes.setdefault(expression.text, value) != value:
            raise Rejected
    types: list[Type] = []
    for operand, type_, wait in zip(pattern.operands, sample.types, late, strict=True):
        if wait:
            assert isinstance(operand, App) and isinstance(operand.operands[0], Var)
            case.tensors.setdefault(operand.operands[0].name, type_)
            types.append(_left(operand, case, rng, given))
        elif isinstance(operand, Var):
            types.append(case.tensors.setdefault(operand.name, type_))
        elif isinstance(operand, Number):
            types.append(case.numbers.setdefault(id(operand), type_))
        else:
            types.append(type_)
    return operator(pattern.op).infer(chosen, types)  # type: ignore[arg-type]


def _takes_any_type(pattern: App, case: Case) -> bool:
    """Whether this is an element-wise operator of a tensor that has no type yet: its surroundings may choose one."""
    return (
        operator(pattern.op).preserves_type
        and isinstance(pattern.operands[0], Var)
        and pattern.operands[0].name not in case.tensors
    )


def _known(expression: Expr, case: Case, given: dict[str, str]) -> AttrValue:
    if expression.is_literal:
        return expression.literal
    if expression.text in case.attributes:
        return case.attributes[expression.text]
    if expression.text in given and names_in(given[expression.text]) <= {*case.attributes, *case.tensors}:
        return evaluate(given[expression.text], case.environment)
    return _UNKNOWN


def _name(operand: Pattern) -> str:
    return operand.name if isinstance(operand, Var) else ""


_UNKNOWN = object()
