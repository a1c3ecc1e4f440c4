"""From equal terms to candidate equations: one name per variable and role, the most general sharing, no repetition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from egraph_opt.rewrites.generate.enumerate import Enumeration, Term
from egraph_opt.rewrites.generate.worlds import World
from egraph_opt.terms import App, Expr, Pattern, Var, walk


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
    """Two operators whose concatenation has a representative that is one such operator: they can be merged.

    For a representative ``M`` equal to ``Concat(A, B)``, the pair {A, B} is the two halves of ``Split(M)``. Linear in
    the number of classes: no pairs of terms are tried. The sizes of the split are filled in later (``@0``, ``@1``).
    """
    for known, other in found.equal:
        for joined, merged in ((known, other), (other, known)):
            parts = _halves(joined)
            if parts is None or not _merges(parts, merged.pattern):
                continue
            assert isinstance(joined.pattern, App)
            axis = joined.pattern.attrs[0]
            split = App("Split", (axis, Expr("(@0, @1)")), (merged.pattern,))
            halves = [App("Get", (Expr(str(i)),), (split,)) for i in range(2)]
            yield Candidate(found.world.name, tuple(zip(parts, halves, strict=True)))


def _merges(parts: tuple[Pattern, Pattern], merged: Pattern) -> bool:
    """Whether the parts are the heavy operator that ``merged`` is, on variables, with one of them in common."""
    apps = [p for p in (*parts, merged) if isinstance(p, App)]
    if len(apps) != 3 or len({a.op for a in apps}) != 1 or apps[0].op not in HEAVY:
        return False
    plain = all(isinstance(o, Var) for part in apps[:2] for o in part.operands)
    shared = {o for o in apps[0].operands} & {o for o in apps[1].operands}
    return plain and bool(shared) and apps[0].operands != apps[1].operands


HEAVY = ("MatMul", "Conv")
"""Operators that are worth merging."""


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
    return Candidate(candidate.world, tuple((rename(a, mapping), rename(b, mapping)) for a, b in candidate.roots))


def rename(pattern: Pattern, mapping: Mapping[str, str]) -> Pattern:
    """The pattern with its variables renamed."""
    if isinstance(pattern, Var):
        return Var(mapping.get(pattern.name, pattern.name))
    if isinstance(pattern, App):
        return App(pattern.op, pattern.attrs, tuple(rename(o, mapping) for o in pattern.operands))
    return pattern


def shares_a_subterm(candidate: Candidate) -> bool:
    """Whether both sides hold the same operator term: with a variable in its place the equation is found smaller."""
    left, right = (
        {p for s in side for p in walk(s) if isinstance(p, App)} for side in zip(*candidate.roots, strict=True)
    )
    return bool(left & right)


def binds_all(candidate: Candidate) -> bool:
    """Whether the left side names every variable of the right side."""
    left, right = (
        {p.name for s in side for p in walk(s) if isinstance(p, Var)} for side in zip(*candidate.roots, strict=True)
    )
    return right <= left


def _preorder(pattern: Pattern) -> Iterator[Pattern]:
    yield pattern
    if isinstance(pattern, App):
        for operand in pattern.operands:
            yield from _preorder(operand)


def _halves(term: Term) -> tuple[Pattern, Pattern] | None:
    pattern = term.pattern
    if isinstance(pattern, App) and pattern.op == "Concat" and len(pattern.operands) == 2:
        return pattern.operands[0], pattern.operands[1]
    return None


def _text(pattern: Pattern) -> str:
    return pattern.name if isinstance(pattern, Var) else str(pattern)
