"""Data movement: transposes, reshapes, concatenations, splits, slices and gathers that cancel, fuse or change places.

What cancels, and element-wise operators of one operand past any of them, is generated. By hand: slices that are a
whole part of what was joined (conditions that compare attributes with sizes), constants that are reshaped, joins of
three and four parts, permutations that are computed (``transpose-between-reshapes``), gathers, and what adds an
operator or only moves but is wanted in every run (``matmul-transposed``, ``transpose-of-ones``, ``add-of-transposes``).
"""

from __future__ import annotations

from egraph_opt.rewrites.rule import Rule, rule


def _exact(name: str, lhs: str, rhs: str, *when: str, family: str, dtypes: str = "any") -> Rule:
    return rule(name, lhs, rhs, *when, float_class="exact", family=family, dtypes=dtypes)  # type: ignore[arg-type]


def _cancelling() -> tuple[Rule, ...]:
    return (
        _exact(
            "transpose-of-ones",
            "Transpose(x, perm=p)",
            "Reshape(x, shape=shape(out))",
            "moves_only_ones(shape(x), p)",
            family="transpose",
        ),
        _exact(
            "transpose-between-reshapes",
            "Reshape(Transpose(Reshape(x, shape=s), perm=p), shape=t)",
            "Reshape(Transpose(x, perm=whole_axes(shape(x), s, p)), shape=t)",
            family="transpose",
        ),
        rule(
            "matmul-transposed",
            "Transpose(MatMul(x, y), perm=p)",
            "MatMul(Transpose(y, perm=p), Transpose(x, perm=p))",
            "swaps_last_two(p)",
            "rank(x) == rank(out)",
            "rank(y) == rank(out)",
            family="transpose",
        ),
    )


def _joining() -> tuple[Rule, ...]:
    """Concat against Split and Slice, for up to four parts."""
    made: list[Rule] = []
    for count in (2, 3, 4):
        parts = [f"x{i}" for i in range(count)]
        joined = f"Concat({', '.join(parts)}, axis=a)"
        sizes = f"({', '.join(f'size({p}, a)' for p in parts)},)"
        for i, part in enumerate(parts if count > 2 else ()):  # of two parts: generated
            made.append(
                _exact(
                    f"split-of-concat-{count}-part-{i}",
                    f"Get(Split({joined}, axis=a, sizes=s), index={i})",
                    part,
                    f"s == {sizes}",
                    family="split-concat",
                )
            )
        split = "Split(x, axis=a, sizes=s)"
        gets = ", ".join(f"Get({split}, index={i})" for i in range(count))
        if count == 3:
            whole = f"Concat({gets}, axis=a)"
            made.append(_exact(f"concat-of-split-{count}", whole, "x", f"length(s) == {count}", family="split-concat"))
    made += [
        _exact(
            "concat-concat-right", "Concat(x, Concat(y, z, axis=a), axis=a)", "Concat(x, y, z, axis=a)", family="concat"
        ),
        _exact(
            "concat-of-all-slices",
            "Concat(Slice(x, axes=a, starts=s, ends=e, steps=p), Slice(x, axes=a, starts=e, ends=f, steps=p), axis=c)",
            "x",
            "a == (c,)",
            "p == (1,)",
            "s == (0,)",
            "f == (size(x, c),)",
            family="slice-concat",
        ),
        _exact(
            "slice-is-first-of-concat",
            "Slice(Concat(x, y, axis=c), axes=a, starts=s, ends=e, steps=p)",
            "x",
            "a == (c,)",
            "p == (1,)",
            "s == (0,)",
            "e == (size(x, c),)",
            family="slice-concat",
        ),
        _exact(
            "slice-is-second-of-concat",
            "Slice(Concat(x, y, axis=c), axes=a, starts=s, ends=e, steps=p)",
            "y",
            "a == (c,)",
            "p == (1,)",
            "s == (size(x, c),)",
            "e == (size(x, c) + size(y, c),)",
            family="slice-concat",
        ),
        _exact(
            "split-split",
            "Get(Split(Get(Split(x, axis=a, sizes=s), index=i), axis=a, sizes=t), index=j)",
            "Get(Split(x, axis=a, sizes=s[:i] + t + s[i + 1:]), index=i + j)",
            family="split",
        ),
    ]
    return tuple(made)


def _passing() -> tuple[Rule, ...]:
    """Element-wise operators of two operands on either side of a transpose, and behind a split."""
    made: list[Rule] = [
        _exact(
            "add-of-transposes",
            "Add(Transpose(x, perm=p), Transpose(y, perm=p))",
            "Transpose(Add(x, y), perm=p)",
            "rank(x) == rank(y)",
            family="transpose-binary",
            dtypes="numeric",
        )
    ]
    for op in ("Add", "Mul"):
        made += [
            _exact(
                f"{op.lower()}-constant-after-transpose",
                f"{op}(Transpose(x, perm=p), s)",
                f"Transpose({op}(x, Transpose(Reshape(s, shape=pad_rank(s, rank(x))), perm=inverse(p))), perm=p)",
                "const(s)",
                "rank(out) == rank(x)",
                family="transpose-binary",
                dtypes="numeric",
            ),
            _exact(
                f"{op.lower()}-constant-before-transpose",
                f"Transpose({op}(x, s), perm=p)",
                f"{op}(Transpose(x, perm=p), Transpose(Reshape(s, shape=pad_rank(s, rank(out))), perm=p))",
                "const(s)",
                "rank(x) == rank(out)",
                family="transpose-binary",
                dtypes="numeric",
            ),
            _exact(
                f"{op.lower()}-constant-after-split",
                f"{op}(Get(Split(x, axis=a, sizes=t), index=i), s)",
                f"Get(Split({op}(x, s), axis=a, sizes=t), index=i)",
                "const(s)",
                "rank(out) == rank(x)",
                "pad_rank(s, rank(x))[a] == 1",
                family="split-binary",
                dtypes="numeric",
            ),
        ]
    return tuple(made)


def _selecting() -> tuple[Rule, ...]:
    """A gather of a gather. Where the left side may be computed the right side may be: it reads no other index of the
    first, and those that it reads count from the same end. The reverse does not hold: an index that no one reads may
    lie anywhere."""
    gathers = "Gather(Gather(x, i, axis=a), j, axis=b)"
    return (
        _exact(
            "gather-of-gather",
            gathers,
            "Gather(x, Gather(i, j, axis=b - a), axis=a)",
            "a <= b",
            "b < a + rank(i)",
            family="gather",
        ),
        _exact(
            "gather-before-its-axes",
            gathers,
            "Gather(Gather(x, j, axis=b), i, axis=a + rank(j) - 1)",
            "b < a",
            family="gather",
        ),
        _exact(
            "gather-behind-its-axes",
            gathers,
            "Gather(Gather(x, j, axis=b - rank(i) + 1), i, axis=a)",
            "b >= a + rank(i)",
            family="gather",
        ),
        _exact(
            "gather-elements-of-gather-elements",
            "GatherElements(GatherElements(x, i, axis=a), j, axis=a)",
            "GatherElements(x, GatherElements(i, j, axis=a), axis=a)",
            family="gather",
        ),
    )


def _single() -> tuple[Rule, ...]:
    """Selections of one place, and reductions over axes of size 1, as what does not compute."""
    places = tuple(
        rule(
            f"gather-of-place-{place}",
            f"Gather(x, {place}, axis=a)",
            f"Reshape(Slice(x, axes=(a,), starts=({place},), ends=({place + 1},), steps=(1,)), shape=shape(out))",
            f"size(x, a) > {place}",
            "elements(out) * size(x, a) == elements(x)",
            float_class="exact",
            dtypes="any",
            status="definition",
            source="definitions of Gather and Slice (ONNX operator specification)",
            family="gather-place",
        )
        for place in range(3)
    )
    reductions = tuple(
        rule(
            f"{op.lower()}-of-single",
            f"{op}(x, axes=a, keepdims=k)",
            "Reshape(x, shape=shape(out))",
            "elements(x) == elements(out)",
            dtypes="numeric",
            status="definition",
            source=f"{op} of one element is that element",
            family="reduce-single",
        )
        for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
    )
    return (*places, *reductions)


RULES = (*_cancelling(), *_joining(), *_passing(), *_selecting(), *_single())
