"""What an extraction returns, and what a strategy must offer to be one."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import ClassVar, Protocol

from egraph_opt.egraph import Selection
from egraph_opt.extraction.problem import Choice, Problem


class Guarantee(StrEnum):
    """What a strategy promises when it is not stopped early."""

    TREE_OPTIMAL = "tree-optimal"
    """No selection has a lower cost when an e-node counts once per use."""
    DAG_OPTIMAL = "dag-optimal"
    """No selection has a lower cost when an e-node counts once."""
    HEURISTIC = "heuristic"


class OutOfTimeError(Exception):
    """Ends a strategy at once: what the clock has heard of is the answer."""


class Status(StrEnum):
    """Why the search ended."""

    OPTIMAL = "optimal"
    """The cost equals the lower bound (to one part in 10^9)."""
    FEASIBLE = "feasible"
    """The strategy ran to its end, and offers no proof that the answer is the cheapest."""
    TIME_LIMIT = "time-limit"
    """The time limit ended the search; the answer is the best found until then."""
    INTERRUPTED = "interrupted"
    """The user ended the search (KeyboardInterrupt); the answer is the best found until then."""


@dataclass(frozen=True)
class Moment:
    """What was known after some seconds: the cost of the best selection (inf: none yet), and the lower bound."""

    seconds: float
    cost: float
    lower_bound: float


@dataclass(frozen=True)
class Extraction:
    """A checked selection, and how good it is known to be.

    Attributes:
        selection: one e-node for each class that the roots need, acyclic.
        cost: each selected e-node counted once, recomputed on the e-graph as it was given.
        lower_bound: no acyclic selection costs less than this.
        status: why the search ended.
        seconds: wall time of each stage, in the order in which they ran.
        extractor: name of the strategy.
        notes: counts worth showing beside the answer, such as what each reduction removed.
        trace: how cost and lower bound went over time, for strategies that tell.
    """

    selection: Selection
    cost: float
    lower_bound: float
    status: Status
    seconds: dict[str, float]
    extractor: str
    notes: dict[str, int] = field(default_factory=dict[str, int])
    trace: tuple[Moment, ...] = ()

    @property
    def gap(self) -> float:
        """``(cost - lower_bound) / |cost|``: 0 is proven cheapest, inf is nothing known."""
        return relative_gap(self.cost, self.lower_bound)


@dataclass(frozen=True)
class Answer:
    """What a strategy returns; ``extract`` checks it and makes the ``Extraction``."""

    choice: Choice
    lower_bound: float
    timed_out: bool = False
    notes: dict[str, int] = field(default_factory=dict[str, int])
    interrupted: bool = False


@dataclass
class Clock:
    """The time limit of one extraction, the seconds that each stage took, and what is known so far.

    A strategy that tells the clock of its answers and bounds as it finds them can be stopped at any time, and has a
    trace. ``on_moment`` is called whenever one of them gets better.
    """

    limit: float | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    start: float = field(default_factory=time.monotonic)
    best: Choice | None = None
    lower_bound: float = -inf
    trace: list[Moment] = field(default_factory=list["Moment"])
    on_moment: Callable[[Moment], None] | None = None
    _rank: tuple[float, int, Choice] | None = None

    def found(self, problem: Problem, choice: Choice) -> bool:
        """Takes a trimmed choice for the problem that is to be solved; whether it is the best so far."""
        rank = problem.rank(choice)
        if self._rank is not None and rank >= self._rank:
            return False
        cheaper = self._rank is None or rank[0] < self._rank[0]
        self.best, self._rank = choice, rank
        if cheaper:
            self._tell()
        return True

    def proved(self, bound: float) -> None:
        """Takes a lower bound."""
        if bound > self.lower_bound:
            self.lower_bound = bound
            self._tell()

    @property
    def cost(self) -> float:
        """Cost of the best choice so far; inf without one."""
        return self._rank[0] if self._rank is not None else inf

    def _tell(self) -> None:
        moment = Moment(time.monotonic() - self.start, self.cost, min(self.lower_bound, self.cost))
        self.trace.append(moment)
        if self.on_moment is not None:
            self.on_moment(moment)

    @property
    def left(self) -> float:
        """Seconds until the limit, never negative; inf without a limit."""
        return inf if self.limit is None else max(0.0, self.start + self.limit - time.monotonic())

    def check(self) -> None:
        """Raises OutOfTimeError if the limit is reached. Called before all that takes long and cannot be cut short."""
        if not self.left:
            raise OutOfTimeError

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Adds the time of the block to the seconds of ``name``."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begin


class Extractor(Protocol):
    """A strategy: a frozen dataclass whose typed fields are its options, and one method."""

    name: ClassVar[str]
    guarantee: ClassVar[Guarantee]
    description: ClassVar[str]
    takes_negative_costs: ClassVar[bool]

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """An acyclic choice for every class that the roots of ``problem`` need.

        Every root of ``problem`` can be computed, and there is at least one. ``warm_start`` is closed and acyclic.

        Raises:
            OutOfTimeError: the limit was reached in the middle of something; the clock has the answer.
        """
        ...


def relative_gap(cost: float, lower_bound: float) -> float:
    """``(cost - lower_bound) / |cost|``, where 0/0 is 0."""
    if cost <= lower_bound:
        return 0.0
    return (cost - lower_bound) / abs(cost) if cost else inf
