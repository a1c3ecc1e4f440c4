"""Attention that exporters spell out in products and a softmax, as the one operator that it is.

By hand because they are definitions. The keys come as whatever is the right factor of the first product: it is
transposed once more, and the transposes around it cancel.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule
from egraph_opt.terms import FloatClass

_SOURCE = "definition of Attention (ONNX operator specification)"
_PLAIN = "q_num_heads=0, kv_num_heads=0"
_WHOLE = (
    "rank(q) == 4",
    "rank(t) == 4",
    "rank(v) == 4",
    "shape(t)[:2] == shape(q)[:2]",
    "shape(v)[:2] == shape(q)[:2]",
)


def _is(name: str, lhs: str, rhs: str, *when: str, family: str, worst: FloatClass = "overflow-risk") -> Rule:
    return rule(name, lhs, rhs, *when, status="definition", family=family, source=_SOURCE, float_class=worst)


def _spelled_out() -> tuple[Rule, ...]:
    """Scores as they are, times a number, or over one; with all keys, or with those up to the query's own place."""
    product, number = "MatMul(q, t)", "Fill(shape=z, value=e, dtype=y)"
    one = ("e > 0.0", "product(z) == 1", "length(z) <= 4")
    forms = {
        "": (product, "1.0", ()),
        "-times": (f"Mul({product}, {number})", "e", one),
        "-over": (f"Div({product}, {number})", "reciprocal(e)", one),
    }
    mask = "Trilu(Fill(shape=g, value=m, dtype=h), upper=1, k=1)"
    # so low a number leaves nothing of any score in the softmax
    square = ("size(t, 3) == size(q, 2)", "g == (1,) * (length(g) - 2) + shape(t)[3:] + shape(t)[3:]", "length(g) <= 4")
    masks = (("", "{}", ()), ("-causal", f"Add({{}}, {mask})", ("m == min(m, -1e30)", *square)))
    return tuple(
        _is(
            f"attention{name}{kind}",
            f"MatMul(Softmax({sum_.format(scores)}, axis=3), v)",
            f"Attention(q, Transpose(t, perm=(0, 1, 3, 2)), v, {_PLAIN}, is_causal={int(bool(kind))}, scale={scale})",
            *_WHOLE,
            *when,
            *lowest,
            family="attention",
            worst="spreads-nonfinite" if kind else "overflow-risk",
        )
        for name, (scores, scale, when) in forms.items()
        for kind, sum_, lowest in masks
    )


def _heads() -> tuple[Rule, ...]:
    """Heads that are cut out of the last axis and put back there, and heads of keys that are written out."""
    cut = [f"Transpose({x}, perm=(0, 2, 1, 3))" for x in "qkv"]
    flat = [f"Reshape({x}, shape=shape({x})[:2] + (size({x}, 2) * size({x}, 3),))" for x in "qkv"]
    heads = "q_num_heads=size(q, 2), kv_num_heads=size(k, 2)"
    written = "Reshape(Expand(Reshape({x}, shape=a), shape=b), shape=c)"
    return (
        _is(
            "attention-heads",
            f"Transpose(Attention({', '.join(cut)}, {_PLAIN}, is_causal=i, scale=e), perm=(0, 2, 1, 3))",
            f"Reshape(Attention({', '.join(flat)}, {heads}, is_causal=i, scale=e), shape=shape(out))",
            *(f"rank({x}) == 4" for x in "qkv"),
            "size(k, 0) == size(q, 0)",
            "size(k, 3) == size(q, 3)",
            "shape(v)[:3] == shape(k)[:3]",
            *(f"number(size({x}, 2) * size({x}, 3))" for x in "qkv"),
            family="attention-heads",
        ),
        _is(
            "attention-grouped",
            f"Attention(q, {written.format(x='k')}, {written.format(x='v')}, {_PLAIN}, is_causal=i, scale=e)",
            f"Attention(q, k, v, {_PLAIN}, is_causal=i, scale=e)",
            "rank(k) == 4",
            "rank(v) == 4",
            "shape(k) == shape(v)",
            "a == shape(k)[:2] + (1,) + shape(k)[2:]",
            "b == a[:2] + (b[2],) + a[3:]",
            "c == (a[0], a[1] * b[2], a[3], a[4])",
            family="attention-grouped",
        ),
    )


def _rotary() -> tuple[Rule, ...]:
    """Places told by angles: halves that are turned against each other, with the angles of one half written twice."""
    source = "definition of RotaryEmbedding (ONNX operator specification)"
    halves = [f"Slice(x, axes=a, starts={start}, ends={end}, steps=(1,))" for start, end in (("e", "f"), ("(0,)", "e"))]
    angles = [f"Reshape({n}, shape=(size({n}, 0), size({n}, 2), size({n}, 3)))" for n in "cs"]
    turned = f"Concat(Neg({halves[0]}), {halves[1]}, axis=3)"
    x = "Transpose(x, perm=(0, 2, 1, 3))"
    flat = "Reshape(x, shape=shape(x)[:2] + (size(x, 2) * size(x, 3),))"
    return (
        rule(
            "rotary",
            f"Add(Mul(x, Concat(c, c, axis=3)), Mul({turned}, Concat(s, s, axis=3)))",
            f"RotaryEmbedding(x, {', '.join(angles)}, num_heads=0, interleaved=0)",
            "rank(x) == 4",
            "a == (3,)",
            "number(size(x, 3))",
            "e == (size(x, 3) // 2,)",
            "f == (size(x, 3),)",
            "size(x, 3) % 2 == 0",
            "shape(c) == (size(x, 0), 1, size(x, 2), size(x, 3) // 2)",
            "shape(s) == shape(c)",
            status="definition",
            family="rotary",
            source=source,
        ),
        rule(
            "rotary-heads",
            f"RotaryEmbedding({x}, c, s, num_heads=0, interleaved=i)",
            f"Transpose(Reshape(RotaryEmbedding({flat}, c, s, num_heads=size(x, 2), interleaved=i), shape=shape(x)), "
            "perm=(0, 2, 1, 3))",
            "rank(x) == 4",
            "number(size(x, 2) * size(x, 3))",
            status="definition",
            family="rotary-heads",
            source=source,
        ),
    )


RULES: tuple[Rule, ...] = (*_spelled_out(), *_heads(), *_rotary())
