"""From equal terms to candidate equations: one name per variable and role, the most general sharing, no repetition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from egraph_opt.rewrites.generate.enumerate import Enumeration, Term
from egraph_opt.rewrites.generate.worlds import World
from egraph_opt.terms import App, Pattern, Var, walk


@dataclass(frozen=True)
class Candidate:
    """Two sides that are equal in a world; the left one is at least as large.

    ``roots`` are pairs of sides: one for an ordinary equation, two for operators that are merged.
    """

    world: str
    roots: tuple[tuple[Pattern, Pattern], ...]

    @property
    def size(self) -> tuple[int, int, str]:
        """Order of simplicity: operators, variables, text."""
        sides = [p for pair in self.roots for p in pair]
        operators = sum(count_operators(p) for p in sides)
        return operators, len({p.name for s in sides for p in walk(s) if isinstance(p, Var)}), repr(self.roots)


def count_operators(pattern: Pattern) -> int:
    """Operators in a pattern, repetitions counted."""
    return sum(isinstance(p, App) for p in walk(pattern))


def raw_candidates(found: Enumeration) -> Iterator[Candidate]:
    """Every equality that the enumeration met, oriented so that the left side is the larger."""
    for known, other in found.equal:
        sides = sorted((known.pattern, other.pattern), key=lambda p: (count_operators(p), _text(p)), reverse=True)
        yield Candidate(found.world.name, ((sides[0], sides[1]),))


def merge_candidates(found: Enumeration) -> Iterator[Candidate]:
    """Two values whose concatenation has a representative that is no concatenation: operators to merge.

    For a representative ``M`` equal to ``Concat(A, B)``, the pair {A, B} is the two halves of ``Split(M)``. Linear in
    the number of classes: no pairs of terms are tried.
    """
    for known, other in found.equal:
        for joined, merged in ((known, other), (other, known)):
            parts = _halves(joined)
            if parts is None or _is_concat(merged.pattern):
                continue
            if all(count_operators(p) for p in parts) and _shares_operand(parts):
                axis = joined.pattern.attrs[0].text  # type: ignore[union-attr]
                sizes = "(" + ", ".join(f"@{i}" for i in range(2)) + ")"
                halves = tuple(_half(merged.pattern, axis, sizes, i) for i in range(2))
                yield Candidate(found.world.name, tuple(zip(parts, halves, strict=True)))


def renamed(candidate: Candidate, world: World) -> Candidate:
    """The candidate with variables of each role named in order of appearance: one form per orbit of renamings."""
    pools: dict[str, list[str]] = {}
    roles = {v.name: (v.role, v.shapes) for v in world.variables}
    for variable in world.variables:
        pools.setdefault(repr((variable.role, variable.shapes)), []).append(variable.name)
    taken: dict[str, int] = {}
    mapping: dict[str, str] = {}
    for side in (p for pair in candidate.roots for p in pair):
        for part in _preorder(side):
            if isinstance(part, Var) and part.name not in mapping:
                pool = repr(roles[part.name])
                mapping[part.name] = pools[pool][taken.get(pool, 0)]
                taken[pool] = taken.get(pool, 0) + 1
    return Candidate(
        candidate.world, tuple((rename(a, mapping), rename(b, mapping)) for a, b in candidate.roots)
    )


def rename(pattern: Pattern, mapping: Mapping[str, str]) -> Pattern:
    """The pattern with its variables renamed."""
    if isinstance(pattern, Var):
        return Var(mapping.get(pattern.name, pattern.name))
    if isinstance(pattern, App):
        return App(pattern.op, pattern.attrs, tuple(rename(o, mapping) for o in pattern.operands))
    return pattern


def shares_a_subterm(candidate: Candidate) -> bool:
    """Whether both sides hold the same operator term: with a variable in its place the equation is found smaller."""
    left, right = ({p for s in side for p in walk(s) if isinstance(p, App)} for side in zip(*candidate.roots, strict=True))
    return bool(left & right)


def binds_all(candidate: Candidate) -> bool:
    """Whether the left side names every variable of the right side."""
    left, right = ({p.name for s in side for p in walk(s) if isinstance(p, Var)} for side in zip(*candidate.roots, strict=True))
    return right <= left


def _preorder(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    if isinstance(pattern, App):
        for operand in pattern.operands:
            yield from _preorder(operand)


def _is_concat(pattern: Pattern) -> bool:
    return isinstance(pattern, App) and pattern.op == "Concat"


def _halves(term: Term) -> tuple[Pattern, Pattern] | None:
    pattern = term.pattern
    if isinstance(pattern, App) and pattern.op == "Concat" and len(pattern.operands) == 2:
        return pattern.operands[0], pattern.operands[1]
    return None


def _shares_operand(parts: tuple[Pattern, Pattern]) -> bool:
    """Whether the parts have a variable in common: merging unrelated operators is a batching rule of its own."""
    left, right = ({p.name for p in walk(part) if isinstance(p, Var)} for part in parts)
    return bool(left & right)


def _half(merged: Pattern, axis: str, sizes: str, index: int) -> Pattern:
    from egraph_opt.terms import Expr

    split = App("Split", (Expr(axis), Expr(sizes)), (merged,))
    return App("Get", (Expr(str(index)),), (split,))


def _text(pattern: Pattern) -> str:
    return pattern.name if isinstance(pattern, Var) else str(pattern)
