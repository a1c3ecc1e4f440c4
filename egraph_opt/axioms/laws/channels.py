"""Operands that vary along the channels alone: biases of convolutions and products, as sums and factors."""

from __future__ import annotations

from functools import partial

from egraph_opt.axioms.record import Axiom, axiom

_law = partial(axiom, family="channels", float_class="overflow-risk", source="ONNX broadcasting")


def _binary(op: str) -> tuple[Axiom, ...]:
    name = op.lower()
    return (
        _law(
            f"{name}-along-channels",
            f"{op}(x, s)",
            f"{op}(x, Reshape(s, shape=column(along(s, x, 1), rank(x) - 1)))",
            "rank(x) >= 2",
            "fits(s, x)",
        ),
        _law(
            f"{name}-along-last",
            f"{op}(x, s)",
            f"{op}(x, Reshape(s, shape=along(s, x, -1)))",
            "rank(x) >= 1",
            "fits(s, x)",
        ),
        _law(
            f"{name}-of-columns",
            f"{op}(Reshape(x, shape=p), Reshape(y, shape=q))",
            f"Reshape({op}(x, Reshape(y, shape=q[:1])), shape=p)",
            "rank(x) == 1",
            "p == column(shape(x), length(p))",
            "q == column(q[:1], length(p))",
            "q[0] in (1, size(x, 0))",
        ),
    )


_MERGED = (
    _law(
        "conv-bias-of-filter-blocks",
        "Conv(x, Concat(y, w, axis=0), Concat(a, b, axis=0), **c)",
        "Concat(Conv(x, y, a, **c), Conv(x, w, b, **c), axis=1)",
        "c_group == 1",
        "size(a, 0) == size(y, 0)",
        float_class="reassociate",
        source="TASO A24 with a bias",
    ),
    _law(
        "conv-bias-of-sum-of-weights",
        "Conv(x, Add(y, z), Add(a, b), **c)",
        "Add(Conv(x, y, a, **c), Conv(x, z, b, **c))",
        "shape(y) == shape(z)",
        "shape(a) == shape(b)",
        source="TASO A17 with biases",
    ),
    _law(
        "conv-bias-of-channel-blocks",
        "Conv(Concat(x, z, axis=1), Concat(y, w, axis=1), Add(a, b), **c)",
        "Add(Conv(x, y, a, **c), Conv(z, w, b, **c))",
        "c_group == 1",
        "size(x, 1) == size(y, 1)",
        "shape(a) == shape(b)",
        source="TASO A19 with biases",
    ),
    _law(
        "conv-bias-of-batches",
        "Conv(Concat(x, y, axis=0), w, b, **c)",
        "Concat(Conv(x, w, b, **c), Conv(y, w, b, **c), axis=0)",
        float_class="reassociate",
        source="TASO A23 with a bias",
    ),
    _law(
        "conv-bias-of-groups",
        "Concat(Conv(x, y, a, strides=s, pads=p, dilations=d, group=g), Conv(z, w, b, strides=s, pads=p, dilations=d,"
        " group=h), axis=1)",
        "Conv(Concat(x, z, axis=1), Concat(y, w, axis=0), Concat(a, b, axis=0), strides=s, pads=p, dilations=d,"
        " group=g + h)",
        "shape(x)[:1] == shape(z)[:1]",
        "shape(x)[2:] == shape(z)[2:]",
        "shape(y)[1:] == shape(w)[1:]",
        "size(y, 0) * h == size(w, 0) * g",
        float_class="reassociate",
        source="TASO W2, with groups of one size in place of equal shapes, with biases",
    ),
    _law(
        "conv-bias-of-padded-input",
        "Conv(Pad(x, pads=q, mode='constant', value=0.0), w, b, strides=s, pads=p, dilations=d, group=g)",
        "Conv(x, w, b, strides=s, pads=plus(p, spatial(q)), dilations=d, group=g)",
        "min(spatial(q)) >= 0",
        float_class="exact",
        source="definition of the pads of Conv",
    ),
)
_SPREAD = (
    _law(
        "reshape-of-expanded-column",
        "Reshape(Expand(s, shape=t), shape=q)",
        "Expand(Reshape(s, shape=column(shape(s), length(q))), shape=q)",
        "rank(s) == 1",
        "length(t) == 1",
        "q == column(t, length(q))",
        float_class="exact",
        source="row-major layout",
    ),
)
_GEMM = (
    _law(
        "gemm-bias",
        "Gemm(x, y, b, **g)",
        "Add(Gemm(x, y, **g), b)",
        "g_beta == 1",
        definition=True,
        source="ONNX operator specification",
    ),
    _law(
        "gemm-plain",
        "Gemm(x, y, **g)",
        "MatMul(x, y)",
        "g_transA == 0",
        "g_transB == 0",
        "g_alpha == 1",
        definition=True,
        source="ONNX operator specification",
    ),
    _law(
        "gemm-of-column-blocks",
        "Gemm(x, Concat(y, w, axis=k), Concat(a, b, axis=0), **g)",
        "Concat(Gemm(x, y, a, **g), Gemm(x, w, b, **g), axis=1)",
        "k == 1 - g_transB",
        "shape(a) == (size(y, k),)",
        "shape(b) == (size(w, k),)",
        float_class="reassociate",
        source="TASO A28, with biases",
    ),
    _law(
        "gemm-scaled",
        "Mul(Gemm(x, y, b, **g), s)",
        "Gemm(x, Mul(y, Reshape(s, shape=column(along(s, out, 1), 1 + g_transB))), Mul(b, Reshape(s, shape=along(s,"
        " out, 1))), **g)",
        "shape(out) == (size(x, g_transA), size(y, 1 - g_transB))",
        source="linearity",
    ),
    _law(
        "gemm-of-scaled",
        "Gemm(Mul(x, s), y, b, **g)",
        "Gemm(x, Mul(y, Reshape(s, shape=column(along(s, x, 1), 2 - g_transB))), b, **g)",
        "fits(s, x)",
        "g_transA == 0",
        source="linearity",
    ),
    _law(
        "gemm-of-sum",
        "Gemm(Add(x, z), y, **g)",
        "Add(Gemm(x, y, **g), Gemm(z, y, **g))",
        "shape(x) == shape(z)",
        source="linearity",
    ),
    _law(
        "gemm-of-offset",
        "Gemm(Add(x, s), y, **g)",
        "Add(Gemm(x, y, **g), Gemm(Expand(s, shape=(1, size(x, 1))), y, **g))",
        "g_transA == 0",
        "rank(s) == 2",
        "rank(x) == 2",
        "size(s, 0) == 1",
        "fits(s, x)",
        source="linearity; every row has the same offset",
    ),
)
_MATMUL = (
    _law(
        "matmul-scaled-all-columns",
        "Mul(MatMul(x, y), s)",
        "MatMul(x, Mul(y, s))",
        "rank(x) >= 2",
        "rank(y) == 2",
        "rank(s) == 1",
        "size(s, 0) in (1, size(y, 1))",
        source="linearity",
    ),
    _law(
        "matmul-of-scaled-inputs",
        "MatMul(Mul(x, s), y)",
        "MatMul(x, Mul(y, Reshape(s, shape=column(shape(s), 2))))",
        "rank(y) == 2",
        "rank(x) >= 1",
        "rank(s) == 1",
        "size(s, 0) in (1, size(x, -1))",
        source="linearity",
    ),
)

AXIOMS = (*_binary("Add"), *_binary("Mul"), *_MERGED, *_SPREAD, *_GEMM, *_MATMUL)
