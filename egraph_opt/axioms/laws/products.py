"""Matrix products of any rank: order, linearity, scaling, blocks, transposes."""

from __future__ import annotations

from functools import partial

from egraph_opt.axioms.record import axiom

_law = partial(axiom, family="products", float_class="overflow-risk", source="linear algebra")
_MATRICES = ("rank(x) >= 2", "rank(y) >= 2")
_ONE = "elements(s) == 1"

_ALGEBRA = (
    _law(
        "matmul-associative",
        "MatMul(MatMul(x, y), z)",
        "MatMul(x, MatMul(y, z))",
        *_MATRICES,
        "rank(z) >= 2",
        source="TASO A25, batched",
    ),
    _law(
        "matmul-of-sum-right",
        "MatMul(x, Add(y, z))",
        "Add(MatMul(x, y), MatMul(x, z))",
        "shape(y) == shape(z)",
        source="TASO A29, batched",
    ),
    _law(
        "matmul-of-sum-left",
        "MatMul(Add(x, y), z)",
        "Add(MatMul(x, z), MatMul(y, z))",
        "shape(x) == shape(y)",
        source="TASO, implied",
    ),
    _law("matmul-scaled-moves", "MatMul(Mul(x, s), y)", "MatMul(x, Mul(y, s))", _ONE, "fits(s, x)", "fits(s, y)"),
    _law("matmul-scaled", "Mul(MatMul(x, y), s)", "MatMul(x, Mul(y, s))", "rank(s) == 0", source="TASO A10"),
    _law(
        "matmul-scaled-columns",
        "Mul(MatMul(x, y), s)",
        "MatMul(x, Mul(y, s))",
        *_MATRICES,
        "rank(s) == 1",
        "size(s, 0) == size(y, -1)",
    ),
    _law(
        "matmul-scaled-rows",
        "Mul(MatMul(x, y), s)",
        "MatMul(Mul(x, s), y)",
        *_MATRICES,
        "rank(s) >= 2",
        "fits(s, x)",
        "size(s, -1) == 1",
    ),
    _law(
        "matmul-scaled-inside",
        "MatMul(Mul(x, s), y)",
        "MatMul(x, Mul(y, Reshape(s, shape=(size(s, 0), 1))))",
        *_MATRICES,
        "rank(s) == 1",
        "size(s, 0) == size(x, -1)",
    ),
    _law("matmul-zero", "MatMul(x, Mul(y, 0))", "Mul(MatMul(x, y), 0)", float_class="drops-nonfinite"),
)
_BLOCKS = (
    _law(
        "matmul-of-column-blocks",
        "MatMul(x, Concat(y, z, axis=a))",
        "Concat(MatMul(x, y), MatMul(x, z), axis=rank(out) - 1)",
        *_MATRICES,
        "a == rank(y) - 1",
        float_class="reassociate",
        source="TASO A28, batched",
    ),
    _law(
        "matmul-of-row-blocks",
        "MatMul(Concat(x, y, axis=a), z)",
        "Concat(MatMul(x, z), MatMul(y, z), axis=rank(out) - 2)",
        *_MATRICES,
        "rank(z) >= 2",
        "a == rank(x) - 2",
        float_class="reassociate",
        source="TASO, implied; batched",
    ),
    _law(
        "matmul-of-inner-blocks",
        "MatMul(Concat(x, z, axis=a), Concat(y, w, axis=b))",
        "Add(MatMul(x, y), MatMul(z, w))",
        *_MATRICES,
        "a == rank(x) - 1",
        "b == rank(y) - 2",
        "size(x, -1) == size(y, -2)",
        "size(z, -1) == size(w, -2)",
        source="TASO A20, batched",
    ),
    _law(
        "matmul-of-batches",
        "MatMul(Concat(x, z, axis=a), Concat(y, w, axis=a))",
        "Concat(MatMul(x, y), MatMul(z, w), axis=a)",
        "rank(x) == rank(y)",
        "a < rank(x) - 2",
        "size(x, a) == size(y, a)",
        "size(z, a) == size(w, a)",
        float_class="reassociate",
    ),
    _law(
        "matmul-of-batches-shared",
        "MatMul(Concat(x, z, axis=a), y)",
        "Concat(MatMul(x, y), MatMul(z, y), axis=a)",
        "a < rank(x) - 2",
        "rank(y) == 2",
        float_class="reassociate",
    ),
    _law(
        "matmul-of-column-slice",
        "MatMul(x, Slice(y, axes=a, starts=s, ends=e, steps=p))",
        "Slice(MatMul(x, y), axes=(rank(out) - 1,), starts=s, ends=e, steps=p)",
        *_MATRICES,
        "a == (rank(y) - 1,)",
        float_class="reassociate",
    ),
    _law(
        "matmul-of-row-slice",
        "MatMul(Slice(x, axes=a, starts=s, ends=e, steps=p), y)",
        "Slice(MatMul(x, y), axes=(rank(out) - 2,), starts=s, ends=e, steps=p)",
        *_MATRICES,
        "a == (rank(x) - 2,)",
        float_class="reassociate",
    ),
)
_SHAPES = (
    _law(
        "transpose-of-matmul",
        "Transpose(MatMul(x, y), perm=p)",
        "MatMul(Transpose(y, perm=p), Transpose(x, perm=p))",
        "swaps_last_two(p)",
        "rank(x) == rank(out)",
        "rank(y) == rank(out)",
        float_class="reassociate",
        source="TASO A31, batched",
    ),
    _law(
        "transpose-of-batches",
        "Transpose(MatMul(x, y), perm=p)",
        "MatMul(Transpose(x, perm=p), Transpose(y, perm=p))",
        "p[-2:] == (rank(out) - 2, rank(out) - 1)",
        "rank(x) == rank(out)",
        "rank(y) == rank(out)",
        float_class="reassociate",
    ),
    _law(
        "matmul-flattens",
        "MatMul(x, y)",
        "Reshape(MatMul(Reshape(x, shape=(product(shape(x)[:-1]), size(x, -1))), y), shape=shape(out))",
        "rank(x) >= 2",
        "rank(y) == 2",
        float_class="reassociate",
    ),
    _law(
        "matmul-unit",
        "MatMul(x, Reshape(Slice(Reshape(Pad(Fill(shape=f, value=1.0, dtype=d), pads=p, mode='constant', value=0.0),"
        " shape=r), axes=(0,), starts=(0,), ends=e, steps=(1,)), shape=t))",
        "x",
        "d == dtype(x)",
        "f == (size(x, -1), 1)",
        "p == (0, 0, 0, size(x, -1))",
        "r == (size(x, -1) * (size(x, -1) + 1),)",
        "e == (size(x, -1) * size(x, -1),)",
        "t == (size(x, -1), size(x, -1))",
        float_class="spreads-nonfinite",
        source="TASO A41: the unit matrix is a padded column of ones, cut so that the ones move one place a row",
    ),
    _law(
        "unit-matmul",
        "MatMul(Reshape(Slice(Reshape(Pad(Fill(shape=f, value=1.0, dtype=d), pads=p, mode='constant', value=0.0),"
        " shape=r), axes=(0,), starts=(0,), ends=e, steps=(1,)), shape=t), x)",
        "x",
        "rank(x) >= 2",
        "d == dtype(x)",
        "f == (size(x, -2), 1)",
        "p == (0, 0, 0, size(x, -2))",
        "r == (size(x, -2) * (size(x, -2) + 1),)",
        "e == (size(x, -2) * size(x, -2),)",
        "t == (size(x, -2), size(x, -2))",
        float_class="spreads-nonfinite",
        source="TASO L2",
    ),
)


def _matrix(name: str, flag: int) -> str:
    return f"Transpose({name}, perm=(1, 0))" if flag else name


_GEMM = tuple(
    _law(
        f"gemm-spelled-out-{'t' if a else 'n'}{'t' if b else 'n'}{'-bias' if c else ''}",
        f"Gemm(x, y{c}, transA={a}, transB={b}, alpha=p, beta=q)",
        product if not c else f"Add({product}, Mul(b, Fill(shape=(), value=q, dtype=dtype(x))))",
        definition=True,
        source="ONNX operator specification",
    )
    for a in (0, 1)
    for b in (0, 1)
    for c in ("", ", b")
    for product in (f"Mul(MatMul({_matrix('x', a)}, {_matrix('y', b)}), Fill(shape=(), value=p, dtype=dtype(x)))",)
)

AXIOMS = (*_ALGEBRA, *_BLOCKS, *_SHAPES, *_GEMM)
