"""Why a condition does not hold, with the sizes and attributes that it was asked about."""

from __future__ import annotations

import ast

from egraph_opt.ir import AttrValue, TensorType
from egraph_opt.terms.expressions import Environment, Undefined, evaluate, names_in


def why_not(condition: str, environment: Environment) -> str | None:
    """One sentence on a condition that does not hold; ``None`` where it does."""
    try:
        if evaluate(condition, environment):
            return None
    except Undefined:
        return f"{condition} has no value for {_given(condition, environment)}"
    return _explained(ast.parse(condition, mode="eval").body, environment)


def said(value: AttrValue | TensorType) -> str:
    """A value as people read it."""
    if isinstance(value, tuple):
        return f"({', '.join(said(v) for v in value)}{',' * (len(value) == 1)})"
    if isinstance(value, float):
        return f"{value:.6g}"
    return repr(value) if isinstance(value, str) else str(value)


def _explained(tree: ast.expr, environment: Environment) -> str:
    text = ast.unparse(tree)
    match tree:
        case ast.BoolOp(op=ast.And(), values=values):
            found = (why_not(ast.unparse(v), environment) for v in values)
            return next(why for why in found if why)
        case ast.Compare(left=left, comparators=[right]):
            sides = [(ast.unparse(side), evaluate(ast.unparse(side), environment)) for side in (left, right)]
            shown = [f"{side} is {said(value)}" for side, value in sides if side != said(value)]
            return f"it needs {text}, but {' and '.join(dict.fromkeys(shown))}"
        case _:
            return f"it needs {text}, which does not hold for {_given(text, environment)}"


def _given(text: str, environment: Environment) -> str:
    names = sorted(names_in(text))
    return ", ".join(f"{name}: {said(environment[name])}" for name in names if name in environment) or "these types"
