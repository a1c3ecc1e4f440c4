"""Pooling: blocks, averages as convolutions, maxima and monotone functions."""

from __future__ import annotations

from functools import partial

from egraph_opt.axioms.record import Axiom, axiom

_law = partial(axiom, family="pooling", float_class="reassociate", source="definition of pooling")
_POOLS = (("MaxPool", ", **p"), ("AveragePool", ", **p"), ("GlobalAveragePool", ""), ("GlobalMaxPool", ""))
_AXES = "range(2, rank(x))"
_TOUCHING = ("p_ceil_mode == 0", "max(p_dilations) == 1", "max(p_pads) < min(p_kernel)")
"""Every window holds an element of the input, and not padding alone."""


def _blocks() -> tuple[Axiom, ...]:
    return tuple(
        _law(
            f"{op.lower()}-of-{part}",
            f"{op}(Concat(x, y, axis={axis}){bundle})",
            f"Concat({op}(x{bundle}), {op}(y{bundle}), axis={axis})",
            float_class="exact" if "Max" in op else "reassociate",
            needs_order="Max" in op,
            source="TASO A36, A37, A38, L3",
        )
        for op, bundle in _POOLS
        for axis, part in ((0, "batches"), (1, "channels"))
    )


_AVERAGES = (
    _law(
        "averagepool-is-conv",
        "AveragePool(x, kernel=k, strides=s, pads=p, dilations=d, ceil_mode=0, count_include_pad=1)",
        "Conv(x, Fill(shape=(size(x, 1), 1) + k, value=reciprocal(product(k)), dtype=dtype(x)), strides=s, pads=p,"
        " dilations=d, group=size(x, 1))",
        source="TASO A39, with ONNX's count_include_pad",
    ),
    _law(
        "averagepool-unpadded",
        "AveragePool(x, kernel=k, strides=s, pads=p, dilations=d, ceil_mode=0, count_include_pad=0)",
        "AveragePool(x, kernel=k, strides=s, pads=p, dilations=d, ceil_mode=0, count_include_pad=1)",
        "p == (0,) * (2 * length(k))",
        float_class="exact",
    ),
    _law(
        "averagepool-of-padded",
        "AveragePool(Pad(x, pads=q, mode='constant', value=0.0), kernel=k, strides=s, pads=p, dilations=d,"
        " ceil_mode=0, count_include_pad=1)",
        "AveragePool(x, kernel=k, strides=s, pads=plus(p, spatial(q)), dilations=d, ceil_mode=0, count_include_pad=1)",
        "min(spatial(q)) >= 0",
        "min(minus(k + k, plus(p, spatial(q)))) > 0",
        "max(d) == 1",  # else a window may step over all that is no padding
        float_class="exact",
    ),
    _law(
        "averagepool-of-sum",
        "AveragePool(Add(x, y), **p)",
        "Add(AveragePool(x, **p), AveragePool(y, **p))",
        "shape(x) == shape(y)",
        float_class="overflow-risk",
        source="linearity",
    ),
    _law(
        "averagepool-scaled",
        "AveragePool(Mul(x, s), **p)",
        "Mul(AveragePool(x, **p), s)",
        "rank(s) == 0",
        float_class="spreads-nonfinite",
        source="linearity",
    ),
    _law(
        "averagepool-of-pointwise-conv",
        "AveragePool(Conv(x, w, **c), **p)",
        "Conv(AveragePool(x, **p), w, **c)",
        "shape(w)[2:] == (1,) * (rank(x) - 2)",
        "c_strides == (1,) * (rank(x) - 2)",
        "c_pads == (0,) * (2 * (rank(x) - 2))",
        float_class="overflow-risk",
        source="linearity; holds for kernels of size 1 alone",
    ),
    _law(
        "average-of-unit-kernel",
        "AveragePool(Pad(Fill(shape=f, value=1.0, dtype=t), pads=q, mode='constant', value=0.0), kernel=k, strides=s,"
        " pads=p, dilations=d, ceil_mode=0, count_include_pad=1)",
        "Fill(shape=f[:2] + k, value=reciprocal(product(k)), dtype=t)",
        "f[1:] == (1,) * (length(f) - 1)",
        "spatial(q) == p",
        "k + k == plus(plus(p, p), (1,) * length(p))",
        "s == (1,) * length(k)",
        "d == (1,) * length(k)",
        source="TASO A43",
    ),
    _law(
        "globalaveragepool-is-mean",
        "GlobalAveragePool(x)",
        f"ReduceMean(x, axes={_AXES}, keepdims=1)",
        definition=True,
    ),
    _law(
        "globalaveragepool-is-averagepool",
        "AveragePool(x, kernel=k, strides=s, pads=p, dilations=d, ceil_mode=0, count_include_pad=1)",
        "GlobalAveragePool(x)",
        "k == shape(x)[2:]",
        "d == (1,) * length(k)",
        "p == (0,) * (2 * length(k))",
    ),
)
_MAXIMA = (
    _law("globalmaxpool-is-max", "GlobalMaxPool(x)", f"ReduceMax(x, axes={_AXES}, keepdims=1)", needs_order=True),
    _law(
        "maxpool-of-relu",
        "MaxPool(Relu(x), **p)",
        "Relu(MaxPool(x, **p))",
        *_TOUCHING,
        float_class="exact",
        needs_order=True,
        source="monotone functions commute with the maximum",
    ),
    _law(
        "maxpool-of-max",
        "MaxPool(Max(x, y), **p)",
        "Max(MaxPool(x, **p), MaxPool(y, **p))",
        "shape(x) == shape(y)",
        needs_order=True,
        source="order",
    ),
    _law(
        "maxpool-nothing",
        "MaxPool(x, **p)",
        "x",
        "max(p_kernel) == 1",
        "max(p_strides) == 1",
        needs_order=True,  # not exact: ONNX Runtime makes the lowest number of a NaN
    ),
)

AXIOMS = (*_blocks(), *_AVERAGES, *_MAXIMA)
