"""A search in a process of its own, which can be stopped at any moment. ``Child`` starts it.

Reads a pickled ``Job`` from stdin, then choices that others find; writes pickled messages to stdout:
``(index, choice or None, bound)`` for what is better than before, ``Ended`` at the end. The parent is the only one who
ever talks to it, over pipes that it made itself.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
from dataclasses import dataclass
from math import inf
from typing import BinaryIO, cast

from egraph_opt.extraction.engine import Engine, Task
from egraph_opt.extraction.problem import Choice
from egraph_opt.extraction.result import Clock

Heard = tuple[int, Choice]
"""A part, and a choice for it."""


@dataclass(frozen=True)
class Job:
    """What a worker does: the tasks in their order, each with its share of the seconds."""

    engine: Engine
    tasks: list[Task]
    seconds: float
    seed: int


@dataclass(frozen=True)
class Ended:
    """The last message: whether time ran out, and the seconds of each stage."""

    timed_out: bool
    seconds: dict[str, float]


def send(stream: BinaryIO, message: object) -> None:
    """Writes one message."""
    pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def receive(stream: BinaryIO) -> object:
    """Reads one message; EOFError when the other side is gone."""
    return pickle.load(stream)  # noqa: S301 - the peer is our own child or parent


class Mailbox:
    """What the parent has said, by part; the process ends when the parent is gone."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._letters: dict[int, queue.SimpleQueue[Choice]] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def latest(self, index: int) -> Choice | None:
        """The last choice for a part that has not been asked for."""
        letters, choice = self._of(index), None
        while not letters.empty():
            choice = letters.get()
        return choice

    def _of(self, index: int) -> queue.SimpleQueue[Choice]:
        return self._letters.setdefault(index, queue.SimpleQueue())

    def _read(self) -> None:
        while True:
            try:
                message = receive(self._stream)
            except (EOFError, OSError):
                os._exit(1)
            index, choice = cast(Heard, message)
            self._of(index).put(choice)


def work(job: Job, mailbox: Mailbox, out: BinaryIO) -> None:
    """Runs the tasks and reports."""
    whole = Clock(job.seconds if job.seconds < inf else None)
    timed_out = False
    left = sum(len(task.problem.owner) for task in job.tasks)
    for task in job.tasks:
        size = len(task.problem.owner)
        share = None if whole.limit is None else whole.left * size / left
        left -= size
        timed_out |= job.engine.search(
            task,
            Clock(share, whole.seconds),
            job.seed,
            lambda choice, bound, index=task.index: send(out, (index, choice, bound)),
            lambda index=task.index: mailbox.latest(index),
        )
    send(out, Ended(timed_out, whole.seconds))


def main() -> None:
    """Entry point of the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not reach the pipe
    job = receive(sys.stdin.buffer)
    assert isinstance(job, Job)
    work(job, Mailbox(sys.stdin.buffer), out)
    out.close()
    os._exit(0)  # the solver's threads need no farewell
