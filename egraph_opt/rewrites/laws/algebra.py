"""Element-wise algebra with constants.

By hand because they hold back: each is an axiom in a direction that would enlarge every e-graph, and is applied to
constants alone (``const``), of which the generator knows nothing. Commutativity is what it takes for granted.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule

_SAME = "shape(out) == shape(x)"

RULES: tuple[Rule, ...] = (
    rule("add-commutes", "Add(x, y)", "Add(y, x)", float_class="exact", family="commutative"),
    rule("mul-commutes", "Mul(x, y)", "Mul(y, x)", float_class="exact", family="commutative"),
    rule("sub-zero", "Sub(x, 0)", "x", _SAME, float_class="exact", family="unit"),
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
)
