"""Kernels of convolutions: made larger or more, and sums of convolutions of one input as one convolution.

With explicit pads, so that it holds for every stride and group. By hand because the pads are computed: no world varies
them, and read backwards the axiom ``conv-of-enlarged-kernel`` does not say by how much. Sums are folded where the
weights are constants, so that nothing is computed but the one convolution.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule

_RING = "(1,) * (rank(x) - 2)"
_LARGER = f"Pad(w, pads=(0, 0) + {_RING} + (0, 0) + {_RING}, mode='constant', value=0.0)"
_DENSE = "d == (1,) * length(s)"


def _enlarge(bias: str) -> Rule:
    rest = "strides=c_strides, pads=plus(c_pads, c_dilations + c_dilations), dilations=c_dilations, group=c_group"
    comma = f", {bias}" if bias else ""
    return rule(
        f"enlarge-kernel{'-bias' if bias else ''}",
        f"Conv(x, w{comma}, **c)",
        f"Conv(x, {_LARGER}{comma}, {rest})",
        "const(w)",
        float_class="spreads-nonfinite",
        family="enlarge",
        source="TASO A44, with explicit pads",
        effort="thorough",
    )


def _conv(weight: str, bias: str = "", pads: str = "p") -> str:
    operands = ", ".join(name for name in ("x", weight, bias) if name)
    return f"Conv({operands}, strides=s, pads={pads}, dilations=d, group=g)"


def _padded(kernel: str, pads: str) -> str:
    """A kernel with zeros around it: ``pads`` for its spatial axes."""
    return f"Pad({kernel}, pads=(0, 0) + {pads}[:length(s)] + (0, 0) + {pads}[length(s):], mode='constant', value=0.0)"


def _sum(first: str, second: str) -> Rule:
    """Of two convolutions with biases called ``first`` and ``second``; the kernel of the second is not larger."""
    bias = f"Add({first}, {second})" if first and second else first or second
    weights = ("const(w)", "const(y)", *(f"const({b})" for b in (first, second) if b))
    return rule(
        f"sum-of-convs{'-bias' if first else ''}{'-bias-of-smaller' if second else ''}",
        f"Add({_conv('w', first)}, {_conv('y', second, 'q')})",
        _conv(f"Add(w, {_padded('y', 'minus(p, q)')})", bias),
        _DENSE,
        "size(w, 0) == size(y, 0)",
        "min(minus(p, q)) >= 0",
        "shape(w)[2:] == plus(shape(y)[2:], plus(minus(p, q)[:length(s)], minus(p, q)[length(s):]))",
        *weights,
        float_class="spreads-nonfinite",
        family="sum-of-convs",
        source="RepVGG (Ding et al. 2021); TASO A44 and A17",
    )


def _with_input(bias: str) -> Rule:
    """The input is what a kernel with one 1 per filter gives."""
    count = "size(x, 1)"
    ones = (
        f"Pad(Fill(shape=({count}, 1), value=1.0, dtype=dtype(x)), pads=(0, 0, 0, {count}), mode='constant', value=0.0)"
    )
    cut = f"axes=(0,), starts=(0,), ends=({count} * {count},), steps=(1,)"
    unit = f"Reshape(Slice(Reshape({ones}, shape=({count} * ({count} + 1),)), {cut}), shape=({count}, {count}))"
    kernel = _padded(f"Reshape({unit}, shape=column(({count}, {count}), rank(x)))", "p")
    return rule(
        f"conv-and-input{'-bias' if bias else ''}",
        f"Add({_conv('w', bias)}, x)",
        _conv(f"Add(w, {kernel})", bias),
        "g == 1",
        "size(w, 0) == size(x, 1)",
        "s == (1,) * (rank(x) - 2)",
        _DENSE,
        "min(p) >= 0",
        "shape(w)[2:] == plus(plus(p[:length(s)], p[length(s):]), (1,) * length(s))",
        "const(w)",
        float_class="spreads-nonfinite",
        family="sum-of-convs",
        source="RepVGG (Ding et al. 2021); TASO A17 and A40: the unit matrix as a kernel",
    )


def _whole_blocks(first: str, second: str) -> Rule:
    """Filters of zeros between two convolutions, up to a multiple of 8.

    ONNX Runtime keeps channels in blocks, but takes them apart before a convolution of a number of channels that 4 does
    not divide, and runs that one by a slower kernel. Such numbers are those of squeeze-and-excitation.
    """
    more = "-size(w, 0) % 8"

    def grown(tensor: str, axis: int, rank: str) -> str:
        after = f"(0,) * {axis} + ({more},) + (0,) * ({rank} - {axis + 1})"
        return f"Pad({tensor}, pads=(0,) * {rank} + {after}, mode='constant', value=0.0)"

    def both(inner: str, outer: str) -> str:
        return f"Conv(Relu(Conv(x, {inner}, **c)), {outer}, **e)"

    comma = f", {second}" if second else ""
    kernels = grown("w", 0, "rank(w)") + (f", {grown(first, 0, '1')}" if first else "")
    return rule(
        f"whole-blocks{'-inner-bias' if first else ''}{'-outer-bias' if second else ''}",
        both(f"w, {first}" if first else "w", f"y{comma}"),
        both(kernels, grown("y", 1, "rank(y)") + comma),
        "size(w, 0) % 4 != 0",
        "c_group == 1",
        "e_group == 1",
        "const(w)",
        "const(y)",
        *((f"const({first})",) if first else ()),
        float_class="spreads-nonfinite",
        family="whole-blocks",
        source="zeros times anything finite add nothing",
    )


RULES = (
    *(_enlarge(bias) for bias in ("", "b")),
    *(_sum(first, second) for first in ("", "b") for second in ("", "a")),
    *(_with_input(bias) for bias in ("", "b")),
    *(_whole_blocks(b, a) for b in ("", "b") for a in ("", "a")),
)
