"""Exact search in one problem: linear relaxation with cuts and landmarks, then branch and bound, both with HiGHS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, frexp, inf, isfinite

from egraph_opt.extraction.bounds import cheap_lower_bound
from egraph_opt.extraction.dag_greedy import DagGreedy
from egraph_opt.extraction.highs import BinaryProgram, Row
from egraph_opt.extraction.landmarks import landmarks
from egraph_opt.extraction.model import Model
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Clock
from egraph_opt.extraction.tree_greedy import cheapest_trees, complete

Report = Callable[[Choice | None, float], None]
"""Takes a better choice for the problem (or None), and the best lower bound so far."""

News = Callable[[], Choice | None]
"""A choice for the problem that somebody else has found, or None."""


@dataclass(frozen=True)
class Effort:
    """How hard to try.

    Attributes:
        relaxations: how many times the linear relaxation may be solved with further cuts before branching.
        cuts: how many cuts each round may add.
        polish: edges that local improvement may visit for each selection that comes out of the solver.
        branch: seconds of branch and bound where the relaxation proves nothing; 0 for none.
    """

    relaxations: int = 60
    cuts: int = 500
    polish: int = 200_000
    branch: float = inf


class ExactSearch:
    """The search in one problem whose operands are distinct: ``best`` and ``bound`` meet, or time runs out.

    Only choices that cost less than ``enough`` are wanted: a bound of that much ends the search.
    """

    def __init__(
        self,
        problem: Problem,
        start: Choice,
        clock: Clock,
        effort: Effort,
        seed: int,
        *,
        bound: float = -inf,
        enough: float = inf,
        report: Report = lambda choice, bound: None,
        news: News = lambda: None,
    ) -> None:
        self.problem, self.clock, self.effort, self.seed = problem, clock, effort, seed
        self.best = start
        self.upper = problem.rank(start)[0]
        self.bound = max(bound, cheap_lower_bound(problem))
        self.enough = enough
        self.timed_out = False
        self._report, self._news = report, news
        self._scale = _scale(problem, self.upper)
        self._whole = self._scale == 1.0

    def run(self) -> None:
        """Until the best choice is proven, the time is up, or the solver fails."""
        if self.done:
            return
        with self.clock.stage("relax"):
            self._model = Model(self.problem)
            objective = [cost * self._scale for cost in self._model.objective]
            self._program = BinaryProgram(objective, self._model.rows(), self.seed)
            if not self.problem.has_negative_costs:
                found = landmarks(self.problem, enough=self._gap, stop=self._out_of_time)
                self._raise_bound(found.bound * self._scale)
                self._program.add_rows(self._landmark_row(mark.nodes) for mark in found.found)
            self._relax()
        if self.effort.branch:
            with self.clock.stage("branch"):
                self._branch()

    @property
    def done(self) -> bool:
        """Whether nothing cheaper is left to be found."""
        return self._gap <= 1e-9 * max(abs(self.upper), abs(self.bound))

    @property
    def _gap(self) -> float:
        return min(self.upper, self.enough) - self.bound

    def _out_of_time(self) -> bool:
        return not self.clock.left

    def _relax(self) -> None:
        """Raise the bound with cuts on the linear relaxation, and round its solutions to selections."""
        stalled = 0
        for _ in range(self.effort.relaxations):
            self._listen()
            if self.done:
                return
            solution = self._program.solve_relaxation(self.clock.left)
            if solution.values is None:
                self.timed_out = solution.timed_out
                return
            stalled = 0 if self._raise_bound(solution.bound) else stalled + 1
            values: list[float] = solution.values.tolist()
            self._offer(self._rounded(values))
            if self.done or stalled > 5:
                return
            cuts = self._model.violated_cuts(values, self.effort.cuts)
            if not self.problem.has_negative_costs:
                cuts += self._landmark_cuts(solution.bound, solution.reduced_costs)
            if not cuts:
                return
            self._program.add_rows(cuts)

    def _landmark_cuts(self, objective: float, reduced_costs: Sequence[float]) -> list[Row]:
        """Landmarks of what the relaxation leaves of the costs; e-nodes that cost more than the gap are forbidden.

        A selection costs the relaxation's objective and the reduced costs of its columns, or more.
        """
        gap = min(self.upper, self.enough) * self._scale - objective
        left = [max(0.0, cost) for cost in reduced_costs[: len(self.problem.costs)]]
        for cls, column in enumerate(self._model.active):
            if column >= len(left):
                for node in self.problem.nodes[cls]:
                    left[node] += max(0.0, reduced_costs[column])
        for node in self._program.forbidden:
            left[node] = 2.0 * abs(gap) + 1.0
        found = landmarks(self.problem, left, enough=gap, stop=self._out_of_time)
        self._raise_bound(objective + found.bound)
        limit = gap - found.bound + 1e-6 * max(1.0, abs(gap))
        self._program.forbid([node for node, cost in enumerate(found.left) if cost > limit])
        return [self._landmark_row(mark.nodes) for mark in found.found]

    def _landmark_row(self, nodes: Sequence[int]) -> Row:
        return Row(nodes, [1.0] * len(nodes), 1.0, inf)

    def _branch(self) -> None:
        """Solve the binary program; while its solution has a cycle, forbid that and solve again."""
        clock = Clock(min(self.clock.left, self.effort.branch))
        while not self.done:
            self._listen()
            if not clock.left:
                self.timed_out = True
                return
            solution = self._program.solve(
                clock.left, self._model.point(self.best), self._stream, self._no_longer_wanted
            )
            self._raise_bound(solution.bound)
            if solution.values is None:
                self.timed_out = solution.timed_out
                return
            values = [float(round(value)) for value in solution.values.tolist()]
            choice = self._model.choice(values)
            cuts = self._model.violated_cuts(values, self.effort.cuts)
            if self.problem.order(choice) is not None and not (cuts and self.problem.has_negative_costs):
                self._offer(self.problem.trim(choice))
                if solution.finished:
                    self._raise_bound(solution.bound, whole=False)
                    return
            else:
                self._offer(complete(self.problem, choice))
                self._program.add_rows(cuts)
            if not solution.finished:
                self.timed_out = solution.timed_out and not self.done
                return

    def _stream(self, values: list[float] | None, bound: float) -> None:
        """What the solver says while it runs."""
        if isfinite(bound):
            self._raise_bound(bound)
        if values is not None:
            choice = self._model.choice(values)
            if self.problem.order(choice) is not None:
                self._take(self.problem.trim(choice))

    def _no_longer_wanted(self) -> bool:
        self._listen()
        return self.done

    def _listen(self) -> None:
        heard = self._news()
        if heard is not None:
            self._take(heard)

    def _rounded(self, values: list[float]) -> Choice:
        """Cheapest trees where an e-node is the cheaper the more the relaxation selects it."""
        costs = [
            max(cost, 0.0) * (1.0 - min(1.0, value)) + 1e-9 * abs(cost)
            for cost, value in zip(self.problem.costs, values, strict=False)
        ]
        return cheapest_trees(self.problem, costs)[0]

    def _offer(self, choice: Choice) -> None:
        """Take an acyclic choice, improved locally, if it is better than the best."""
        self._take(DagGreedy(starts=0, effort=self.effort.polish).best_choice(self.problem, [choice]))

    def _take(self, choice: Choice) -> None:
        if self.problem.rank(choice) < self.problem.rank(self.best):
            self.best = choice
            self.upper = self.problem.rank(choice)[0]
            self._report(choice, self.bound)

    def _raise_bound(self, objective: float, *, whole: bool = True) -> bool:
        """Take a bound from the solver; whether that is a step forward."""
        bound = objective / self._scale
        if self._whole and whole and bound > -inf:
            bound = float(ceil(bound - 1e-6))
        bound = min(bound, self.upper, self.enough)
        before, self.bound = self.bound, max(self.bound, bound)
        if self.bound > before:
            self._report(None, self.bound)
        return self.bound > before + 1e-5 * max(self.upper - before, 0.0)


def _scale(problem: Problem, upper: float) -> float:
    """A power of two that brings the cost of the best selection to some thousands, far above the solver's tolerances.

    1 for whole numbers: for these, bounds can be rounded up.
    """
    if abs(upper) <= 1e6 and all(cost == int(cost) for cost in problem.costs):
        return 1.0
    return 2.0 ** (12 - frexp(upper or 1.0)[1])
