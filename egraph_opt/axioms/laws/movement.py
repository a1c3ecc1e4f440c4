"""Movement of data: transposes, reshapes and broadcasts, alone and past element-wise operators."""

from __future__ import annotations

from functools import partial

from egraph_opt.axioms.record import BINARY, UNARY, Axiom, axiom

_law = partial(axiom, family="movement", float_class="exact", dtypes="any", source="row-major layout")
_taso = partial(axiom, family="movement", float_class="exact", source="TASO A16, A9")

_COMPOSITION = (
    _law(
        "transpose-of-transpose",
        "Transpose(Transpose(x, perm=p), perm=q)",
        "Transpose(x, perm=compose(p, q))",
        source="TASO A30, any permutation",
    ),
    _law("transpose-nothing", "Transpose(x, perm=p)", "x", "p == range(rank(x))"),
    _law("transpose-of-ones", "Transpose(x, perm=p)", "Reshape(x, shape=shape(out))", "moves_only_ones(shape(x), p)"),
    _law(
        "transpose-of-axes-spelled-out",
        "Transpose(Reshape(x, shape=s), perm=p)",
        "Reshape(Transpose(x, perm=whole_axes(shape(x), s, p)), shape=shape(out))",
    ),
    _law("reshape-of-reshape", "Reshape(Reshape(x, shape=s), shape=t)", "Reshape(x, shape=t)"),
    _law("reshape-nothing", "Reshape(x, shape=s)", "x", "shape(x) == s"),
    _law("expand-of-expand", "Expand(Expand(x, shape=s), shape=t)", "Expand(x, shape=t)"),
    _law("expand-nothing", "Expand(x, shape=s)", "x", "shape(x) == s"),
    _law(
        "transpose-of-expand",
        "Transpose(Expand(x, shape=s), perm=p)",
        "Expand(Transpose(x, perm=p), shape=shape(out))",
        "rank(x) == length(s)",
    ),
    _law("expand-is-product", "Expand(x, shape=s)", "Mul(x, Fill(shape=s, value=1.0, dtype=dtype(x)))", dtypes="float"),
    _law("cast-nothing", "Cast(x, to=t)", "x", "dtype(x) == t"),
)


def _unary() -> tuple[Axiom, ...]:
    moves = (("Transpose", "perm=p"), ("Reshape", "shape=s"), ("Expand", "shape=s"))
    return tuple(
        _taso(
            f"{op.lower()}-of-{move.lower()}",
            f"{op}({move}(x, {attr}){bundle})",
            f"{move}({op}(x{bundle}), {attr})",
            source="TASO A16" if move == "Transpose" else "element-wise operators commute with movement",
        )
        for op, bundle in UNARY
        for move, attr in moves
    )


def _binary() -> tuple[Axiom, ...]:
    made: list[Axiom] = []
    for op in BINARY:
        made += [
            _taso(
                f"{op.lower()}-of-transposes",
                f"{op}(Transpose(x, perm=p), Transpose(y, perm=p))",
                f"Transpose({op}(x, y), perm=p)",
                source="TASO A34, A35, with broadcasting",
            ),
            _taso(
                f"{op.lower()}-of-reshapes",
                f"{op}(Reshape(x, shape=s), Reshape(y, shape=s))",
                f"Reshape({op}(x, y), shape=s)",
                "shape(x) == shape(y)",
                source="row-major layout",
            ),
            _taso(
                f"{op.lower()}-expands-left",
                f"{op}(x, y)",
                f"{op}(Expand(x, shape=shape(out)), y)",
                source="ONNX broadcasting",
            ),
            _taso(
                f"{op.lower()}-expands-right",
                f"{op}(x, y)",
                f"{op}(x, Expand(y, shape=shape(out)))",
                source="ONNX broadcasting",
            ),
            _taso(
                f"{op.lower()}-pads-rank-right",
                f"{op}(x, y)",
                f"{op}(x, Reshape(y, shape=pad_rank(y, rank(x))))",
                "rank(y) <= rank(x)",
                source="ONNX broadcasting",
            ),
        ]
    return tuple(made)


AXIOMS = (*_COMPOSITION, *_unary(), *_binary())
