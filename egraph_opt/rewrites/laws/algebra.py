"""Element-wise algebra: units, order of constants, subtraction and division by constants, distribution."""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule

_SAME = "shape(out) == shape(x)"

RULES: tuple[Rule, ...] = (
    rule("add-commutes", "Add(x, y)", "Add(y, x)", float_class="exact", family="commutative"),
    rule("mul-commutes", "Mul(x, y)", "Mul(y, x)", float_class="exact", family="commutative"),
    rule("add-zero", "Add(x, 0)", "x", _SAME, family="unit"),
    rule("zero-add", "Add(0, x)", "x", _SAME, family="unit"),
    rule("one-mul", "Mul(1, x)", "x", _SAME, float_class="exact", family="unit"),
    rule("sub-zero", "Sub(x, 0)", "x", _SAME, float_class="exact", family="unit"),
    rule("mul-one", "Mul(x, 1)", "x", _SAME, float_class="exact", family="unit"),
    rule("div-one", "Div(x, 1)", "x", _SAME, float_class="exact", family="unit"),
    rule("neg-neg", "Neg(Neg(x))", "x", float_class="exact", family="unit"),
    rule(
        "add-constants",
        "Add(Add(x, a), b)",
        "Add(x, Add(a, b))",
        "const(a)",
        "const(b)",
        float_class="overflow-risk",
        family="fold-constants",
    ),
    rule(
        "mul-constants",
        "Mul(Mul(x, a), b)",
        "Mul(x, Mul(a, b))",
        "const(a)",
        "const(b)",
        float_class="overflow-risk",
        family="fold-constants",
    ),
    rule(
        "sub-constant",
        "Sub(x, a)",
        "Add(x, Neg(a))",
        "const(a)",
        float_class="exact",
        family="fold-constants",
    ),
    rule(
        "div-constant",
        "Div(x, a)",
        "Mul(x, Reciprocal(a))",
        "const(a)",
        float_class="overflow-risk",
        family="fold-constants",
    ),
    rule(
        "scale-of-sum",
        "Mul(Add(x, a), b)",
        "Add(Mul(x, b), Mul(a, b))",
        "const(a)",
        "const(b)",
        float_class="overflow-risk",
        family="fold-constants",
    ),
    rule(
        "common-factor",
        "Add(Mul(x, z), Mul(y, z))",
        "Mul(Add(x, y), z)",
        float_class="overflow-risk",
        family="factor",
    ),
)
