"""Reductions: linearity, blocks, one axis after another; and Softmax, which is a quotient of one."""

from __future__ import annotations

from functools import partial

from egraph_opt.axioms.record import Axiom, axiom

_law = partial(axiom, family="reductions", float_class="reassociate", source="definition of sums")
_JOINS = {"ReduceSum": "Add", "ReduceMax": "Max", "ReduceMin": "Min"}


def _blocks() -> tuple[Axiom, ...]:
    made: list[Axiom] = []
    for op, join in _JOINS.items():
        ordered, name = op != "ReduceSum", op.lower()
        made += [
            _law(
                f"{name}-of-blocks",
                f"{op}(Concat(x, y, axis=a), axes=r, keepdims=k)",
                f"{join}({op}(x, axes=r, keepdims=k), {op}(y, axes=r, keepdims=k))",
                "a in r",
                needs_order=ordered,
            ),
            _law(
                f"{name}-by-steps",
                f"{op}({op}(x, axes=r, keepdims=1), axes=q, keepdims=1)",
                f"{op}(x, axes=sorted(r + q), keepdims=1)",
                "length(r) == 1",
                "length(q) == 1",
                "r != q",
                needs_order=ordered,
            ),
        ]
    for op in (*_JOINS, "ReduceMean"):
        ordered, name = op not in ("ReduceSum", "ReduceMean"), op.lower()
        made += [
            _law(
                f"{name}-past-blocks",
                f"{op}(Concat(x, y, axis=a), axes=r, keepdims=1)",
                f"Concat({op}(x, axes=r, keepdims=1), {op}(y, axes=r, keepdims=1), axis=a)",
                "a not in r",
                needs_order=ordered,
            ),
            _law(
                f"{name}-drops-axes",
                f"{op}(x, axes=r, keepdims=0)",
                f"Reshape({op}(x, axes=r, keepdims=1), shape=shape(out))",
                float_class="exact",
                needs_order=ordered,
            ),
            _law(
                f"{name}-of-transpose",
                f"{op}(Transpose(x, perm=p), axes=r, keepdims=1)",
                f"Transpose({op}(x, axes=(p[r[0]],), keepdims=1), perm=p)",
                "length(r) == 1",
                needs_order=ordered,
            ),
        ]
    return tuple(made)


_SUMS = (
    _law(
        "reducesum-of-sum",
        "ReduceSum(Add(x, y), axes=r, keepdims=k)",
        "Add(ReduceSum(x, axes=r, keepdims=k), ReduceSum(y, axes=r, keepdims=k))",
        "shape(x) == shape(y)",
        float_class="overflow-risk",
        source="linearity",
    ),
    _law(
        "reducesum-scaled",
        "ReduceSum(Mul(x, s), axes=r, keepdims=1)",
        "Mul(ReduceSum(x, axes=r, keepdims=1), s)",
        "fits(s, x)",
        "rank(s) == 0 or (rank(s) == rank(x) and length(r) == 1 and size(s, r[0]) == 1)",
        float_class="overflow-risk",
        source="linearity",
    ),
    _law(
        "reducemean-is-sum",
        "ReduceMean(x, axes=r, keepdims=1)",
        "Mul(ReduceSum(x, axes=r, keepdims=1), Fill(shape=(), value=float(elements(out)) * reciprocal(elements(x)),"
        " dtype=dtype(x)))",
        float_class="overflow-risk",
        source="definition of the mean",
    ),
    _law(
        "reducesum-is-matmul",
        "ReduceSum(x, axes=r, keepdims=1)",
        "MatMul(x, Fill(shape=(size(x, -1), 1), value=1.0, dtype=dtype(x)))",
        "rank(x) >= 2",
        "r == (rank(x) - 1,)",
    ),
    _law(
        "reducesum-of-matmul",
        "ReduceSum(MatMul(x, y), axes=r, keepdims=1)",
        "MatMul(x, ReduceSum(y, axes=(rank(y) - 1,), keepdims=1))",
        "rank(x) >= 2",
        "rank(y) >= 2",
        "r == (max((rank(x), rank(y))) - 1,)",
        float_class="overflow-risk",
        source="linearity",
    ),
    _law("reducesum-of-one", "ReduceSum(x, axes=r, keepdims=1)", "x", "shape(x) == shape(out)"),
)
_EXTREMES = (
    _law(
        "reducemin-by-max",
        "ReduceMin(x, axes=r, keepdims=k)",
        "Neg(ReduceMax(Neg(x), axes=r, keepdims=k))",
        needs_order=True,
        source="order",
    ),
    _law(
        "reducemax-of-relu",
        "ReduceMax(Relu(x), axes=r, keepdims=k)",
        "Relu(ReduceMax(x, axes=r, keepdims=k))",
        needs_order=True,
        source="monotone functions commute with the maximum",
    ),
)
_SOFTMAX = (
    _law(
        "softmax-spelled-out",
        "Softmax(x, axis=a)",
        "Div(Exp(x), ReduceSum(Exp(x), axes=(a,), keepdims=1))",
        float_class="drops-nonfinite",
        definition=True,
        source="ONNX operator specification",
    ),
    _law(
        "softmax-shift",
        "Softmax(Add(x, s), axis=a)",
        "Softmax(x, axis=a)",
        "fits(s, x)",
        "elements(s) == 1 or (rank(s) == rank(x) and size(s, a) == 1)",
        float_class="drops-nonfinite",
        definition=True,
        source="a common factor of numerator and denominator",
    ),
    _law(
        "logsoftmax-is-log",
        "LogSoftmax(x, axis=a)",
        "Log(Softmax(x, axis=a))",
        float_class="overflow-risk",
        definition=True,
        source="ONNX operator specification",
    ),
    *(
        _law(
            f"{op.lower()}-of-transpose",
            f"{op}(Transpose(x, perm=p), axis=a)",
            f"Transpose({op}(x, axis=p[a]), perm=p)",
            definition=True,
            source="it acts along one axis",
        )
        for op in ("Softmax", "LogSoftmax")
    ),
    *(
        _law(
            f"{op.lower()}-of-concat",
            f"{op}(Concat(x, y, axis=b), axis=a)",
            f"Concat({op}(x, axis=a), {op}(y, axis=a), axis=b)",
            "a != b",
            definition=True,
            source="it acts along one axis",
        )
        for op in ("Softmax", "LogSoftmax")
    ),
)

AXIOMS = (*_blocks(), *_SUMS, *_EXTREMES, *_SOFTMAX)
