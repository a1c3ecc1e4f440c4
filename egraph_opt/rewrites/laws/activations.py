"""Activations that exporters spell out, put back together; and activations that run inside a convolution.

By hand because they are definitions: what the operators are, in the constants that exporters round in their own ways.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule

_SIXTH = 0.16666666666666666
_SIXTH_FLOAT32 = 0.1666666716337204
_ROOT2 = 1.4142135623730951
_SAME = "shape(out) == shape(x)"


def _definition(name: str, lhs: str, rhs: str, family: str) -> Rule:
    source = f"definition of {rhs.split('(')[0]} (ONNX operator specification)"
    return rule(name, lhs, rhs, _SAME, status="definition", family=family, source=source)


def _hard_swish() -> tuple[Rule, ...]:
    clip = "Clip(Add(x, 3), min=0.0, max=6.0)"
    forms = {
        "product-divided": f"Div(Mul(x, {clip}), 6)",
        "quotient-times": f"Mul(x, Div({clip}, 6))",
        "product-scaled": f"Mul(Mul(x, {clip}), {_SIXTH})",
        "scaled-times": f"Mul(x, Mul({clip}, {_SIXTH}))",
        "scaled-input": f"Mul(Mul(x, {_SIXTH}), {clip})",
        "hard-sigmoid": f"Mul(x, HardSigmoid(x, alpha={_SIXTH_FLOAT32}, beta=0.5))",
    }
    made = [_definition(f"hardswish-{n}", lhs, "HardSwish(x)", "hardswish") for n, lhs in forms.items()]
    back = rule(
        "hardswish-spelled-out",
        "HardSwish(x)",
        f"Mul(x, HardSigmoid(x, alpha={_SIXTH_FLOAT32}, beta=0.5))",
        status="definition",
        family="hardswish-spelled-out",
        source="definition of HardSwish (ONNX operator specification)",
    )
    inner = {"divided": f"Div({clip}, 6)", "scaled": f"Mul({clip}, {_SIXTH})"}
    sigmoid = [
        _definition(f"hardsigmoid-{n}", lhs, f"HardSigmoid(x, alpha={_SIXTH_FLOAT32}, beta=0.5)", "hardsigmoid")
        for n, lhs in inner.items()
    ]
    return (*made, back, *sigmoid)


def _gelu() -> tuple[Rule, ...]:
    made: list[Rule] = []
    for argument, inside in (("divided", f"Div(x, {_ROOT2})"), ("scaled", f"Mul(x, {1 / _ROOT2})")):
        normal = f"Add(Erf({inside}), 1)"
        forms = {
            "half-input": f"Mul(Mul(x, 0.5), {normal})",
            "half-output": f"Mul(Mul(x, {normal}), 0.5)",
            "half-normal": f"Mul(x, Mul({normal}, 0.5))",
            "halved-input": f"Mul(Div(x, 2), {normal})",
            "halved-output": f"Div(Mul(x, {normal}), 2)",
        }
        made += [
            _definition(f"gelu-{argument}-{n}", lhs, "Gelu(x, approximate='none')", "gelu") for n, lhs in forms.items()
        ]
    back = rule(
        "gelu-spelled-out",
        "Gelu(x, approximate='none')",
        f"Mul(Mul(x, 0.5), Add(Erf(Mul(x, {1 / _ROOT2})), 1))",
        status="definition",
        family="gelu-spelled-out",
        source="definition of Gelu (ONNX operator specification)",
    )
    return (*made, back)


def _fused() -> tuple[Rule, ...]:
    """``conv[activation]`` is what ONNX Runtime makes of the pair; as an e-node it can be priced as it runs."""
    activations = {
        "Relu": ("", "()"),
        "Sigmoid": ("", "()"),
        "Tanh": ("", "()"),
        "LeakyRelu": (", alpha=p", "(p,)"),
        "HardSigmoid": (", alpha=p, beta=q", "(p, q)"),
        "Clip": (", min=p, max=q", "(p, q)"),
        "HardSwish": ("", "()"),
    }
    return tuple(
        rule(
            f"conv{'-bias' if bias else ''}-{name.lower()}",
            f"{name}(Conv(x, w{bias}, **c){attrs})",
            f"FusedConv(x, w{bias}, **c, activation='{name}', parameters={parameters})",
            float_class="reassociate" if name == "HardSwish" else "exact",  # it is written as a product
            status="definition",
            family="fused-conv",
            source="definition of FusedConv",
        )
        for name, (attrs, parameters) in activations.items()
        for bias in ("", ", b")
    )


RULES = (*_hard_swish(), *_gelu(), *_fused())
