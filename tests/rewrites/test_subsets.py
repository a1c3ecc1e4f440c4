"""The smallest set is found, is minimal, and no set is asked about twice."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from egraph_opt.rewrites.subsets import smallest_set

ITEMS = [f"rule {i}" for i in range(37)]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_needed_is_found(seed: int) -> None:
    rng = random.Random(seed)
    needed = [set(rng.sample(ITEMS, rng.randint(1, 4))) for _ in range(rng.randint(1, 3))]  # any of these sets shows it
    seen: list[frozenset[str]] = []

    def shows(some: Sequence[str]) -> bool:
        seen.append(frozenset(some))
        return any(one <= set(some) for one in needed)

    found, minimal = smallest_set(ITEMS, shows, lambda: False)
    assert minimal
    assert shows(found)
    assert not any(shows([other for other in found if other != item]) for item in found)
    asked = seen[: -1 - len(found)]
    assert len(asked) == len(set(asked))


def test_one_among_many_takes_few_questions() -> None:
    asked = 0

    def shows(some: Sequence[str]) -> bool:
        nonlocal asked
        asked += 1
        return ITEMS[23] in some

    assert smallest_set(ITEMS, shows, lambda: False) == ([ITEMS[23]], True)
    assert asked <= 1 + 2 * 6


def test_nothing_at_all_may_be_needed() -> None:
    assert smallest_set(ITEMS, lambda _: True, lambda: False) == ([], True)


def test_late_it_keeps_what_it_has() -> None:
    calls = 0

    def late() -> bool:
        nonlocal calls
        calls += 1
        return calls > 6

    found, minimal = smallest_set(ITEMS, lambda some: {ITEMS[3], ITEMS[30]} <= set(some), late)
    assert not minimal
    assert {ITEMS[3], ITEMS[30]} <= set(found)
