"""Once the clock has run out, a strategy comes to an end after little more work, however much it had left to do."""

from __future__ import annotations

import random
import sys
from types import FrameType
from typing import Any

import pytest

from egraph_opt.extraction import get_extractor
from egraph_opt.extraction.problem import Problem
from egraph_opt.extraction.result import Clock, OutOfTimeError

STRATEGIES = (
    "dag-greedy",
    "area-flow",
    "beam",
    "genetic",
    "annealing",
    "smoothe",
    "lns",
    "treewidth",
    "ilp",
    "portfolio",
)
LOOK_OFTEN = ("dag-greedy", "area-flow", "beam", "genetic", "annealing", "smoothe", "treewidth")
CALLS = 5
"""Calls of functions per e-node and operand that the end may take: some passes over the problem."""


class Ending(Clock):
    """Runs out at one look; counts the calls of functions from there on."""

    def __init__(self, looks: int) -> None:
        super().__init__(1000.0)
        self.looks, self.calls = looks, 0

    @property
    def left(self) -> float:
        self.looks -= 1
        if self.looks == 0:
            sys.setprofile(self._count)
        return 1000.0 if self.looks > 0 else 0.0

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        self.calls += event == "call"


def hard_problem(seed: int) -> Problem:
    """Sharing that no reduction and no greedy answer sorts out: sets that cover elements."""
    rng = random.Random(seed)
    elements, sets = 120, 60
    owner = [element for element in range(elements) for _ in range(4)] + list(range(elements, elements + sets))
    operands: list[tuple[int, ...]] = [
        (elements + chosen,) for _ in range(elements) for chosen in rng.sample(range(sets), 4)
    ]
    operands += [()] * sets
    costs = [0.0] * (4 * elements) + [rng.uniform(20.0, 30.0) for _ in range(sets)]
    nodes: list[list[int]] = [[] for _ in range(elements + sets)]
    for node, cls in enumerate(owner):
        nodes[cls].append(node)
    return Problem(costs, operands, owner, nodes, list(range(elements)))


@pytest.mark.parametrize(
    ("name", "looks"),
    [(name, looks) for name in STRATEGIES for looks in (1, 60, 200, 1500)] + [(name, 12000) for name in LOOK_OFTEN],
)
def test_little_is_done_after_the_end(name: str, looks: int) -> None:
    problem = hard_problem(3)
    clock = Ending(looks)
    try:
        choice = get_extractor(name).solve(problem, clock, seed=0, warm_start=None).choice
    except OutOfTimeError:
        assert clock.best is not None
        choice = clock.best
    finally:
        sys.setprofile(None)
    assert problem.order(choice) is not None
    size = len(problem.owner) + sum(map(len, problem.operands))
    assert clock.calls <= CALLS * size
