"""The smallest set of rules that shows something: delta debugging."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def smallest_set(
    items: Sequence[str], shows: Callable[[Sequence[str]], bool], late: Callable[[], bool]
) -> tuple[list[str], bool]:
    """A subset of ``items`` that still shows it, and whether none of it can be left out.

    Halves, then quarters, and so on are tried alone, then left out, as long as that shows it (Zeller and Hildebrandt,
    "Simplifying and isolating failure-inducing input", TSE 2002).

    Args:
        shows: is asked once for each set, and holds for all of ``items``.
        late: once it says so, nothing more is asked.
    """
    known: dict[frozenset[str], bool] = {}

    def asked(some: Sequence[str]) -> bool:
        key = frozenset(some)
        if key not in known and not late():
            known[key] = shows(some)
        return known.get(key, False)

    rest, parts = list(items), 1
    if rest and asked([]):
        return [], True
    while len(rest) > 1 and not late():
        parts = min(2 * parts, len(rest))
        size = -(-len(rest) // parts)
        chunks = [rest[i : i + size] for i in range(0, len(rest), size)]
        others = [[item for item in rest if item not in chunk] for chunk in chunks]
        smaller = next((some for some in (*chunks, *others) if asked(some)), None)
        if smaller is not None:
            parts = 1 if smaller in chunks else max(parts // 2 - 1, 1)
            rest = smaller
        elif size == 1:
            return rest, not late()
    return rest, not late()
