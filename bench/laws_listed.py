"""The laws of ``laws.py``: the body of a graph in ONNX's own text, and the operators that should be left of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Law:
    """A graph spelled out.

    Attributes:
        inputs: typed as ONNX writes them.
        body: statements; the output is ``y``.
        goal: what should be left, as ``laws.operators`` says it.
        weights: shapes of random weights; ``constants`` are given.
        numerics, effort: the rules that are loaded.
    """

    name: str
    family: str
    inputs: str
    body: str
    goal: str
    weights: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    constants: Mapping[str, object] = field(default_factory=dict[str, object])
    numerics: Literal["exact", "standard", "fast"] = "standard"
    effort: Literal["standard", "thorough"] = "standard"
    opset: int = 20


X = "float[2,6,8] x"
XY = "float[2,6,8] x, float[2,6,8] z"
IMAGE = "float[1,8,10,10] x"
ROW: dict[str, tuple[int, ...]] = {"s": (8,), "b": (8,)}
LAST = {"last": [-1], "small": 1e-5, "two": 2.0, "one": 1.0}
CENTRED = "m = ReduceMean(x, last) d = Sub(x, m) "
GELU = {"half": 0.5, "one": 1.0, "root": 2**0.5, "inverse": 0.5**0.5}
TANH = {"half": 0.5, "one": 1.0, "three": 3.0, "cubic": 0.044715, "factor": 0.7978845608028654}
SIX = {"three": 3.0, "zero": 0.0, "six": 6.0}
PAIR: dict[str, tuple[int, ...]] = {"w": (8, 5), "u": (8, 5)}
KERNELS: dict[str, tuple[int, ...]] = {"w": (8, 8, 3, 3), "v": (8, 8, 1, 1), "b": (8,), "d": (8,)}

LAWS = (
    # operators spelled out
    Law("layernorm", "definitions", X, CENTRED + """q = Mul(d, d) v = ReduceMean(q, last) e = Add(v, small) r = Sqrt(e)
        n = Div(d, r) k = Mul(n, s) y = Add(k, b)""", "LayerNormalization", ROW, LAST),
    Law("layernorm-pow", "definitions", X, CENTRED + """q = Pow(d, two) v = ReduceMean(q, last) e = Add(v, small)
        r = Sqrt(e) n = Div(d, r) k = Mul(n, s) y = Add(k, b)""", "LayerNormalization", ROW, LAST),
    Law("layernorm-reciprocal", "definitions", X, CENTRED + """q = Mul(d, d) v = ReduceMean(q, last) e = Add(v, small)
        r = Sqrt(e) i = Reciprocal(r) n = Mul(d, i) k = Mul(n, s) y = Add(k, b)""", "LayerNormalization", ROW, LAST),
    Law("layernorm-half-power", "definitions", X, CENTRED + """q = Pow(d, two) v = ReduceMean(q, last)
        e = Add(v, small) r = Pow(e, half) n = Div(d, r) k = Mul(n, s) y = Add(k, b)""", "LayerNormalization",
        ROW, {**LAST, "half": 0.5}),
    Law("rmsnorm", "definitions", X, """q = Pow(x, two) v = ReduceMean(q, last) e = Add(v, small) r = Sqrt(e)
        i = Reciprocal(r) n = Mul(x, i) y = Mul(s, n)""", "RMSNormalization", ROW, LAST, opset=23),
    Law("rmsnorm-div", "definitions", X, """q = Mul(x, x) v = ReduceMean(q, last) e = Add(v, small) r = Sqrt(e)
        n = Div(x, r) y = Mul(n, s)""", "RMSNormalization", ROW, LAST, opset=23),
    Law("rmsnorm-one-over", "definitions", X, """q = Pow(x, two) v = ReduceMean(q, last) e = Add(v, small) r = Sqrt(e)
        i = Div(one, r) n = Mul(x, i) y = Mul(n, s)""", "RMSNormalization", ROW, LAST, opset=23),
    Law("softmax", "definitions", X, "m = ReduceMax(x, last) d = Sub(x, m) e = Exp(d) t = ReduceSum(e, last) "
        "y = Div(e, t)", "Softmax", constants=LAST),
    Law("logsoftmax", "definitions", X, "p = Softmax(x) y = Log(p)", "LogSoftmax", numerics="fast"),
    Law("gelu", "definitions", X, "g = Div(x, root) e = Erf(g) a = Add(e, one) h = Mul(x, half) y = Mul(h, a)", "Gelu",
        constants=GELU),
    Law("gelu-late-half", "definitions", X, "g = Div(x, root) e = Erf(g) a = Add(one, e) h = Mul(x, a) "
        "y = Mul(h, half)", "Gelu", constants=GELU),
    Law("gelu-times", "definitions", X, "g = Mul(x, inverse) e = Erf(g) a = Add(one, e) h = Mul(half, a) y = Mul(x, h)",
        "Gelu", constants=GELU),
    Law("gelu-tanh", "definitions", X, """q = Pow(x, three) k = Mul(q, cubic) i = Add(x, k) f = Mul(i, factor)
        t = Tanh(f) a = Add(t, one) h = Mul(x, half) y = Mul(h, a)""", "Gelu", constants=TANH),
    Law("gelu-tanh-product", "definitions", X, """q = Mul(x, x) p = Mul(q, x) k = Mul(cubic, p) i = Add(x, k)
        f = Mul(factor, i) t = Tanh(f) a = Add(one, t) h = Mul(half, x) y = Mul(h, a)""", "Gelu", constants=TANH),
    Law("hardswish", "definitions", X, "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
        "HardSwish", constants=SIX),
    Law("hardswish-late", "definitions", X, "a = Add(x, three) c = Clip(a, zero, six) m = Div(c, six) y = Mul(x, m)",
        "HardSwish", constants=SIX),
    Law("hardsigmoid", "definitions", X, "a = Add(x, three) c = Clip(a, zero, six) y = Div(c, six)", "HardSigmoid",
        constants=SIX),
    Law("sigmoid", "definitions", X, "n = Neg(x) e = Exp(n) a = Add(e, one) y = Reciprocal(a)", "Sigmoid",
        constants=GELU),
    Law("sigmoid-div", "definitions", X, "n = Neg(x) e = Exp(n) a = Add(one, e) y = Div(one, a)", "Sigmoid",
        constants=GELU),
    Law("softplus", "definitions", X, "e = Exp(x) a = Add(e, one) y = Log(a)", "Softplus", constants=GELU,
        numerics="fast"),
    Law("mish", "definitions", X, "p = Softplus(x) t = Tanh(p) y = Mul(x, t)", "Mish"),
    Law("scale-of-scores", "definitions", "float[2,6,8] x, float[2,8,6] k", "q = Mul(x, half) s = MatMul(q, k) "
        "y = Mul(s, half)", "MatMul, Mul", constants=GELU),
    Law("scale-into-weight", "definitions", X, "q = Mul(x, half) y = MatMul(q, w)", "MatMul", {"w": (8, 5)}, GELU),
    Law("division-into-weight", "definitions", X, "q = MatMul(x, w) y = Div(q, root)", "MatMul", {"w": (8, 5)}, GELU),
    # bounds
    Law("clip-as-min-max", "bounds", X, "a = Max(x, zero) y = Min(a, six)", "Clip", constants=SIX),
    Law("clip-of-relu", "bounds", X, "a = Relu(x) y = Clip(a, zero, six)", "Clip", constants=SIX),
    Law("relu-of-clip", "bounds", X, "a = Clip(x, zero, six) y = Relu(a)", "Clip", constants=SIX),
    Law("min-of-relu", "bounds", X, "a = Relu(x) y = Min(a, six)", "Clip", constants=SIX),
    Law("clip-of-clip", "bounds", X, "a = Clip(x, zero, six) y = Clip(a, zero, three)", "Clip", constants=SIX),
    Law("max-of-max", "bounds", X, "a = Max(x, three) y = Max(a, six)", "Clip", constants=SIX),
    Law("relu-of-sigmoid", "bounds", X, "a = Sigmoid(x) y = Relu(a)", "Sigmoid"),
    Law("relu-twice", "bounds", X, "a = Relu(x) y = Relu(a)", "Relu"),
    # algebra
    Law("factors", "algebra", X, "a = Mul(x, three) y = Mul(a, six)", "Mul", constants=SIX),
    Law("terms", "algebra", X, "a = Add(x, three) y = Add(a, six)", "Add", constants=SIX),
    Law("row-factors", "algebra", X, "a = Mul(x, s) y = Mul(a, b)", "Mul", ROW),
    Law("row-terms", "algebra", X, "a = Add(x, s) y = Add(a, b)", "Add", ROW),
    Law("term-and-difference", "algebra", X, "a = Add(x, s) y = Sub(a, b)", "Add", ROW),
    Law("divisors", "algebra", X, "a = Div(x, three) y = Div(a, six)", "Mul", constants=SIX),
    Law("divisor-and-factor", "algebra", X, "a = Div(x, three) y = Mul(a, six)", "Mul", constants=SIX),
    Law("affine-twice", "algebra", X, "a = Mul(x, three) c = Add(a, six) e = Mul(c, six) y = Add(e, three)",
        "Conv", constants=SIX),  # of one tap per channel, with a bias
    Law("negations", "algebra", X, "a = Neg(x) c = Neg(a) y = Relu(c)", "Relu"),
    Law("minus-negated", "algebra", XY, "a = Neg(z) y = Sub(x, a)", "Add"),
    Law("plus-negated", "algebra", XY, "a = Neg(z) y = Add(x, a)", "Sub"),
    Law("negated-difference", "algebra", XY, "a = Sub(x, z) y = Neg(a)", "Sub"),
    Law("negated-product", "algebra", XY, "a = Neg(x) c = Neg(z) y = Mul(a, c)", "Mul"),
    Law("times-reciprocal", "algebra", XY, "a = Reciprocal(z) y = Mul(x, a)", "Div"),
    Law("cancelled-factor", "algebra", X, "a = Mul(x, three) c = Div(a, three) y = Relu(c)", "Relu", constants=SIX,
        numerics="fast"),
    Law("common-factor", "algebra", "float[2,6,8] x, float[2,6,8] z, float[2,6,8] k",
        "a = Mul(x, k) c = Mul(z, k) y = Add(a, c)", "Add, Mul"),
    Law("common-factor-of-difference", "algebra", "float[2,6,8] x, float[2,6,8] z, float[2,6,8] k",
        "a = Mul(x, k) c = Mul(z, k) y = Sub(a, c)", "Mul, Sub"),
    Law("common-divisor", "algebra", "float[2,6,8] x, float[2,6,8] z, float[2,6,8] k",
        "a = Div(x, k) c = Div(z, k) y = Add(a, c)", "Add, Div", numerics="fast"),
    Law("exponentials", "algebra", XY, "a = Exp(x) c = Exp(z) y = Mul(a, c)", "Add, Exp", numerics="fast"),
    Law("half-power", "algebra", X, "y = Pow(x, half)", "Sqrt", constants=GELU),
    Law("first-power", "algebra", X, "a = Pow(x, one) y = Relu(a)", "Relu", constants=GELU),
    Law("where-of-one", "algebra", "float[2,6,8] x, bool[2,6,8] c", "a = Where(c, x, x) y = Relu(a)", "Relu"),
    Law("same-twice", "algebra", X, "a = Tanh(x) c = Tanh(x) y = Add(a, c)", "Add, Tanh"),
    # products
    Law("chain", "products", X, "a = MatMul(x, w) y = MatMul(a, v)", "MatMul", {"w": (8, 40), "v": (40, 5)}),
    Law("chain-of-three", "products", X, "a = MatMul(x, w) c = MatMul(a, v) y = MatMul(c, u)", "MatMul",
        {"w": (8, 40), "v": (40, 40), "u": (40, 5)}),
    Law("chain-with-biases", "products", X, "a = MatMul(x, w) c = Add(a, t) e = MatMul(c, v) y = Add(e, u)",
        "Add, MatMul", {"w": (8, 40), "t": (40,), "v": (40, 5), "u": (5,)}),
    Law("lora", "products", X, "a = MatMul(x, w) c = MatMul(x, p) e = MatMul(c, q) y = Add(a, e)", "MatMul",
        {"w": (8, 5), "p": (8, 2), "q": (2, 5)}),
    Law("lora-scaled", "products", X, "a = MatMul(x, w) c = MatMul(x, p) e = MatMul(c, q) f = Mul(e, half) "
        "y = Add(a, f)", "MatMul", {"w": (8, 5), "p": (8, 2), "q": (2, 5)}, GELU),
    Law("linear-attention", "products", "float[2,64,8] x, float[2,8,64] k, float[2,64,8] v",
        "s = MatMul(x, k) y = MatMul(s, v)", "2 MatMul"),
    Law("sum-of-products", "products", X, "a = MatMul(x, w) c = MatMul(x, u) y = Add(a, c)", "MatMul", PAIR),
    Law("difference-of-products", "products", X, "a = MatMul(x, w) c = MatMul(x, u) y = Sub(a, c)", "MatMul", PAIR),
    Law("product-of-sum", "products", XY, "a = MatMul(x, w) c = MatMul(z, w) y = Add(a, c)", "Add, MatMul",
        {"w": (8, 5)}),
    Law("bias-after-gemm", "products", "float[6,8] x", "a = Gemm(x, w) y = Add(a, t)", "Gemm",
        {"w": (8, 5), "t": (5,)}),
    Law("mean-before-product", "products", X, "a = MatMul(x, w) y = ReduceMean(a, axis)", "MatMul, ReduceMean",
        {"w": (8, 8)}, {"axis": [1]}),
    Law("shared-input", "products", "float[6,8] x", "a = MatMul(x, w) c = MatMul(x, u) e = Relu(a) f = Relu(c) "
        "y = Concat<axis = 1>(e, f)", "MatMul, Relu", PAIR),
    # convolutions
    Law("repvgg", "convolutions", IMAGE, "a = Conv<pads = [1, 1, 1, 1]>(x, w, b) c = Conv(x, v, d) y = Add(a, c)",
        "Conv", KERNELS),
    Law("repvgg-identity", "convolutions", IMAGE, "a = Conv<pads = [1, 1, 1, 1]>(x, w, b) c = Conv(x, v, d) "
        "e = Add(a, c) f = Add(e, x) y = Relu(f)", "Conv, Relu", KERNELS),
    Law("batchnorm", "convolutions", IMAGE, "a = Conv<pads = [1, 1, 1, 1]>(x, w) "
        "y = BatchNormalization(a, b, d, mean, variance)", "Conv", {**KERNELS, "mean": (8,)},
        {"variance": [1.0, 2.0, 0.5, 1.5, 1.0, 3.0, 0.25, 1.0]}),
    Law("affine-after-conv", "convolutions", IMAGE, "a = Conv<pads = [1, 1, 1, 1]>(x, w, b) c = Mul(a, s) "
        "y = Add(c, t)", "Conv", {**KERNELS, "s": (8, 1, 1), "t": (8, 1, 1)}),
    Law("affine-before-conv", "convolutions", IMAGE, "a = Mul(x, s) c = Add(a, t) y = Conv(c, w, b)", "Conv",
        {**KERNELS, "s": (8, 1, 1), "t": (8, 1, 1)}),
    Law("pad-before-conv", "convolutions", IMAGE, "a = Pad(x, sides) y = Conv(a, w, b)", "Conv", KERNELS,
        {"sides": [0, 0, 1, 1, 0, 0, 1, 1]}),
    Law("sum-of-convolutions", "convolutions", IMAGE, "a = Conv(x, w, b) c = Conv(x, v, d) y = Add(a, c)", "Conv",
        {**KERNELS, "v": (8, 8, 3, 3)}),
    Law("pointwise-chain", "convolutions", IMAGE, "a = Conv(x, v, d) y = Conv(a, u)", "Conv",
        {**KERNELS, "u": (8, 8, 1, 1)}, effort="thorough"),
    # movement
    Law("reshapes", "movement", X, "a = Reshape(x, first) c = Reshape(a, second) y = Relu(c)", "Relu, Reshape",
        constants={"first": [2, 48], "second": [12, 8]}),
    Law("reshape-back", "movement", X, "a = Reshape(x, first) c = Relu(a) y = Reshape(c, second)", "Relu",
        constants={"first": [2, 48], "second": [2, 6, 8]}),
    Law("transposes", "movement", X, "a = Transpose<perm = [0, 2, 1]>(x) c = Relu(a) "
        "y = Transpose<perm = [0, 2, 1]>(c)", "Relu"),
    Law("transposes-through-sum", "movement", XY, "a = Transpose<perm = [0, 2, 1]>(x) "
        "c = Transpose<perm = [0, 2, 1]>(z) e = Add(a, c) y = Transpose<perm = [0, 2, 1]>(e)", "Add"),
    Law("transpose-through-softmax", "movement", X, "a = Transpose<perm = [0, 2, 1]>(x) c = Softmax<axis = 1>(a) "
        "y = Transpose<perm = [0, 2, 1]>(c)", "Softmax"),
    Law("transpose-through-mean", "movement", X, "a = Transpose<perm = [0, 2, 1]>(x) "
        "y = ReduceMean<keepdims = 0>(a, last)",
        "ReduceMean", constants=LAST),
    Law("transpose-through-concat", "movement", XY, "a = Transpose<perm = [0, 2, 1]>(x) "
        "c = Transpose<perm = [0, 2, 1]>(z) e = Concat<axis = 2>(a, c) y = Transpose<perm = [0, 2, 1]>(e)", "Concat"),
    Law("split-and-concat", "movement", X, "a, c = Split<axis = 2, num_outputs = 2>(x) e = Concat<axis = 2>(a, c) "
        "y = Relu(e)", "Relu"),
    Law("concat-and-split", "movement", XY, "a = Concat<axis = 2>(x, z) c, e = Split<axis = 2, num_outputs = 2>(a) "
        "y = Sub(c, e)", "Sub"),
    Law("slices-and-concat", "movement", X, "a = Slice(x, zero, mid, axis) c = Slice(x, mid, end, axis) "
        "e = Concat<axis = 2>(a, c) y = Relu(e)", "Relu",
        constants={"zero": [0], "mid": [3], "end": [8], "axis": [2]}),
    Law("slices", "movement", X, "a = Slice(x, one, end, axis) c = Slice(a, one, end, axis) y = Relu(c)",
        "Relu, Slice", constants={"one": [1], "end": [9], "axis": [2]}),
    Law("slice-of-concat", "movement", XY, "a = Concat<axis = 2>(x, z) c = Slice(a, zero, end, axis) y = Relu(c)",
        "Relu", constants={"zero": [0], "end": [8], "axis": [2]}),
    Law("slice-of-pad", "movement", X, "a = Pad(x, sides) c = Slice(a, one, end, axis) y = Relu(c)", "Relu",
        constants={"sides": [0, 0, 1, 0, 0, 1], "one": [1], "end": [9], "axis": [2]}),
    Law("pads", "movement", X, "a = Pad(x, sides) y = Pad(a, sides)", "Pad", constants={"sides": [0, 0, 1, 0, 0, 1]}),
    Law("concats", "movement", XY, "a = Concat<axis = 2>(x, z) y = Concat<axis = 2>(a, x)", "Concat"),
    Law("expand-in-sum", "movement", "float[1,1,8] x, float[2,6,8] z", "a = Expand(x, shape) y = Add(a, z)", "Add",
        constants={"shape": [2, 6, 8]}),
    Law("expands", "movement", "float[1,1,8] x", "a = Expand(x, first) y = Expand(a, second)", "Expand",
        constants={"first": [1, 6, 8], "second": [2, 6, 8]}),
    Law("gathers", "movement", X, "a = Gather<axis = 2>(x, i) y = Gather<axis = 2>(a, j)", "Gather",
        constants={"i": [5, 3, 1, 0], "j": [2, 0]}),
    Law("identity-movements", "movement", X, """a = Identity(x) c = Transpose<perm = [0, 1, 2]>(a) e = Reshape(c, shape)
        f = Expand(e, shape) g = Slice(f, zero, end, axis) h = Pad(g, sides) k = Tile(h, times) l = Concat<axis = 0>(k)
        y = Relu(l)""", "Relu", constants={"shape": [2, 6, 8], "zero": [0], "end": [8], "axis": [2],
        "sides": [0] * 6, "times": [1, 1, 1]}),
    Law("casts", "movement", X, "a = Cast<to = 11>(x) c = Cast<to = 1>(a) y = Relu(c)", "Relu"),
    Law("cast-to-itself", "movement", X, "a = Cast<to = 1>(x) y = Relu(a)", "Relu"),
)  # fmt: skip
