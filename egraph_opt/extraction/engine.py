"""What runs a search in one part of a problem, here or in a worker process."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class Turns:
    """Several engines in turns, each round of turns twice as long; each starts from what the others have found.

    Attributes:
        engines: at least one.
        seconds: length of the first turns.
    """

    engines: tuple[Engine, ...]
    seconds: float = 4.0

    def search(self, task: Task, clock: Clock, seed: int, report: Report, news: News) -> bool:
        """See ``Engine``."""
        best, bound = task.start, task.bound

        def hear(choice: Choice | None, proven: float) -> None:
            nonlocal best, bound
            if choice is not None and task.problem.rank(choice) < task.problem.rank(best):
                best = choice
            bound = max(bound, proven)
            report(choice, proven)

        seconds, stopped = self.seconds, True
        while stopped:
            stopped = False
            for engine in self.engines:
                if not clock.left:
                    return True
                turn = Clock(min(seconds, clock.left), clock.seconds)
                stopped |= engine.search(replace(task, start=best, bound=bound), turn, seed, hear, news)
                wanted = min(task.problem.rank(best)[0], task.enough)
                if wanted - bound <= 1e-9 * max(abs(wanted), abs(bound)):
                    return False
            seconds *= 2
        return False
