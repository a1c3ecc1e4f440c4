"""Element-wise algebra, with broadcasting: order and grouping, units, signs, quotients, exponentials, extremes."""

from __future__ import annotations

from functools import partial

from egraph_opt.axioms.record import axiom

_law = partial(axiom, family="elementwise")
_SAME = "shape(out) == shape(x)"
_ZEROS = "Fill(shape=shape(out), value=0.0, dtype=dtype(x))"

_SUMS_AND_PRODUCTS = (
    _law("add-commutative", "Add(x, y)", "Add(y, x)", float_class="exact", source="TASO A2"),
    _law("mul-commutative", "Mul(x, y)", "Mul(y, x)", float_class="exact", source="TASO A4"),
    _law("add-associative", "Add(x, Add(y, z))", "Add(Add(x, y), z)", float_class="overflow-risk", source="TASO A1"),
    _law(
        "mul-associative",
        "Mul(x, Mul(y, z))",
        "Mul(Mul(x, y), z)",
        float_class="overflow-risk",
        source="TASO A3, A6, A8",
    ),
    _law(
        "mul-distributive",
        "Mul(Add(x, y), z)",
        "Add(Mul(x, z), Mul(y, z))",
        float_class="overflow-risk",
        source="TASO A5, A7",
    ),
    _law("add-zero", "Add(x, 0)", "x", _SAME),
    _law("mul-one", "Mul(x, 1)", "x", _SAME, float_class="exact", source="TASO A42"),
    _law("mul-zero", "Mul(x, 0)", _ZEROS, float_class="drops-nonfinite"),
    _law("neg-of-neg", "Neg(Neg(x))", "x", float_class="exact"),
    _law("neg-is-product", "Neg(x)", "Mul(x, -1)", float_class="exact"),
    _law("neg-of-sum", "Neg(Add(x, y))", "Add(Neg(x), Neg(y))"),
    _law("sub-is-sum", "Sub(x, y)", "Add(x, Neg(y))", float_class="exact"),
    _law("sub-of-itself", "Sub(x, x)", _ZEROS, float_class="drops-nonfinite"),
)
_QUOTIENTS = (
    _law("div-is-product", "Div(x, y)", "Mul(x, Reciprocal(y))", definition=True, float_class="drops-nonfinite"),
    _law(
        "reciprocal-of-product",
        "Reciprocal(Mul(x, y))",
        "Mul(Reciprocal(x), Reciprocal(y))",
        definition=True,
        float_class="drops-nonfinite",
    ),
    _law("reciprocal-of-reciprocal", "Reciprocal(Reciprocal(x))", "x", definition=True, float_class="overflow-risk"),
    _law("reciprocal-of-neg", "Reciprocal(Neg(x))", "Neg(Reciprocal(x))", definition=True, float_class="exact"),
    _law("div-one", "Div(x, 1)", "x", _SAME, definition=True, float_class="exact"),
    _law("square-is-product", "Pow(x, 2)", "Mul(x, x)", definition=True),
)
_EXPONENTIALS = (
    _law(
        "exp-of-sum",
        "Exp(Add(x, y))",
        "Mul(Exp(x), Exp(y))",
        definition=True,
        float_class="drops-nonfinite",
        source="calculus",
    ),
    _law("exp-of-neg", "Exp(Neg(x))", "Reciprocal(Exp(x))", definition=True, source="calculus"),
    _law("log-of-exp", "Log(Exp(x))", "x", definition=True, float_class="drops-nonfinite", source="calculus"),
)
_EXTREMES = (
    *(
        _law(f"{op.lower()}-commutative", f"{op}(x, y)", f"{op}(y, x)", needs_order=True, source="order")
        for op in ("Max", "Min")
    ),
    *(
        _law(
            f"{op.lower()}-associative",
            f"{op}(x, {op}(y, z))",
            f"{op}({op}(x, y), z)",
            needs_order=True,
            source="order",
        )
        for op in ("Max", "Min")
    ),
    *(
        _law(f"{op.lower()}-idempotent", f"{op}(x, x)", "x", needs_order=True, float_class="exact", source="order")
        for op in ("Max", "Min")
    ),
    _law("min-by-max", "Min(x, y)", "Neg(Max(Neg(x), Neg(y)))", needs_order=True, source="order"),
    _law("add-over-max", "Add(Max(x, y), z)", "Max(Add(x, z), Add(y, z))", needs_order=True, source="order"),
    _law("relu-is-max", "Relu(x)", "Max(x, 0)", needs_order=True, source="definition of Relu"),
    _law("abs-is-max", "Abs(x)", "Max(x, Neg(x))", needs_order=True, source="definition of Abs"),
    _law("relu-idempotent", "Relu(Relu(x))", "Relu(x)", needs_order=True, float_class="exact", source="order"),
    _law(
        "clip-is-min-max",
        "Clip(x, min=p, max=q)",
        "Min(Max(x, Fill(shape=(), value=p, dtype=dtype(x))), Fill(shape=(), value=q, dtype=dtype(x)))",
        "p != None",
        "q != None",
        needs_order=True,
        source="definition of Clip",
    ),
    _law(
        "clip-of-clip",
        "Clip(Clip(x, min=p, max=q), min=r, max=s)",
        "Clip(x, min=highest(p, r), max=s if q == None else lowest(q if r == None else max(q, r), s))",
        needs_order=True,
        float_class="exact",
        source="definition of Clip",
    ),
    _law(
        "clip-of-relu",
        "Clip(Relu(x), min=p, max=q)",
        "Clip(x, min=highest(p, 0.0), max=q)",
        needs_order=True,
        float_class="exact",
        source="definition of Clip",
    ),
    _law(
        "relu-of-clip",
        "Relu(Clip(x, min=p, max=q))",
        "Clip(x, min=highest(p, 0.0), max=None if q == None else max(q, 0.0))",
        needs_order=True,
        float_class="exact",
        source="definition of Clip",
    ),
)

AXIOMS = (*_SUMS_AND_PRODUCTS, *_QUOTIENTS, *_EXPONENTIALS, *_EXTREMES)
