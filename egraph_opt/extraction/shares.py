"""The time limit, divided among the parts of a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.result import Clock


def open_parts(board: Board) -> Iterator[tuple[int, Callable[[], bool]]]:
    """The parts that are not proven, smallest first, each with a test whether its share of the time is used up.

    A part's share is that of its e-nodes among those still to come. What one part leaves over goes to the others.
    """
    parts = board.open_parts()
    left = sum(len(board.parts[index].members) for index in parts)
    for index in parts:
        size = len(board.parts[index].members)
        share = board.clock.left if board.clock.left == inf else board.clock.left * size / left
        clock = Clock(share)

        def used_up(clock: Clock = clock, index: int = index) -> bool:
            return not clock.left or not board.clock.left or board.done or not board.is_open(index)

        yield index, used_up
        left -= size
