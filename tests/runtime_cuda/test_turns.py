"""Timing in turns, on a card that gets slower while it is used."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field

import pytest

in_turns = importlib.import_module("gpu_turns").in_turns  # conftest.py puts bench/ on the path


@dataclass
class Card:
    used: int = 0

    @property
    def slowness(self) -> float:
        return 1 + 0.01 * self.used


@dataclass
class OnCard:
    card: Card
    alone: float
    asked: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def seconds(self, replays: int = 50, rounds: int = 7) -> float:
        self.asked.append((replays, rounds))
        self.card.used += rounds
        return self.alone * self.card.slowness


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("rounds", [2, 7, 8])
def test_what_changes_meanwhile_is_the_same_for_all(count: int, rounds: int) -> None:
    card = Card()
    found = in_turns([OnCard(card, 1.0) for _ in range(count)], replays=10, rounds=rounds)
    assert max(found) - min(found) <= 0.01 * count  # one after another: 0.01 * rounds * (count - 1)
    assert card.used == count * rounds


def test_the_slower_one_is_slower() -> None:
    card = Card()
    programs = [OnCard(card, alone) for alone in (1.1, 1.0, 1.2)]
    assert sorted(range(3), key=in_turns(programs, replays=3, rounds=5).__getitem__) == [1, 0, 2]
    assert programs[0].asked == [(3, 1)] * 5
