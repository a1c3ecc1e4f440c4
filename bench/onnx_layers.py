"""Layers for ``onnx_draft``: products, convolutions, pools, reductions, normalizations, and what is built of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_draft import SYMBOL_SIZE, Draft, RefusedError
from onnx_moves import axes_given
from onnx_nodes import axes_of, axis_of, beside, flip, is_float, node, number, one_of, ranked, weight


@node
def matmul(d: Draft) -> object:
    x = d.pick(ranked(1, 4))
    value = d.values[x]
    inner = value.shape[-1]
    if inner == SYMBOL_SIZE and d.symbolic:
        raise RefusedError("a weight of a symbolic size")
    others = d.tensors(lambda v: v.dtype == value.dtype and v.ndim >= 2 and v.shape[-2] == inner)
    if others and flip(d, 0.4):
        return d.apply("MatMul", [x, str(d.rng.choice(others))])
    ahead = one_of(d, (), (), (), (1,), tuple(1 if s == SYMBOL_SIZE else s for s in value.shape[:-2]))
    shape = (inner,) if flip(d, 0.15) else (*ahead, inner, number(d, 1, 5))
    return d.apply("MatMul", [x, weight(d, shape, value)])


@node
def linear(d: Draft) -> object:
    x = d.pick(ranked(2))
    value = d.values[x]
    if value.shape[-1] == SYMBOL_SIZE and d.symbolic:
        raise RefusedError("a weight of a symbolic size")
    width = one_of(d, 1, 3, 5)
    product = d.apply("MatMul", [x, weight(d, (value.shape[-1], width), value)])[0]
    bias = weight(d, one_of(d, (width,), (1, width), (1,), (1, 1, 1, width)), value)
    return d.apply("Add", [product, bias] if flip(d) else [bias, product])


@node
def gemm(d: Draft) -> object:
    x = d.pick(ranked(2, 2))
    value = d.values[x]
    turned, other = number(d, 0, 1), number(d, 0, 1)
    rows, inner = value.shape[::-1] if turned else value.shape
    if SYMBOL_SIZE in (inner,) and d.symbolic:
        raise RefusedError("a weight of a symbolic size")
    width = number(d, 1, 5)
    w = weight(d, (width, inner) if other else (inner, width), value)
    shapes = [(width,), (1, width), (1, 1), (), (rows, 1), (rows, width)]
    c = [weight(d, one_of(d, *(s for s in shapes if not d.symbolic or SYMBOL_SIZE not in s)), value)]
    attrs: dict[str, Any] = {"transA": turned, "transB": other}
    if flip(d):
        attrs |= {"alpha": 0.5, "beta": one_of(d, 1.0, -2.0, 0.0)}
    return d.apply("Gemm", [x, w, *(c if d.opset < 11 or flip(d, 0.8) else [])], **attrs)


def _window(d: Draft, sizes: tuple[int, ...], *, dilated: bool) -> dict[str, Any]:
    rank = len(sizes)
    kernel = [number(d, 1, min(3, s)) for s in sizes]
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    if flip(d):
        attrs["strides"] = [number(d, 1, 2) for _ in range(rank)]
    if flip(d, 0.3):
        attrs["auto_pad"] = one_of(d, "SAME_UPPER", "SAME_LOWER", "VALID")
    else:
        if flip(d, 0.6):
            attrs["pads"] = [number(d, 0, k - 1) for k in (*kernel, *kernel)]
        if dilated and flip(d, 0.3):
            attrs["dilations"] = [one_of(d, 1, 2) for _ in range(rank)]
    return attrs


def _static(d: Draft, sizes: tuple[int, ...]) -> None:
    if d.symbolic and SYMBOL_SIZE in sizes:
        raise RefusedError("a weight of a symbolic size")


@node
def conv(d: Draft) -> object:
    x = d.pick(ranked(3, 5))
    value = d.values[x]
    channels, sizes = value.shape[1], value.shape[2:]
    _static(d, (channels,))
    groups = one_of(d, 1, channels, *[g for g in (2, 3) if channels % g == 0])
    attrs = _window(d, sizes, dilated=True)
    w = weight(d, (groups * number(d, 1, 3), channels // groups, *attrs["kernel_shape"]), value)
    if flip(d, 0.3):
        del attrs["kernel_shape"]
    bias = [weight(d, (d.values[w].shape[0],), value)] if flip(d) else []
    return d.apply("Conv", [x, w, *bias], group=groups, **attrs)


@node
def conv_block(d: Draft) -> object:
    """Convolution, normalization, activation, and a sum with what was there."""
    x = d.pick(ranked(4, 4))
    value = d.values[x]
    channels = value.shape[1]
    _static(d, (channels,))
    k = one_of(d, 1, 3)
    y = d.apply("Conv", [x, weight(d, (channels, channels, k, k), value)], pads=[k // 2] * 4)[0]
    y = _batchnorm(d, y)
    if flip(d):
        y = d.apply("Add", [y, x] if flip(d) else [x, y])[0]
    return d.apply(one_of(d, "Relu", "Sigmoid", "LeakyRelu"), [y])


def _batchnorm(d: Draft, x: str) -> str:
    value = d.values[x]
    shape = (value.shape[1],)
    parts = [weight(d, shape, value) for _ in range(3)]
    var = d.constant(np.abs(d.rng.normal(size=shape) + 1).astype(value.dtype) + np.asarray(0.1, value.dtype))
    return d.apply("BatchNormalization", [x, *parts, var], epsilon=one_of(d, 1e-5, 0.01))[0]


@node
def batchnorm(d: Draft) -> object:
    x = d.pick(ranked(2, 5))
    _static(d, d.values[x].shape[1:2])
    return _batchnorm(d, x)


@node
def conv_transpose(d: Draft) -> object:
    x = d.pick(ranked(3, 4))
    value = d.values[x]
    channels, sizes = value.shape[1], value.shape[2:]
    _static(d, (channels,))
    groups = one_of(d, 1, channels)
    kernel = [number(d, 1, 3) for _ in sizes]
    strides = [number(d, 1, 2) for _ in sizes]
    attrs: dict[str, Any] = {"strides": strides} if flip(d, 0.7) else {}
    if flip(d, 0.3):
        attrs["auto_pad"] = one_of(d, "SAME_UPPER", "SAME_LOWER", "VALID")
    elif flip(d):
        attrs["pads"] = [number(d, 0, k - 1) for k in (*kernel, *kernel)]
    if "strides" in attrs and flip(d, 0.3):
        attrs["output_padding"] = [number(d, 0, s - 1) for s in strides]
    w = weight(d, (channels, number(d, 1, 2), *kernel), value)
    bias = [weight(d, (d.values[w].shape[1] * groups,), value)] if flip(d) else []
    return d.apply("ConvTranspose", [x, w, *bias], group=groups, **attrs)


@node
def pool(d: Draft) -> object:
    x = d.pick(ranked(3, 5))
    op = one_of(d, "MaxPool", "AveragePool")
    newest = 10 if op == "MaxPool" else 19
    attrs = _window(d, d.values[x].shape[2:], dilated=d.opset >= newest)
    if d.opset >= 10 and "auto_pad" not in attrs and flip(d, 0.4):
        attrs["ceil_mode"] = 1
    if op == "AveragePool" and flip(d):
        attrs["count_include_pad"] = 1
    return d.apply(op, [x], **attrs)


@node
def global_pool(d: Draft) -> object:
    return d.apply(one_of(d, "GlobalAveragePool", "GlobalMaxPool"), [d.pick(ranked(3, 5))])


@node
def resize(d: Draft) -> object:
    if d.opset < 11:
        raise RefusedError("another form")
    x = d.pick(ranked(3, 4))
    scales = d.constant(np.array([1, 1, *(one_of(d, 2, 1) for _ in d.values[x].shape[2:])], "float32"))
    mode = one_of(d, "nearest", "linear")
    how = one_of(d, "half_pixel", "asymmetric", "align_corners")
    more = {"nearest_mode": one_of(d, "floor", "round_prefer_floor")} if mode == "nearest" else {}
    empty = d.constant(np.zeros(0, "float32")) if d.opset < 13 else ""
    return d.apply("Resize", [x, empty, scales], mode=mode, coordinate_transformation_mode=how, **more)


@node
def reduce(d: Draft) -> object:
    x = d.pick(lambda v: is_float(v) and v.size > 0)
    rank = d.values[x].ndim
    op = one_of(d, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceL2",
                "ReduceL1", "ReduceSumSquare", "ReduceProd", "ReduceLogSumExp")  # fmt: skip
    since = 13 if op == "ReduceSum" else 18
    keep = {} if flip(d, 0.3) else {"keepdims": number(d, 0, 1)}
    if flip(d, 0.2) or not rank:
        return d.apply(op, [x], **keep)
    if d.opset >= since and flip(d, 0.15):
        return d.apply(op, [x, d.ints()], noop_with_empty_axes=number(d, 0, 1), **keep)
    axes = axes_of(d, rank)
    return axes_given(d, op, x, axes if d.opset >= 11 else [a % rank for a in axes], since, **keep)


@node
def softmax(d: Draft) -> object:
    x = d.pick(lambda v: is_float(v) and v.ndim >= 1 and v.size > 0)
    rank = d.values[x].ndim
    axis = axis_of(d, rank) if d.opset >= 11 else number(d, 0, rank - 1)
    return d.apply(
        one_of(d, "Softmax", "Softmax", "LogSoftmax", "Hardmax"), [x], **({} if flip(d, 0.3) else {"axis": axis})
    )


@node
def layernorm(d: Draft) -> object:
    x = d.pick(ranked(2, 4))
    value = d.values[x]
    _static(d, value.shape[-1:])
    shape = value.shape[-1:]
    if d.opset >= 17 and flip(d):
        bias = [weight(d, shape, value)] if flip(d) else []
        return d.apply("LayerNormalization", [x, weight(d, shape, value), *bias], **({"axis": -1} if flip(d) else {}))
    last = one_of(d, -1, value.ndim - 1) if d.opset >= 11 else value.ndim - 1
    mean = axes_given(d, "ReduceMean", x, [last], 18)[0]
    off = d.apply("Sub", [x, mean])[0]
    if flip(d):
        square = d.apply("Mul", [off, off])[0]
    else:
        square = d.apply("Pow", [off, d.constant(np.asarray(2, value.dtype))])[0]
    spread = axes_given(d, "ReduceMean", square, [last], 18)[0]
    root = d.apply("Sqrt", d.apply("Add", [spread, d.constant(np.asarray(1e-3, value.dtype))]))[0]
    scaled = d.apply("Mul", [d.apply("Div", [off, root])[0], weight(d, shape, value)])[0]
    return d.apply("Add", [scaled, weight(d, shape, value)])


@node
def gelu(d: Draft) -> object:
    x = d.pick(is_float)
    kind = d.values[x].dtype
    inner = d.apply("Erf", d.apply("Div", [x, d.constant(np.asarray(2**0.5, kind))]))[0]
    outer = d.apply("Add", [inner, d.constant(np.asarray(1, kind))])[0]
    half = d.constant(np.asarray(0.5, kind))
    if flip(d):
        return d.apply("Mul", [d.apply("Mul", [x, outer])[0], half])
    return d.apply("Mul", [d.apply("Mul", [x, half])[0], outer])


@node
def swish(d: Draft) -> object:
    x = d.pick(is_float)
    if flip(d):
        return d.apply("Mul", [x, d.apply("Sigmoid", [x])[0]])
    return d.apply("Mul", [d.apply("HardSigmoid", [x], alpha=one_of(d, 1 / 6, 0.2), beta=0.5)[0], x])


@node
def attention(d: Draft) -> object:
    x = d.pick(ranked(3, 3))
    value = d.values[x]
    rows, width = value.shape[1:]
    _static(d, (rows, width))
    if width % 2:
        raise RefusedError("odd")
    heads: list[str] = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = d.apply("MatMul", [x, weight(d, (width, width), value)])[0]
        y = d.apply("Reshape", [y, d.ints(0, rows if flip(d) else -1, 2, width // 2)])[0]
        heads.append(d.apply("Transpose", [y], perm=perm)[0])
    scores = d.apply("MatMul", heads[:2])[0]
    scores = d.apply(one_of(d, "Div", "Mul"), [scores, d.constant(np.asarray(0.5, value.dtype))])[0]
    weights = d.apply("Softmax", [scores], axis=3 if flip(d) else -1 if d.opset >= 11 else 3)[0]
    y = d.apply("Transpose", d.apply("MatMul", [weights, heads[2]]), perm=[0, 2, 1, 3])[0]
    return d.apply("Reshape", [y, d.ints(0, 0, -1)])


@node
def towers(d: Draft) -> object:
    """The same layer twice on one input, or two on the parts of one."""
    x = d.pick(ranked(2, 3))
    value = d.values[x]
    _static(d, value.shape[-1:])
    w = [weight(d, (value.shape[-1], number(d, 1, 4)), value) for _ in range(2)]
    made = [d.apply("MatMul", [x, name])[0] for name in w]
    if d.values[made[0]].shape == d.values[made[1]].shape and flip(d):
        return d.apply(one_of(d, "Add", "Sub"), made)
    return d.apply("Concat", made, axis=value.ndim - 1)


@node
def quantized(d: Draft) -> object:
    if d.opset < 10:
        raise RefusedError("no QuantizeLinear")
    x = d.pick(lambda v: v.dtype == np.float32)
    scale, zero = d.constant(0.05, "float32"), d.constant(one_of(d, 0, 128), "uint8")
    y = d.apply("QuantizeLinear", [x, scale, zero])[0]
    return d.apply("DequantizeLinear", [y, scale, zero])


@node
def dropout(d: Draft) -> object:
    x = d.pick(is_float)
    if d.opset < 12:
        return d.apply("Dropout", [x], ratio=0.3)
    return d.apply("Dropout", [x, *([d.constant(0.3, "float32")] if flip(d) else [])], number(d, 1, 2))


@node
def norms(d: Draft) -> object:
    x = d.pick(ranked(3, 4))
    value = d.values[x]
    _static(d, value.shape[1:2])
    if flip(d):
        shape = value.shape[1:2]
        return d.apply("InstanceNormalization", [x, weight(d, shape, value), weight(d, shape, value)])
    return d.apply("LRN", [x], size=3)


@node
def einsum(d: Draft) -> object:
    if d.opset < 12:
        raise RefusedError("no Einsum")
    x = d.pick(ranked(3, 3))
    value = d.values[x]
    _static(d, value.shape[-1:])
    return d.apply("Einsum", [x, weight(d, (value.shape[-1], 3), value)], equation="abc,cd->abd")


@node
def chain(d: Draft) -> object:
    """Additions and products with constants, which fold."""
    x = d.pick(is_float)
    for _ in range(number(d, 2, 4)):
        x = d.apply(one_of(d, "Add", "Mul", "Sub"), [x, beside(d, x)])[0]
    return x
