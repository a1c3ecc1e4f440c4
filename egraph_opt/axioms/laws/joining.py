"""Concat, Split, Slice and Pad. Sizes are explicit, so that concatenation is associative without contradiction."""

from __future__ import annotations

from functools import partial

from egraph_opt.axioms.record import BINARY, UNARY, Axiom, axiom

_law = partial(axiom, family="joining", float_class="exact", dtypes="any", source="definition of Concat and Slice")
_float = partial(axiom, family="joining", float_class="exact")


def _slice(x: str, start: str, end: str) -> str:
    return f"Slice({x}, axes=(a,), starts=({start},), ends=({end},), steps=(1,))"


_CONCAT = (
    _law(
        "concat-associative",
        "Concat(x, Concat(y, z, axis=a), axis=a)",
        "Concat(Concat(x, y, axis=a), z, axis=a)",
        source="explicit sizes; TASO's W1 is this with splits that carry none",
    ),
    _law("concat-of-one", "Concat(x, axis=a)", "x"),
    _law("concat-of-three", "Concat(x, y, z, axis=a)", "Concat(Concat(x, y, axis=a), z, axis=a)"),
    _law("concat-of-four", "Concat(x, y, z, w, axis=a)", "Concat(Concat(x, y, z, axis=a), w, axis=a)"),
    _law(
        "concat-of-concats",
        "Concat(Concat(x, y, axis=a), Concat(z, w, axis=a), axis=b)",
        "Concat(Concat(x, z, axis=b), Concat(y, w, axis=b), axis=a)",
        "a != b",
        "size(x, a) == size(z, a)",
        source="TASO A33",
    ),
    _law(
        "transpose-of-concat",
        "Concat(Transpose(x, perm=p), Transpose(y, perm=p), axis=a)",
        "Transpose(Concat(x, y, axis=p[a]), perm=p)",
        source="TASO A32, any permutation",
    ),
    _law(
        "concat-of-transposes",
        "Transpose(Concat(x, y, axis=a), perm=p)",
        "Concat(Transpose(x, perm=p), Transpose(y, perm=p), axis=inverse(p)[a])",
        source="TASO A32 from the other side: a permutation is undone to find the axis",
    ),
    _law(
        "reshape-of-concat",
        "Reshape(Concat(x, y, axis=a), shape=s)",
        "Concat(Reshape(x, shape=s[:a] + (size(x, a),) + s[a + 1:]),"
        " Reshape(y, shape=s[:a] + (size(y, a),) + s[a + 1:]), axis=a)",
        "s[:a] == shape(x)[:a]",
        "s[a] == size(x, a) + size(y, a)",
    ),
)
_SPLIT = (
    _law(
        "split-is-slices",
        "Get(Split(x, axis=a, sizes=s), index=i)",
        _slice("x", "sum(s[:i])", "sum(s[:i + 1])"),
        source="definition of Split",
    ),
    _law(
        "split-of-concat-first",
        "Get(Split(Concat(x, y, axis=a), axis=a, sizes=s), index=0)",
        "x",
        "s == (size(x, a), size(y, a))",
        source="TASO A26",
    ),
    _law(
        "split-of-concat-second",
        "Get(Split(Concat(x, y, axis=a), axis=a, sizes=s), index=1)",
        "y",
        "s == (size(x, a), size(y, a))",
        source="TASO A27",
    ),
    _law(
        "concat-of-split-2",
        "Concat(Get(Split(x, axis=a, sizes=s), index=0), Get(Split(x, axis=a, sizes=s), index=1), axis=a)",
        "x",
        "length(s) == 2",
    ),
)
_ONE_AXIS = ("length(a) == 1", "p == (1,)")
_CUT = "axes=a, starts=s, ends=e, steps=p"
_SLICES = (
    _law("slice-nothing", f"Slice(x, {_CUT})", "x", *_ONE_AXIS, "s == (0,)", "e == (size(x, a[0]),)"),
    _law(
        "slice-of-slice",
        f"Slice(Slice(x, {_CUT}), axes=b, starts=t, ends=f, steps=q)",
        "Slice(x, axes=sliced(a, s, e, p, b, t, f, q)[0], starts=sliced(a, s, e, p, b, t, f, q)[1],"
        " ends=sliced(a, s, e, p, b, t, f, q)[2], steps=sliced(a, s, e, p, b, t, f, q)[3])",
    ),
    _law(
        "slice-of-concat-first",
        f"Slice(Concat(x, y, axis=c), {_CUT})",
        f"Slice(x, {_CUT})",
        "a == (c,)",
        "p == (1,)",
        "e[0] <= size(x, c)",
        source="TASO A26",
    ),
    _law(
        "slice-of-concat-second",
        f"Slice(Concat(x, y, axis=c), {_CUT})",
        "Slice(y, axes=a, starts=(s[0] - size(x, c),), ends=(e[0] - size(x, c),), steps=p)",
        "a == (c,)",
        "p == (1,)",
        "s[0] >= size(x, c)",
        source="TASO A27",
    ),
    _law(
        "slice-of-concat-other-axis",
        f"Slice(Concat(x, y, axis=c), {_CUT})",
        f"Concat(Slice(x, {_CUT}), Slice(y, {_CUT}), axis=c)",
        "length(a) == 1",
        "a != (c,)",
    ),
    _law(
        "concat-of-slices",
        f"Concat(Slice(x, {_CUT}), Slice(x, axes=a, starts=e, ends=f, steps=p), axis=c)",
        "Slice(x, axes=a, starts=s, ends=f, steps=p)",
        "a == (c,)",
        "p == (1,)",
    ),
    _law(
        "slice-of-transpose",
        f"Slice(Transpose(x, perm=q), {_CUT})",
        "Transpose(Slice(x, axes=(q[a[0]],), starts=s, ends=e, steps=p), perm=q)",
        "length(a) == 1",
    ),
    _law(
        "slices-commute",
        f"Slice(Slice(x, {_CUT}), axes=b, starts=t, ends=f, steps=q)",
        f"Slice(Slice(x, axes=b, starts=t, ends=f, steps=q), {_CUT})",
        "length(a) == 1",
        "length(b) == 1",
        "a != b",
    ),
)


def _unary() -> tuple[Axiom, ...]:
    made: list[Axiom] = []
    for op, bundle in UNARY:
        made += [
            _float(
                f"{op.lower()}-of-concat",
                f"{op}(Concat(x, y, axis=a){bundle})",
                f"Concat({op}(x{bundle}), {op}(y{bundle}), axis=a)",
                source="TASO A15",
            ),
            _float(
                f"{op.lower()}-of-slice",
                f"{op}(Slice(x, {_CUT}){bundle})",
                f"Slice({op}(x{bundle}), {_CUT})",
                source="element-wise operators commute with movement",
            ),
        ]
    return tuple(made)


def _binary() -> tuple[Axiom, ...]:
    made: list[Axiom] = []
    for op in BINARY:
        name = op.lower()
        made += [
            _float(
                f"{name}-of-concats",
                f"Concat({op}(x, y), {op}(z, w), axis=a)",
                f"{op}(Concat(x, z, axis=a), Concat(y, w, axis=a))",
                "rank(x) == rank(y)",
                "rank(z) == rank(w)",
                "size(x, a) == size(y, a)",
                "size(z, a) == size(w, a)",
                "shape(x)[:a] == shape(z)[:a]",
                "shape(x)[a + 1:] == shape(z)[a + 1:]",
                "shape(y)[:a] == shape(w)[:a]",
                "shape(y)[a + 1:] == shape(w)[a + 1:]",
                source="TASO A21, A22, with broadcasting on the other axes",
            ),
            _float(
                f"{name}-of-concat-and-shared",
                f"Concat({op}(x, s), {op}(y, s), axis=a)",
                f"{op}(Concat(x, y, axis=a), s)",
                "fits(s, x)",
                "fits(s, y)",
                "elements(s) == 1 or (rank(s) == rank(x) and size(s, a) == 1)",
                source="TASO A11, with broadcasting",
            ),
            _float(
                f"{name}-of-slices",
                f"{op}(Slice(x, {_CUT}), Slice(y, {_CUT}))",
                f"Slice({op}(x, y), {_CUT})",
                "rank(x) == rank(y)",
                "length(a) == 1",
                "size(x, a[0]) == size(y, a[0])",
                source="element-wise operators commute with movement",
            ),
            _float(
                f"{name}-of-slice-and-shared",
                f"{op}(Slice(x, {_CUT}), y)",
                f"Slice({op}(x, y), {_CUT})",
                "length(a) == 1",
                "rank(y) == rank(x)",
                "size(y, a[0]) == 1",
                source="element-wise operators commute with movement",
            ),
        ]
    return tuple(made)


_ZERO = "mode='constant', value=0.0"
_PAD = (
    _float(
        "pad-nothing", "Pad(x, pads=p, mode=m, value=v)", "x", "p == (0,) * (2 * rank(x))", source="definition of Pad"
    ),
    _float(
        "pad-of-pad",
        "Pad(Pad(x, pads=p, mode='constant', value=v), pads=q, mode='constant', value=v)",
        "Pad(x, pads=plus(p, q), mode='constant', value=v)",
        "min(p) >= 0",
        "min(q) >= 0",
        source="definition of Pad",
    ),
    _float(
        "pad-of-sum",
        f"Pad(Add(x, y), pads=p, {_ZERO})",
        f"Add(Pad(x, pads=p, {_ZERO}), Pad(y, pads=p, {_ZERO}))",
        "shape(x) == shape(y)",
        source="TASO, disabled: enlarge commutes with ewadd",
    ),
    _float(
        "pad-of-product",
        f"Pad(Mul(x, s), pads=p, {_ZERO})",
        f"Mul(Pad(x, pads=p, {_ZERO}), s)",
        "fits(s, x)",
        "elements(s) == 1",
        float_class="spreads-nonfinite",
        source="TASO, disabled: enlarge commutes with smul",
    ),
    _float(
        "pad-of-relu",
        f"Pad(Relu(x), pads=p, {_ZERO})",
        f"Relu(Pad(x, pads=p, {_ZERO}))",
        needs_order=True,
        source="TASO, disabled: enlarge commutes with relu",
    ),
    _float(
        "pad-of-concat",
        f"Pad(Concat(x, y, axis=a), pads=p, {_ZERO})",
        f"Concat(Pad(x, pads=p, {_ZERO}), Pad(y, pads=p, {_ZERO}), axis=a)",
        "p[a] == 0",
        "p[a + rank(x)] == 0",
        source="TASO, disabled: enlarge commutes with concat",
    ),
)

AXIOMS: tuple[Axiom, ...] = (*_CONCAT, *_SPLIT, *_SLICES, *_unary(), *_binary(), *_PAD)
