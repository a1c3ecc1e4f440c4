"""Kernels of convolutions, made larger: with explicit pads, so that it holds for every stride, dilation and group.

By hand because the pads on the right are computed: no world varies them, and read backwards the axiom
``conv-of-enlarged-kernel`` does not say by how much.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule

_RING = "(1,) * (rank(x) - 2)"
_LARGER = f"Pad(w, pads=(0, 0) + {_RING} + (0, 0) + {_RING}, mode='constant', value=0.0)"


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


RULES = (_enlarge(""), _enlarge("b"))
