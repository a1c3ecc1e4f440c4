"""Activations and normalisations, spelled out by simpler operators as the ONNX operator specification does."""

from __future__ import annotations

from functools import partial

from egraph_opt.axioms.record import axiom

_law = partial(axiom, family="definitions", definition=True, source="ONNX operator specification")
_SIXTH_FLOAT32 = 0.1666666716337204
_ROOT2 = 1.4142135623730951


def _constant(name: str) -> str:
    return f"Fill(shape=(), value={name}, dtype=dtype(x))"


_ACTIVATIONS = (
    _law("sigmoid-spelled-out", "Sigmoid(x)", "Reciprocal(Add(Exp(Neg(x)), 1))"),
    _law("softplus-spelled-out", "Softplus(x)", "Log(Add(Exp(x), 1))", float_class="overflow-risk"),
    _law("softsign-spelled-out", "Softsign(x)", "Div(x, Add(Abs(x), 1))"),
    _law("mish-spelled-out", "Mish(x)", "Mul(x, Tanh(Softplus(x)))"),
    _law("prelu-spelled-out", "PRelu(x, s)", "Add(Relu(x), Mul(Min(x, 0), s))", float_class="spreads-nonfinite"),
    _law(
        "leakyrelu-spelled-out",
        "LeakyRelu(x, alpha=a)",
        f"Add(Relu(x), Mul(Min(x, 0), {_constant('a')}))",
    ),
    _law(
        "elu-spelled-out",
        "Elu(x, alpha=a)",
        f"Add(Relu(x), Mul(Sub(Exp(Min(x, 0)), 1), {_constant('a')}))",
    ),
    _law(
        "hardsigmoid-spelled-out",
        "HardSigmoid(x, alpha=a, beta=b)",
        f"Clip(Add(Mul(x, {_constant('a')}), {_constant('b')}), min=0.0, max=1.0)",
    ),
    _law(
        "hardsigmoid-by-six",
        f"HardSigmoid(x, alpha={_SIXTH_FLOAT32}, beta=0.5)",
        "Div(Clip(Add(x, 3), min=0.0, max=6.0), 6)",
    ),
    _law("hardswish-spelled-out", "HardSwish(x)", f"Mul(x, HardSigmoid(x, alpha={_SIXTH_FLOAT32}, beta=0.5))"),
    _law(
        "gelu-spelled-out",
        "Gelu(x, approximate='none')",
        f"Mul(Mul(x, 0.5), Add(Erf(Div(x, {_ROOT2})), 1))",
    ),
    _law(
        "gelu-tanh-spelled-out",
        "Gelu(x, approximate='tanh')",
        "Mul(Mul(x, 0.5), Add(Tanh(Mul(Add(x, Mul(Mul(Mul(x, x), x), 0.044715)), 0.7978845608028654)), 1))",
        float_class="overflow-risk",
    ),
)
_SCALE = f"Div(s, Sqrt(Add(v, {_constant('e')})))"
_COLUMN = "shape=column(shape(s), rank(x) - 1)"


def _standardised(axes: str) -> str:
    """Mean 0 and variance 1 over ``axes``."""
    centred = f"Sub(x, ReduceMean(x, axes={axes}, keepdims=1))"
    variance = f"ReduceMean(Mul({centred}, {centred}), axes={axes}, keepdims=1)"
    return f"Div({centred}, Sqrt(Add({variance}, {_constant('e')})))"


_INNER = "range(a, rank(x))"
_NORMALIZATIONS = (
    _law(
        "batchnorm-spelled-out",
        "BatchNormalization(x, s, b, m, v, epsilon=e)",
        f"Add(Mul(x, Reshape({_SCALE}, {_COLUMN})), Reshape(Sub(b, Mul(m, {_SCALE})), {_COLUMN}))",
        float_class="drops-nonfinite",
    ),
    _law(
        "instancenorm-spelled-out",
        "InstanceNormalization(x, s, b, epsilon=e)",
        f"Add(Mul({_standardised('range(2, rank(x))')}, Reshape(s, {_COLUMN})), Reshape(b, {_COLUMN}))",
    ),
    _law(
        "layernorm-spelled-out",
        "LayerNormalization(x, s, b, axis=a, epsilon=e)",
        f"Add(Mul({_standardised(_INNER)}, s), b)",
    ),
    _law(
        "layernorm-without-bias",
        "LayerNormalization(x, s, axis=a, epsilon=e)",
        f"Mul({_standardised(_INNER)}, s)",
    ),
    _law(
        "rmsnorm-spelled-out",
        "RMSNormalization(x, s, axis=a, epsilon=e)",
        f"Mul(Div(x, Sqrt(Add(ReduceMean(Mul(x, x), axes={_INNER}, keepdims=1), {_constant('e')}))), s)",
    ),
)
_FUSED = {
    "Relu": ("", "()"),
    "Sigmoid": ("", "()"),
    "Tanh": ("", "()"),
    "LeakyRelu": (", alpha=p", "(p,)"),
    "HardSigmoid": (", alpha=p, beta=q", "(p, q)"),
    "Clip": (", min=p, max=q", "(p, q)"),
}
_FUSED_CONVOLUTIONS = tuple(
    axiom(
        f"fusedconv-{name.lower()}{'-bias' if bias else ''}",
        f"{name}(Conv(x, w{bias}, **c){attrs})",
        f"FusedConv(x, w{bias}, **c, activation='{name}', parameters={parameters})",
        float_class="exact",
        definition=True,
        family="definitions",
        source="TASO A14; definition of FusedConv",
    )
    for name, (attrs, parameters) in _FUSED.items()
    for bias in ("", ", b")
)

AXIOMS = (*_ACTIVATIONS, *_NORMALIZATIONS, *_FUSED_CONVOLUTIONS)
