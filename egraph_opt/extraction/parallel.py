"""Searches the parts of a board: small ones here, the others in a worker process that the clock can stop."""

from __future__ import annotations

from collections.abc import Callable

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.child import Child
from egraph_opt.extraction.engine import Engine, Task
from egraph_opt.extraction.worker import Ended, Job

SMALL = 150
"""E-nodes of a part that is searched without a process: there, solvers keep to their time limits."""

_MOST_WAIT = 0.2  # seconds until the clock is looked at again


def task(board: Board, index: int) -> Task:
    """What is known of a part, for an engine."""
    part = board.parts[index]
    return Task(index, part.problem, board.best[index], board.bounds[index], board.enough(index))


def search_here(board: Board, engine: Engine, seed: int, size: int) -> bool:
    """Searches the open parts of at most ``size`` e-nodes; whether time ran out."""
    timed_out = False
    for index in board.open_parts():
        if len(board.parts[index].members) > size or not board.is_open(index):
            continue
        timed_out |= engine.search(
            task(board, index),
            board.clock,
            seed,
            lambda choice, bound, index=index: _note(board, index, choice, bound),
            lambda: None,
        )
        if board.done:
            return False
    return timed_out


def search_beside(board: Board, engine: Engine, seed: int, meanwhile: Callable[[], int | None]) -> bool:
    """Searches the open parts in a worker; whether time ran out.

    ``meanwhile`` is called again and again. It returns the index of a part for which it has found a better choice,
    -1 if it has done some work, None if there is nothing for it to do until something is heard.
    """
    clock = board.clock
    tasks = [task(board, index) for index in board.open_parts()]
    if not tasks:
        return False
    with Child(Job(engine, tasks, clock.left, seed)) as child:
        idle = False
        while not board.done:
            if not clock.left:
                return True
            message = child.hear(min(clock.left, _MOST_WAIT) if idle else 0.0)
            if isinstance(message, Ended):
                clock.seconds |= message.seconds
                return message.timed_out
            if message is not None:
                _note(board, *message)
                continue
            improved = meanwhile()
            idle = improved is None
            if improved is not None and improved >= 0:
                child.tell(improved, board.best[improved])
    return False


def _note(board: Board, index: int, choice: list[int] | None, bound: float) -> None:
    if choice is not None:
        board.offer(index, choice)
    board.prove(index, bound)
