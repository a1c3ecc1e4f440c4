"""What of many equations is new: neither an instance of one that is there, nor derivable from those."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from egraph_opt.ir import AttrValue, TensorType, Type
from egraph_opt.ops import IllTyped, operator
from egraph_opt.rewrites.generate.candidates import Candidate
from egraph_opt.rewrites.generate.worlds import World
from egraph_opt.terms import App, Equation, Expr, Number, Pattern, Var
from egraph_opt.terms.expressions import Undefined, evaluate

Binding = tuple[dict[str, Pattern], dict[str, Expr]]


def is_instance(candidate: Candidate, world: World, known: Sequence[Equation]) -> bool:
    """Whether some known equation, or the same read from right to left, is this one with terms for its variables.

    Its conditions must hold for those terms under every assignment of the world.
    """
    return any(
        _instance_of(candidate, world, equation, sides)
        for equation in known
        if len(equation.lhs) == len(candidate.roots)
        for sides in ((equation.lhs, equation.rhs), (equation.rhs, equation.lhs))
    )


def _instance_of(
    candidate: Candidate, world: World, equation: Equation, sides: tuple[tuple[Pattern, ...], tuple[Pattern, ...]]
) -> bool:
    binding: Binding = ({}, {})
    for (left, right), general_left, general_right in zip(candidate.roots, *sides, strict=True):
        if not (_match(general_left, left, binding) and _match(general_right, right, binding)):
            return False
    return all(_conditions_hold(equation, binding, world, index) for index in range(world.assignments))


def _match(general: Pattern, special: Pattern, binding: Binding) -> bool:
    tensors, attributes = binding
    if isinstance(general, Var):
        return tensors.setdefault(general.name, special) == special
    if isinstance(general, Number) or not isinstance(special, App) or not isinstance(general, App):
        return general == special
    if general.op != special.op or len(general.operands) != len(special.operands):
        return False
    for wide, narrow in zip(general.attrs, special.attrs, strict=True):
        if wide.is_name:
            if attributes.setdefault(wide.text, narrow) != narrow:
                return False
        elif wide != narrow:
            return False
    return all(_match(g, s, binding) for g, s in zip(general.operands, special.operands, strict=True))


def _conditions_hold(equation: Equation, binding: Binding, world: World, index: int) -> bool:
    tensors, attributes = binding
    environment: dict[str, AttrValue | TensorType] = {}
    try:
        for name, expression in attributes.items():
            environment[name] = _value(expression, world, index)
        for name, pattern in tensors.items():
            type_ = type_under(pattern, world, index)
            assert isinstance(type_, TensorType)
            environment[name] = type_
        out = type_under(_filled(equation.lhs[0], binding), world, index)
        assert isinstance(out, TensorType)
        environment["out"] = out
        return all(evaluate(condition, environment) for condition in equation.conditions)
    except (Undefined, IllTyped, KeyError):
        return False


def _filled(pattern: Pattern, binding: Binding) -> Pattern:
    tensors, attributes = binding
    if isinstance(pattern, Var):
        return tensors[pattern.name]
    if isinstance(pattern, App):
        attrs = tuple(attributes.get(e.text, e) if e.is_name else e for e in pattern.attrs)
        return App(pattern.op, attrs, tuple(_filled(o, binding) for o in pattern.operands))
    return pattern


def type_under(pattern: Pattern, world: World, index: int) -> Type:
    """The type of a term of the world under one of its assignments.

    Raises:
        IllTyped, Undefined: it has none.
    """
    if isinstance(pattern, Var):
        variable = next(v for v in world.variables if v.name == pattern.name)
        return TensorType("float64", variable.shapes[index])
    if isinstance(pattern, Number):
        return TensorType("float64", ())
    types = [type_under(o, world, index) for o in pattern.operands]
    attrs = tuple(_value(e, world, index) for e in pattern.attrs)
    return operator(pattern.op).infer(attrs, types)  # type: ignore[arg-type]


def _value(expression: Expr, world: World, index: int) -> AttrValue:
    if expression.is_literal:
        return expression.literal
    environment: Mapping[str, AttrValue] = {n: v[index] for n, v in world.attributes.items()}
    return evaluate(expression.text, environment)
