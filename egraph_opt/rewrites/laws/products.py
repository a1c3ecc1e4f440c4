"""Products and convolutions that share an operand, and activations of one kind.

By hand because saturation merges any number of them at once (``saturation/merge.py``) as a fold of these rules; the
generator finds them for two, under the sizes of its worlds. Those that join inputs copy them, so most of them are for
thorough runs; products with one weight, as towers and unrolled recurrent cells have them, are small.
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Effort, Rule, rule


def _merge(
    name: str, parts: tuple[str, str], joined: str, axis: str, sizes: str, *when: str, effort: Effort = "standard"
) -> Rule:
    split = f"Split({joined}, axis={axis}, sizes={sizes})"
    return rule(
        name,
        parts,
        (f"Get({split}, index=0)", f"Get({split}, index=1)"),
        *when,
        float_class="reassociate",
        family="merge",
        source="TASO (SOSP 2019), figure 2: operators that share an operand",
        effort=effort,
    )


_ROWS = "(size(x1, 0), size(x2, 0))"
_SAME_ROWS = "shape(x1)[1:] == shape(x2)[1:]"


def _of_weights() -> tuple[Rule, ...]:
    """Of one input, with weights side by side."""
    filters, plain = "(size(w1, 0), size(w2, 0))", ("c_group == 1", "shape(w1)[1:] == shape(w2)[1:]")
    return (
        _merge(
            "merge-matmuls",
            ("MatMul(x, w1)", "MatMul(x, w2)"),
            "MatMul(x, Concat(w1, w2, axis=1))",
            "rank(out) - 1",
            "(size(w1, 1), size(w2, 1))",
            *("rank(w1) == 2", "rank(w2) == 2", "rank(x) >= 2"),
        ),
        _merge(
            "merge-convs",
            ("Conv(x, w1, **c)", "Conv(x, w2, **c)"),
            "Conv(x, Concat(w1, w2, axis=0), **c)",
            "1",
            filters,
            *plain,
        ),
        _merge(
            "merge-convs-bias",
            ("Conv(x, w1, b1, **c)", "Conv(x, w2, b2, **c)"),
            "Conv(x, Concat(w1, w2, axis=0), Concat(b1, b2, axis=0), **c)",
            "1",
            filters,
            *plain,
        ),
        _merge(
            "merge-gemms",
            ("Gemm(x, w1, b1, **g)", "Gemm(x, w2, b2, **g)"),
            "Gemm(x, Concat(w1, w2, axis=1 - g_transB), Concat(b1, b2, axis=0), **g)",
            "1",
            "(size(w1, 1 - g_transB), size(w2, 1 - g_transB))",
            *(f"shape(b{i}) == (size(w{i}, 1 - g_transB),)" for i in (1, 2)),
            "size(w1, g_transB) == size(w2, g_transB)",
        ),
    )


def _of_inputs() -> tuple[Rule, ...]:
    """Of one weight, with inputs one below the other."""
    return (
        _merge(
            "merge-matmuls-of-rows",
            ("MatMul(x1, w)", "MatMul(x2, w)"),
            "MatMul(Concat(x1, x2, axis=0), w)",
            "0",
            _ROWS,
            *("rank(w) == 2", "rank(x1) == 2", "rank(x2) == 2"),
        ),
        *(
            _merge(
                f"merge-convs-of-batches{'-bias' if bias else ''}",
                (f"Conv(x1, w{bias}, **c)", f"Conv(x2, w{bias}, **c)"),
                f"Conv(Concat(x1, x2, axis=0), w{bias}, **c)",
                "0",
                _ROWS,
                _SAME_ROWS,
                effort="thorough",
            )
            for bias in ("", ", b")
        ),
        _merge(
            "merge-relus",
            ("Relu(x1)", "Relu(x2)"),
            "Relu(Concat(x1, x2, axis=0))",
            "0",
            _ROWS,
            *("rank(x1) >= 1", "rank(x1) == rank(x2)", _SAME_ROWS),
            effort="thorough",
        ),
    )


RULES = (*_of_weights(), *_of_inputs())
