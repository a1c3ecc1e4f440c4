"""Normalizations, activations and powers that exporters spell out, as the operators that they are.

By hand because they are definitions. Each way of writing one part (a square, a root, a quotient) is a rule of its own,
so that an operator needs few forms. A stored number counts as the ``Fill`` that would make it: so its value can become
an attribute.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule
from egraph_opt.terms import FloatClass

_SAME = "shape(out) == shape(x)"
_EPSILON = "Fill(shape=q, value=e, dtype=t)"


def _is(name: str, lhs: str, rhs: str, *when: str, family: str, float_class: FloatClass = "reassociate") -> Rule:
    source = f"definition of {rhs.split('(')[0]} (ONNX operator specification)"
    return rule(name, lhs, rhs, *when, status="definition", family=family, source=source, float_class=float_class)


def _powers() -> tuple[Rule, ...]:
    forms: tuple[tuple[str, str, str, FloatClass], ...] = (
        ("power-one", "Pow(x, 1)", "x", "exact"),
        ("power-two", "Pow(x, 2)", "Mul(x, x)", "reassociate"),
        ("power-three", "Pow(x, 3)", "Mul(Mul(x, x), x)", "reassociate"),
        ("power-half", "Pow(x, 0.5)", "Sqrt(x)", "reassociate"),
        ("power-minus-one", "Pow(x, -1)", "Reciprocal(x)", "reassociate"),
        ("power-minus-half", "Pow(x, -0.5)", "Reciprocal(Sqrt(x))", "spreads-nonfinite"),
        ("one-over", "Div(1, x)", "Reciprocal(x)", "reassociate"),
    )
    return tuple(_is(n, lhs, rhs, _SAME, family="powers", float_class=worst) for n, lhs, rhs, worst in forms)


def _normalizations() -> tuple[Rule, ...]:
    """Over the last axes, from ``a[0]`` on; the scale and the offset have the shape of these axes."""
    last = ("a == range(a[0], rank(x))", "shape(s) == shape(x)[a[0]:]", _SAME)

    def mean(x: str) -> str:
        return f"ReduceMean({x}, axes=a, keepdims=1)"

    centred = f"Sub(x, {mean('x')})"
    root = f"Sqrt(Add({mean(f'Mul({centred}, {centred})')}, {_EPSILON}))"
    square = f"Sqrt(Add({mean('Mul(x, x)')}, {_EPSILON}))"
    made = [
        _is(
            "layernorm",
            f"Mul(Div({centred}, {root}), s)",
            "LayerNormalization(x, s, axis=a[0], epsilon=e)",
            *last,
            family="layernorm",
        ),
        _is(
            "layernorm-offset",
            "Add(LayerNormalization(x, s, axis=a, epsilon=e), b)",
            "LayerNormalization(x, s, b, axis=a, epsilon=e)",
            "shape(b) == shape(s)",
            family="layernorm",
        ),
        _is(
            "rmsnorm",
            f"Mul(Div(x, {square}), s)",
            "RMSNormalization(x, s, axis=a[0], epsilon=e)",
            *last,
            family="rmsnorm",
        ),
    ]
    shifted = "Exp(Sub(x, ReduceMax(x, axes=a, keepdims=1)))"
    softmax = f"Div({shifted}, ReduceSum({shifted}, axes=a, keepdims=1))"
    return (*made, _is("softmax", softmax, "Softmax(x, axis=a[0])", "length(a) == 1", family="softmax"))


def _tanh_gelu() -> tuple[Rule, ...]:
    cubic = "Add(x, Mul(Mul(Mul(x, x), x), 0.044715))"
    bell = f"Add(Tanh(Mul({cubic}, 0.7978845608028654)), 1)"
    forms = {
        "half-input": f"Mul(Mul(x, 0.5), {bell})",
        "half-output": f"Mul(Mul(x, {bell}), 0.5)",
        "half-bell": f"Mul(x, Mul({bell}, 0.5))",
    }
    return tuple(
        _is(f"gelu-tanh-{n}", lhs, "Gelu(x, approximate='tanh')", _SAME, family="gelu") for n, lhs in forms.items()
    )


_NEVER_NEGATIVE = (
    "Sigmoid(x)",
    "Exp(x)",
    "Softplus(x)",
    "Softmax(x, axis=a)",
    "HardSigmoid(x, alpha=p, beta=q)",
    "Abs(x)",
)


def _bounds() -> tuple[Rule, ...]:
    """A bound that is a stored number, and a lower bound of what never lies below it."""
    made: list[Rule] = []
    for op, clip in (("Max", "Clip(x, min=e, max=None)"), ("Min", "Clip(x, min=None, max=e)")):
        for place, operands in (("", f"x, {_EPSILON}"), ("-first", f"{_EPSILON}, x")):
            name = f"{op.lower()}-of-number{place}"
            # a bound of 0 is Relu's; which of the two zeros comes out is open
            made.append(_is(name, f"{op}({operands})", clip, "e != 0.0", _SAME, family="clip"))
    for name, lhs in (("max-of-zero", "Max(x, 0)"), ("max-of-zero-first", "Max(0, x)")):
        made.append(_is(name, lhs, "Relu(x)", _SAME, family="clip"))
    for function in _NEVER_NEGATIVE:
        op = function.partition("(")[0]
        source = f"the range of {op}"
        made.append(
            rule(
                f"relu-of-{op.lower()}",
                f"Relu({function})",
                function,
                status="definition",
                family="never-negative",
                source=source,
                float_class="exact",
            )
        )
    return tuple(made)


RULES: tuple[Rule, ...] = (*_powers(), *_normalizations(), *_tanh_gelu(), *_bounds())
