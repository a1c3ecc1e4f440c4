"""Products and convolutions that share an operand.

By hand because saturation merges any number of them at once (``saturation/merge.py``) as a fold of these rules; the
generator finds them for two, under the sizes of its worlds.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule


def _merge(name: str, bias: str, conv: bool) -> Rule:
    if not conv:
        joined, sizes = "MatMul(x, Concat(w1, w2, axis=1))", "(size(w1, 1), size(w2, 1))"
        parts = ("MatMul(x, w1)", "MatMul(x, w2)")
        when = ("rank(w1) == 2", "rank(w2) == 2", "rank(x) >= 2")
        axis = "rank(out) - 1"
    else:
        left, right = (f", b{i}" if bias else "" for i in (1, 2))
        biases = ", Concat(b1, b2, axis=0)" if bias else ""
        joined, sizes = f"Conv(x, Concat(w1, w2, axis=0){biases}, **c)", "(size(w1, 0), size(w2, 0))"
        parts = (f"Conv(x, w1{left}, **c)", f"Conv(x, w2{right}, **c)")
        when = ("c_group == 1", "shape(w1)[1:] == shape(w2)[1:]")
        axis = "1"
    split = f"Split({joined}, axis={axis}, sizes={sizes})"
    return rule(
        name,
        parts,
        (f"Get({split}, index=0)", f"Get({split}, index=1)"),
        *when,
        float_class="reassociate",
        family="merge",
        source="TASO (SOSP 2019), figure 2: operators that share an operand",
    )


RULES = (
    _merge("merge-matmuls", "", conv=False),
    _merge("merge-convs", "", conv=True),
    _merge("merge-convs-bias", "b", conv=True),
)
