"""Convolution in any number of spatial axes: linear, blocked, grouped, strided, dilated, padded on every side."""

from __future__ import annotations

from functools import partial

from egraph_opt.axioms.record import axiom

_law = partial(axiom, family="convolution", float_class="overflow-risk", source="linearity")
_PLAIN = "c_group == 1"
_SAME_PLANES = ("shape(x)[:1] == shape(z)[:1]", "shape(x)[2:] == shape(z)[2:]")
_SAME_KERNELS = "shape(y)[2:] == shape(w)[2:]"
_ZERO = "mode='constant', value=0.0"
_UNPADDED = "c_pads == (0,) * (2 * (rank(x) - 2))"
_UNIT_STRIDES = "c_strides == (1,) * (rank(x) - 2)"
_POINTWISE = "shape(w)[2:] == (1,) * (rank(x) - 2)"

_LINEAR = (
    _law(
        "conv-of-sum-of-weights",
        "Conv(x, Add(y, z), **c)",
        "Add(Conv(x, y, **c), Conv(x, z, **c))",
        "shape(y) == shape(z)",
        source="TASO A17",
    ),
    _law(
        "conv-of-sum-of-inputs",
        "Conv(Add(x, y), z, **c)",
        "Add(Conv(x, z, **c), Conv(y, z, **c))",
        "shape(x) == shape(y)",
        source="TASO A18",
    ),
    _law(
        "conv-scaled-moves",
        "Conv(Mul(x, s), w, **c)",
        "Conv(x, Mul(w, s), **c)",
        "elements(s) == 1",
        "fits(s, x)",
        "fits(s, w)",
        float_class="spreads-nonfinite",
        source="TASO A12",
    ),
    _law("conv-scaled", "Mul(Conv(x, w, **c), s)", "Conv(x, Mul(w, s), **c)", "rank(s) == 0", source="TASO A13"),
    _law(
        "conv-scaled-filters",
        "Mul(Conv(x, w, **c), s)",
        "Conv(x, Mul(w, Reshape(s, shape=column(along(s, out, 1), rank(w)))), **c)",
        "size(out, 1) == size(w, 0)",
    ),
    _law(
        "conv-scaled-channels",
        "Conv(Mul(x, s), w, **c)",
        "Conv(x, Reshape(Mul(Reshape(w, shape=(c_group, size(w, 0) // c_group) + shape(w)[1:]),"
        " Reshape(s, shape=per_group(s, x, c_group))), shape=shape(w)), **c)",
        "fits(s, x)",
        float_class="spreads-nonfinite",
    ),
    _law(
        "conv-bias",
        "Conv(x, w, b, **c)",
        "Add(Conv(x, w, **c), Reshape(b, shape=column(shape(b), rank(x) - 1)))",
        definition=True,
        source="ONNX operator specification",
    ),
    _law(
        "conv-of-offset",
        "Conv(Add(x, s), w, **c)",
        "Conv(x, w, Reshape(ReduceSum(Mul(Reshape(w, shape=(c_group, size(w, 0) // c_group) + shape(w)[1:]),"
        " Reshape(s, shape=per_group(s, x, c_group))), axes=range(2, rank(w) + 1), keepdims=0),"
        " shape=(size(w, 0),)), **c)",
        "fits(s, x)",
        _UNPADDED,
    ),
)
_BLOCKS = (
    _law(
        "conv-of-channel-blocks",
        "Conv(Concat(x, z, axis=1), Concat(y, w, axis=1), **c)",
        "Add(Conv(x, y, **c), Conv(z, w, **c))",
        _PLAIN,
        "size(x, 1) == size(y, 1)",
        source="TASO A19, which forgets that it asks for one group",
    ),
    _law(
        "conv-of-filter-blocks",
        "Conv(x, Concat(y, w, axis=0), **c)",
        "Concat(Conv(x, y, **c), Conv(x, w, **c), axis=1)",
        _PLAIN,
        float_class="reassociate",
        source="TASO A24, which forgets that it asks for one group",
    ),
    _law(
        "conv-of-batches",
        "Conv(Concat(x, y, axis=0), w, **c)",
        "Concat(Conv(x, w, **c), Conv(y, w, **c), axis=0)",
        float_class="reassociate",
        source="TASO A23",
    ),
    _law(
        "conv-of-groups",
        "Concat(Conv(x, y, strides=s, pads=p, dilations=d, group=g), Conv(z, w, strides=s, pads=p, dilations=d,"
        " group=h), axis=1)",
        "Conv(Concat(x, z, axis=1), Concat(y, w, axis=0), strides=s, pads=p, dilations=d, group=g + h)",
        *_SAME_PLANES,
        "shape(y)[1:] == shape(w)[1:]",
        "size(y, 0) * h == size(w, 0) * g",
        float_class="reassociate",
        source="TASO W2, with groups of one size in place of equal shapes",
    ),
    _law(
        "conv-halves-groups",
        "Conv(x, w, strides=s, pads=p, dilations=d, group=g)",
        "Conv(x, Reshape(Mul(Reshape(w, shape=(g // 2, 2, size(w, 0) // g, 1) + shape(w)[1:]),"
        " Reshape(Slice(Reshape(Pad(Fill(shape=(2, 1), value=1.0, dtype=dtype(x)), pads=(0, 0, 0, 2), mode='constant',"
        " value=0.0), shape=(6,)), axes=(0,), starts=(0,), ends=(4,), steps=(1,)),"
        " shape=(1, 2, 1, 2) + (1,) * (rank(w) - 1))"
        "), shape=(size(w, 0), 2 * size(w, 1)) + shape(w)[2:]), strides=s, pads=p, dilations=d, group=g // 2)",
        "g % 2 == 0",
        float_class="spreads-nonfinite",
        source="TASO merge_gconv: pairs of groups as one, with zeros in the weight",
    ),
)
_PADDING = (
    _law(
        "conv-of-enlarged-kernel",
        f"Conv(x, Pad(w, pads=q, {_ZERO}), strides=s, pads=p, dilations=d, group=g)",
        "Conv(x, w, strides=s, pads=minus(p, times(spatial(q), d + d)), dilations=d, group=g)",
        "min(q) >= 0",
        "min(minus(p, times(spatial(q), d + d))) >= 0",
        float_class="drops-nonfinite",
        source="TASO A44, with explicit pads",
    ),
    _law(
        "conv-of-padded-input",
        f"Conv(Pad(x, pads=q, {_ZERO}), w, strides=s, pads=p, dilations=d, group=g)",
        "Conv(x, w, strides=s, pads=plus(p, spatial(q)), dilations=d, group=g)",
        "min(spatial(q)) >= 0",
        float_class="exact",
        source="definition of the pads of Conv",
    ),
    _law(
        "conv-beside-larger-kernel",
        "Concat(Conv(x, y, strides=s, pads=q, dilations=d, group=g), Conv(x, w, strides=s, pads=p, dilations=d,"
        " group=g), axis=1)",
        f"Conv(x, Concat(Pad(y, pads=(0, 0) + minus(p, q)[:length(s)] + (0, 0) + minus(p, q)[length(s):], {_ZERO}), w,"
        " axis=0), strides=s, pads=p, dilations=d, group=g)",
        "g == 1",
        "d == (1,) * length(s)",
        "min(minus(p, q)) >= 0",
        "shape(w)[2:] == plus(shape(y)[2:], plus(minus(p, q)[:length(s)], minus(p, q)[length(s):]))",
        float_class="spreads-nonfinite",
        source="TASO A44 and A24: the smaller of two kernels is enlarged to the size of the other",
    ),
    _law(
        "conv-and-its-input",
        "Add(Conv(x, w, strides=s, pads=p, dilations=d, group=g), x)",
        "Conv(x, Add(w, Pad(Fill(shape=column((size(x, 1),), rank(x)), value=1.0, dtype=dtype(x)),"
        f" pads=(0, 0) + p[:length(s)] + (0, 0) + p[length(s):], {_ZERO})), strides=s, pads=p, dilations=d, group=g)",
        "g == size(x, 1)",
        "size(w, 0) == size(x, 1)",
        "s == (1,) * (rank(x) - 2)",
        "d == (1,) * (rank(x) - 2)",
        "shape(w)[2:] == plus(plus(p[:length(s)], p[length(s):]), (1,) * length(s))",
        float_class="spreads-nonfinite",
        source="TASO A17 and A40: the input is a convolution with an enlarged unit kernel",
    ),
)
_UNITS = (
    _law(
        "conv-by-ones",
        "Conv(x, 1, strides=s, pads=p, dilations=l, group=g)",
        "x",
        "g == size(x, 1)",
        "s == (1,) * (rank(x) - 2)",
        "p == (0,) * (2 * (rank(x) - 2))",
        "shape(out) == shape(x)",
        float_class="exact",
        source="TASO A40, with a constant in place of a filled tensor",
    ),
    _law(
        "conv-unit",
        "Conv(x, Fill(shape=f, value=1.0, dtype=d), strides=s, pads=p, dilations=l, group=g)",
        "x",
        "d == dtype(x)",
        "g == size(x, 1)",
        "f == column((size(x, 1),), rank(x))",
        "s == (1,) * (rank(x) - 2)",
        "p == (0,) * (2 * (rank(x) - 2))",
        float_class="exact",
        source="TASO A40; larger identity kernels are this one enlarged",
    ),
    _law(
        "conv-is-matmul",
        "Conv(x, w, **c)",
        "Reshape(MatMul(Reshape(w, shape=shape(w)[:2]), Reshape(x, shape=shape(x)[:2] + (product(shape(x)[2:]),))),"
        " shape=shape(out))",
        _PLAIN,
        _POINTWISE,
        _UNIT_STRIDES,
        _UNPADDED,
        float_class="reassociate",
        source="definition of Conv with a kernel of size 1",
    ),
    _law(
        "conv-strided-pointwise",
        "Conv(x, w, strides=c_strides, pads=c_pads, dilations=d, group=g)",
        "Conv(Slice(x, axes=range(2, rank(x)), starts=(0,) * (rank(x) - 2), ends=shape(x)[2:], steps=c_strides), w,"
        " strides=(1,) * (rank(x) - 2), pads=c_pads, dilations=d, group=g)",
        _POINTWISE,
        _UNPADDED,
        float_class="reassociate",
        source="a strided kernel of size 1 reads every stride-th place",
    ),
    _law(
        "conv-pointwise-dilation",
        "Conv(x, w, strides=s, pads=p, dilations=d, group=g)",
        "Conv(x, w, strides=s, pads=p, dilations=(1,) * (rank(x) - 2), group=g)",
        _POINTWISE,
        float_class="exact",
        source="a kernel of size 1 has no gaps",
    ),
)

AXIOMS = (*_LINEAR, *_BLOCKS, *_PADDING, *_UNITS)
