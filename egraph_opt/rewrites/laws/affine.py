"""Scales and offsets that are constants, folded into the weights of the convolution or product before or after them.

``BatchNormalization`` is such a scale and offset. Folded weights are expressions of constants; they cost nothing,
because the optimizer computes them once and for all.

By hand because they apply to constants alone, and reshape them by computed shapes; each is proved from the axioms.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule
from egraph_opt.terms import FloatClass

_CLASS: FloatClass = "overflow-risk"


def _batch_normalization() -> tuple[Rule, ...]:
    scale = "Div(s, Sqrt(Add(v, Fill(shape=(), value=e, dtype=dtype(x)))))"
    offset = f"Sub(b, Mul(m, {scale}))"
    per_channel = "shape=column(shape(s), rank(x) - 1)"
    return (
        rule(
            "batchnorm-affine",
            "BatchNormalization(x, s, b, m, v, epsilon=e)",
            f"Add(Mul(x, Reshape({scale}, {per_channel})), Reshape({offset}, {per_channel}))",
            *(f"const({n})" for n in "sbmv"),
            float_class=_CLASS,
            status="definition",
            family="batchnorm",
            source="definition of BatchNormalization (ONNX operator specification)",
        ),
    )


def _convolution() -> tuple[Rule, ...]:
    """With x (N, C, ...), w (M, C/g, ...): a factor or term s that varies along the channels alone."""
    after = "column(along(s, out, 1), rank(w))"
    grouped = "(c_group, size(w, 0) // c_group) + shape(w)[1:]"
    before = "per_group(s, x, c_group)"
    weights = f"Reshape(Mul(Reshape(w, shape={grouped}), Reshape(s, shape={before})), shape=shape(w))"
    terms = f"Mul(Reshape(w, shape={grouped}), Reshape(s, shape={before}))"
    moved = f"Reshape(ReduceSum({terms}, axes=range(2, rank(w) + 1), keepdims=0), shape=(size(w, 0),))"
    spread = "Expand(Reshape(s, shape=along(s, out, 1)), shape=(size(w, 0),))"
    filters, inputs = "size(out, 1) == size(w, 0)", "fits(s, x)"
    unpadded = "c_pads == (0,) * length(c_pads)"
    constants = ("const(w)", "const(s)")
    return (
        _fold(
            "conv-scale",
            "Mul(Conv(x, w, **c), s)",
            f"Conv(x, Mul(w, Reshape(s, shape={after})), **c)",
            filters,
            *constants,
        ),
        _fold(
            "conv-bias-scale",
            "Mul(Conv(x, w, b, **c), s)",
            f"Conv(x, Mul(w, Reshape(s, shape={after})), Mul(b, Reshape(s, shape=along(s, out, 1))), **c)",
            filters,
            *constants,
            "const(b)",
        ),
        _fold("conv-offset", "Add(Conv(x, w, **c), s)", f"Conv(x, w, {spread}, **c)", filters, "const(s)"),
        _fold(
            "conv-bias-offset",
            "Add(Conv(x, w, b, **c), s)",
            "Conv(x, w, Add(b, Reshape(s, shape=along(s, out, 1))), **c)",
            filters,
            "const(s)",
            "const(b)",
        ),
        _scale_before("scale-conv", "", weights, inputs, *constants),
        _scale_before("scale-conv-bias", ", b", weights, inputs, *constants),
        _fold("offset-conv", "Conv(Add(x, s), w, **c)", f"Conv(x, w, {moved}, **c)", inputs, unpadded, *constants),
        _fold(
            "offset-conv-bias",
            "Conv(Add(x, s), w, b, **c)",
            f"Conv(x, w, Add(b, {moved}), **c)",
            inputs,
            unpadded,
            *constants,
            "const(b)",
        ),
    )


def _transposed() -> tuple[Rule, ...]:
    """With x (N, C, ...), w (C, M/g, ...): as behind a convolution, filters of one group along axis 1."""
    grouped = "(c_group, size(w, 0) // c_group) + shape(w)[1:]"
    factors = "per_group(s, out, c_group)"
    weights = f"Reshape(Mul(Reshape(w, shape={grouped}), Reshape(s, shape={factors})), shape=shape(w))"
    row = "Reshape(s, shape=along(s, out, 1))"
    same = ("rank(out) == rank(x)", "size(out, 1) == size(w, 1) * c_group")
    full = (  # no place of the result is out of reach of every input: there an infinite factor would meet a zero
        "c_dilations == (1,) * (rank(x) - 2)",
        "c_output_padding == (0,) * (rank(x) - 2)",
        "min(minus(shape(w)[2:], c_strides)) >= 0",
    )
    made = (
        ("scale", "Mul(ConvTranspose(x, w, **c), s)", f"ConvTranspose(x, {weights}, **c)", "ws"),
        (
            "bias-scale",
            "Mul(ConvTranspose(x, w, b, **c), s)",
            f"ConvTranspose(x, {weights}, Mul(b, {row}), **c)",
            "wsb",
        ),
        (
            "offset",
            "Add(ConvTranspose(x, w, **c), s)",
            f"ConvTranspose(x, w, Expand({row}, shape=(size(w, 1) * c_group,)), **c)",
            "s",
        ),
        ("bias-offset", "Add(ConvTranspose(x, w, b, **c), s)", f"ConvTranspose(x, w, Add(b, {row}), **c)", "sb"),
    )
    return tuple(
        _fold(
            f"conv-transpose-{name}",
            lhs,
            rhs,
            *same,
            *(full if name == "scale" else ()),
            *(f"const({n})" for n in constants),
        )
        for name, lhs, rhs, constants in made
    )


def _depthwise() -> tuple[Rule, ...]:
    """One factor and one term for a whole image, as a convolution of each channel by itself: ONNX Runtime has a kernel
    for that in the layout of its convolutions, and none for sums and products with a number."""
    channels = "(size(x, 1),)"
    kernel = f"Expand(Reshape(s, shape=(1,) * rank(x)), shape=column({channels}, rank(x)))"
    ones, none = "(1,) * (rank(x) - 2)", "(0,) * (2 * (rank(x) - 2))"
    return (
        rule(
            "affine-depthwise",
            "Add(Mul(x, s), t)",
            f"Conv(x, {kernel}, Expand(Reshape(t, shape=(1,)), shape={channels}),"
            f" strides={ones}, pads={none}, dilations={ones}, group=size(x, 1))",
            "rank(x) >= 3",
            "number(size(x, 1))",
            "size(x, 1) > 1",
            "shape(out) == shape(x)",
            *(f"{condition}({n}){value}" for n in "st" for condition, value in (("const", ""), ("elements", " == 1"))),
            family="affine-depthwise",
        ),
    )


def _product() -> tuple[Rule, ...]:
    """With w (K, N): a factor or term s that varies along the last axis alone."""
    flat = "rank(w) == 2"
    columns, inputs = "size(out, -1) == size(w, 1)", "fits(s, x)"
    row = "Reshape(s, shape=along(s, out, -1))"
    constants = ("const(w)", "const(s)")
    gemm_shape = "shape(out) == (size(x, g_transA), size(w, 1 - g_transB))"
    row_of_inputs = "Expand(Reshape(s, shape=(1,) + along(s, x, 1)), shape=(1, size(x, 1)))"
    plain = ("g_alpha == 1", "g_beta == 1", "g_transA == 0")
    return (
        _fold(
            "matmul-scale",
            "Mul(MatMul(x, w), s)",
            f"MatMul(x, Mul(w, {row}))",
            flat,
            columns,
            *constants,
            "rank(x) >= 2",
        ),
        _fold(
            "scale-matmul",
            "MatMul(Mul(x, s), w)",
            "MatMul(x, Mul(w, Reshape(s, shape=column(along(s, x, -1), 2))))",
            flat,
            inputs,
            *constants,
        ),
        _fold(
            "matmul-offset",
            "Add(MatMul(x, w), s)",
            "Gemm(x, w, s, transA=0, transB=0, alpha=1.0, beta=1.0)",
            flat,
            "rank(x) == 2",
            "shape(out) == (size(x, 0), size(w, 1))",
            "rank(s) <= 2",
        ),
        _fold(
            "gemm-scale",
            "Mul(Gemm(x, w, b, **g), s)",
            f"Gemm(x, Mul(w, Reshape(s, shape=column(along(s, out, 1), 1 + g_transB))), Mul(b, {row}), **g)",
            gemm_shape,
            *constants,
            "const(b)",
        ),
        _fold(
            "gemm-offset",
            "Add(Gemm(x, w, b, **g), s)",
            "Gemm(x, w, Add(b, s), **g)",
            gemm_shape,
            "rank(s) <= 2",
            "g_beta == 1",
            "const(s)",
            "const(b)",
        ),
        _fold(
            "scale-gemm",
            "Gemm(Mul(x, s), w, b, **g)",
            "Gemm(x, Mul(w, Reshape(s, shape=column(along(s, x, 1), 2 - g_transB))), b, **g)",
            inputs,
            "g_transA == 0",
            *constants,
        ),
        _fold(
            "offset-gemm",
            "Gemm(Add(x, s), w, b, **g)",
            f"Gemm(x, w, Add(b, Gemm({row_of_inputs}, w, **g)), **g)",
            inputs,
            *plain,
            *constants,
            "const(b)",
        ),
    )


def _scale_before(name: str, bias: str, weights: str, *when: str) -> Rule:
    """A factor in front of a convolution; where the padding is, an infinite factor now meets a zero."""
    lhs, rhs = f"Conv(Mul(x, s), w{bias}, **c)", f"Conv(x, {weights}{bias}, **c)"
    return rule(name, lhs, rhs, *when, float_class="spreads-nonfinite", family="affine")


def _fold(name: str, lhs: str, rhs: str, *when: str) -> Rule:
    return rule(name, lhs, rhs, *when, float_class=_CLASS, family="affine")


RULES = (*_batch_normalization(), *_convolution(), *_transposed(), *_depthwise(), *_product())
