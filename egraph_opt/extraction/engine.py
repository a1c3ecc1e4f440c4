"""What runs a search in one part of a problem, here or in a worker process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from egraph_opt.extraction.exact import Effort, ExactSearch, News, Report
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Clock


@dataclass(frozen=True)
class Task:
    """One part to search.

    Attributes:
        index: its number on the board.
        problem: the part.
        start: the best trimmed choice so far.
        bound: the lower bound so far.
        enough: only choices that cost less are wanted.
    """

    index: int
    problem: Problem
    start: Choice
    bound: float
    enough: float


class Engine(Protocol):
    """A frozen dataclass that can be pickled."""

    def search(self, task: Task, clock: Clock, seed: int, report: Report, news: News) -> bool:
        """Searches until done or the clock has run out; whether the latter."""
        ...


@dataclass(frozen=True)
class HighsEngine:
    """Relaxations, cuts, branch and bound."""

    effort: Effort = field(default_factory=Effort)

    def search(self, task: Task, clock: Clock, seed: int, report: Report, news: News) -> bool:
        """See ``Engine``."""
        search = ExactSearch(
            task.problem,
            task.start,
            clock,
            self.effort,
            seed,
            bound=task.bound,
            enough=task.enough,
            report=report,
            news=news,
        )
        search.run()
        return search.timed_out
