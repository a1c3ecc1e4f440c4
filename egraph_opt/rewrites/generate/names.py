"""Names that tell what a rule does: the operators of both sides, outermost first."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from egraph_opt.terms import App, Pattern


def name_of(lhs: tuple[Pattern, ...], rhs: tuple[Pattern, ...], taken: AbstractSet[str]) -> str:
    """A readable name that is not taken, such as ``add-matmul-matmul-to-matmul-add``."""
    kind = "merge-" if len(lhs) > 1 else ""
    left, right = next(iter(lhs)), next(iter(rhs))
    stem = f"{kind}{_words(left)}-to-{_words(right) or 'operand'}"
    if stem not in taken:
        return stem
    return next(f"{stem}-{n}" for n in range(2, 10_000) if f"{stem}-{n}" not in taken)


def _words(pattern: Pattern) -> str:
    if not isinstance(pattern, App):
        return ""
    return "-".join(filter(None, [pattern.op.lower(), *map(_words, pattern.operands)]))
