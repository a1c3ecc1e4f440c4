"""Laws that make a graph smaller, and of which the generator keeps only what they follow from.

By hand because pruning takes away what can be derived by larger graphs, and these detours do not load in every run.
Each is proved from the axioms, or is a definition.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule
from egraph_opt.terms import FloatClass

_SAME = "shape(out) == shape(x)"
_WHOLE = ("rank(w) == 2", "rank(x) >= 2")
_MEANS = ("ReduceMean", "ReduceSum")


def _signs() -> tuple[Rule, ...]:
    forms = {
        "sub-of-neg": ("Sub(x, Neg(y))", "Add(x, y)"),
        "neg-of-sub": ("Neg(Sub(x, y))", "Sub(y, x)"),
        "neg-times-neg": ("Mul(Neg(x), Neg(y))", "Mul(x, y)"),
        "times-reciprocal": ("Mul(x, Reciprocal(y))", "Div(x, y)"),
    }
    classes: dict[str, FloatClass] = {"times-reciprocal": "overflow-risk", "neg-of-sub": "reassociate"}
    return (
        *(rule(n, lhs, rhs, float_class=classes.get(n, "exact"), family="signs") for n, (lhs, rhs) in forms.items()),
        *(
            rule(n, lhs, "x", _SAME, "const(a)", float_class="drops-nonfinite", family="cancelled-factor")
            for n, lhs in (("cancelled-factor", "Div(Mul(x, a), a)"), ("cancelled-divisor", "Mul(Div(x, a), a)"))
        ),
    )


def _common() -> tuple[Rule, ...]:
    """What two terms have in common, once."""
    made: list[Rule] = []
    for op, word in (("Add", "sum"), ("Sub", "difference")):
        made.append(
            rule(
                f"quotients-{word}",
                f"{op}(Div(x, z), Div(y, z))",
                f"Div({op}(x, y), z)",
                float_class="drops-nonfinite",
                family="common-factor",
            )
        )
    same = ("shape(w) == shape(v)", "rank(w) == 2")
    made += [
        rule(
            "gate-plus-one",
            "Add(x, Mul(x, s))",
            "Mul(x, Add(s, 1))",
            "fits(s, x)",
            "shape(s) != shape(x)",
            float_class="overflow-risk",
            family="common-factor",
        ),
        rule(
            "factors-difference",
            "Sub(Mul(x, z), Mul(y, z))",
            "Mul(Sub(x, y), z)",
            float_class="overflow-risk",
            family="common-factor",
        ),
        rule(
            "matmuls-difference-left",
            "Sub(MatMul(x, w), MatMul(y, w))",
            "MatMul(Sub(x, y), w)",
            "shape(x) == shape(y)",
            float_class="overflow-risk",
            family="common-factor",
        ),
        rule(
            "matmuls-difference-right",
            "Sub(MatMul(x, w), MatMul(x, v))",
            "MatMul(x, Sub(w, v))",
            *same,
            float_class="overflow-risk",
            family="common-factor",
        ),
    ]
    return tuple(made)


def _products() -> tuple[Rule, ...]:
    scalar = ("const(s)", "rank(s) == 0", "rank(x) >= 2", "rank(y) >= 2")
    rows = (*_WHOLE, "(rank(x) - 1) not in a")
    scaled = (("left", "MatMul(Mul(x, s), y)"), ("right", "MatMul(x, Mul(y, s))"))
    return (
        *(
            rule(
                f"scaled-{side}-factor",
                lhs,
                "Mul(MatMul(x, y), s)",
                *scalar,
                float_class="overflow-risk",
                family="scaled-product",
            )
            for side, lhs in scaled
        ),
        rule(
            "offset-before-matmul",
            "MatMul(Add(x, s), w)",
            "Add(MatMul(x, w), MatMul(s, w))",
            "const(s)",
            "const(w)",
            "shape(s) == (size(x, rank(x) - 1),)",
            *_WHOLE,
            float_class="overflow-risk",
            family="offset-matmul",
        ),
        *(
            rule(
                f"{op.lower()}-of-rows",
                f"{op}(MatMul(x, w), axes=a, keepdims=1)",
                f"MatMul({op}(x, axes=a, keepdims=1), w)",
                *rows,
                float_class="overflow-risk",
                family="reduce-first",
            )
            for op in _MEANS
        ),
        rule(
            "gemm-plus-bias",
            "Add(Gemm(x, w, transA=i, transB=j, alpha=p, beta=q), b)",
            "Gemm(x, w, b, transA=i, transB=j, alpha=p, beta=1.0)",
            "rank(b) >= 1",
            "shape(out) == (size(x, i), size(w, 1 - j))",
            status="definition",
            family="gemm",
            source="definition of Gemm (ONNX operator specification)",
        ),
    )


def _pointwise() -> tuple[Rule, ...]:
    """Two convolutions by 1x1 kernels in a row are one: weights are multiplied, the inner bias (c) passes the outer
    weight."""
    none = "(0,) * length(p)"
    conditions = (
        f"p == {none}",
        f"q == {none}",
        "s == (1,) * length(s)",
        "shape(v)[2:] == s",
        "shape(w)[2:] == s",
        "const(w)",
        "const(v)",
    )
    w, v = (f"Reshape({n}, shape=(size({n}, 0), size({n}, 1)))" for n in "wv")
    weight = f"Reshape(MatMul({w}, {v}), shape=(size(w, 0), size(v, 1)) + s)"
    carried = f"Reshape(MatMul({w}, Reshape(c, shape=(size(c, 0), 1))), shape=(size(w, 0),))"
    biases = {
        "": ("", "", ""),
        "-outer-bias": ("", ", b", ", b"),
        "-inner-bias": (", c", "", f", {carried}"),
        "-biases": (", c", ", b", f", Add(b, {carried})"),
    }
    outer = "strides=t, pads=q, dilations=f, group=1"
    return tuple(
        rule(
            f"pointwise-convs{name}",
            f"Conv(Conv(x, v{first}, strides=s, pads=p, dilations=d, group=1), w{second}, {outer})",
            f"Conv(x, {weight}{joined}, {outer})",
            *conditions,
            *(f"const({n})" for n in "bc" if n in first + second),
            float_class="overflow-risk",
            family="pointwise-chain",
        )
        for name, (first, second, joined) in biases.items()
    )


def _movement() -> tuple[Rule, ...]:
    back = "compose(p, q) == range(length(p))"
    wider = (
        "(dtype(x), b) in (('bool', 'int32'), ('bool', 'int64'), ('bool', 'float32'), ('int8', 'int32'), "
        "('int8', 'int64'), ('uint8', 'int32'), ('uint8', 'int64'), ('int16', 'int32'), ('int32', 'int64'), "
        "('int32', 'float64'), ('float16', 'float32'), ('float16', 'float64'), ('bfloat16', 'float32'), "
        "('bfloat16', 'float64'), ('float32', 'float64'))"
    )
    return (
        *(
            rule(
                f"transposes-around-{op.lower()}",
                f"Transpose({op}(Transpose(x, perm=p), axis=a), perm=q)",
                f"{op}(x, axis=p[a])",
                back,
                status="definition",
                family="transposes-around",
                source=f"{op} works along one axis, wherever it is",
            )
            for op in ("Softmax", "LogSoftmax")
        ),
        rule(
            "slice-of-pad",
            "Slice(Pad(x, pads=p, mode='constant', value=v), axes=a, starts=s, ends=e, steps=t)",
            "x",
            _SAME,
            "t == (1,)",
            "p[a[0]] == s[0]",
            "p[a[0]] >= 0",
            "p[a[0] + rank(x)] >= 0",
            "sum(p) == p[a[0]] + p[a[0] + rank(x)]",
            "min(p) >= 0",
            float_class="exact",
            family="slice-of-pad",
        ),
        rule(
            "tile-nothing",
            "Tile(x, repeats=r)",
            "x",
            _SAME,
            float_class="exact",
            dtypes="any",
            family="nothing",
            status="definition",
            source="definition of Tile (ONNX operator specification)",
        ),
        *(
            rule(
                f"{op.lower()}-past-transpose",
                f"{op}(Transpose(x, perm=p), axes=a, keepdims=0)",
                f"{op}(x, axes=sorted(compose(p, a)), keepdims=0)",
                "min(a) >= rank(x) - length(a)",
                "p[:rank(x) - length(a)] == sorted(p[:rank(x) - length(a)])",
                family="reduce-first",
            )
            for op in ("ReduceMean", "ReduceSum", "ReduceMax")
        ),
        rule(
            "casts",
            "Cast(Cast(x, to=b), to=c)",
            "Cast(x, to=c)",
            wider,
            "c == dtype(x) or c in FLOATS",
            float_class="exact",
            dtypes="any",
            status="definition",
            family="casts",
            source="every number of the first type is one of the second",
        ),
        rule(
            "where-same",
            "Where(c, x, x)",
            "x",
            _SAME,
            float_class="reassociate",
            dtypes="any",
            status="definition",
            family="where",
            source="definition of Where (ONNX operator specification); ONNX Runtime turns -0 into 0",
        ),
    )


RULES: tuple[Rule, ...] = (*_signs(), *_common(), *_products(), *_pointwise(), *_movement())
