"""The cheapest selection by DAG cost, with proof: reductions, linear relaxation with cuts, branch and bound."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, frexp, inf
from typing import ClassVar

from egraph_opt.extraction.bounds import cheap_lower_bound
from egraph_opt.extraction.dag_greedy import DagGreedy
from egraph_opt.extraction.highs import BinaryProgram
from egraph_opt.extraction.model import Model
from egraph_opt.extraction.parts import Part, split
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.reduce import reduce
from egraph_opt.extraction.result import Answer, Clock, Guarantee
from egraph_opt.extraction.tree_greedy import cheapest_trees, complete


@dataclass(frozen=True)
class Ilp:
    """Exact extraction with HiGHS; the answer is never worse than that of ``dag-greedy`` or the warm start.

    Negative costs are allowed: then a class is selected only for an e-node that uses it.

    Attributes:
        relaxations: how many times the linear relaxation may be solved with further cuts before branching.
        cuts: how many cuts each round may add.
    """

    relaxations: int = 60
    cuts: int = 500

    name: ClassVar[str] = "ilp"
    guarantee: ClassVar[Guarantee] = Guarantee.DAG_OPTIMAL
    description: ClassVar[str] = "cheapest selection, proven with the HiGHS solver: counts a shared e-node once"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Greedy answer, reductions, then each independent part on its own, the smallest first."""
        with clock.stage("greedy"):
            best = DagGreedy().best_choice(problem, [] if warm_start is None else [warm_start], clock)
            upper = problem.rank(best)[0]
        with clock.stage("reduce"):
            reduced = reduce(problem, upper)
            parts = split(reduced.problem)
        chosen = [-1] * len(problem.nodes)
        bound, timed_out = reduced.base, False
        left = sum(len(part.members) for part in parts)
        for part in parts:
            share = clock.left * len(part.members) / left if clock.left < inf else inf
            search = _Search(part, Clock(share, clock.seconds), self, seed, best)
            search.run()
            part.widen(search.best, chosen)
            bound += search.bound
            timed_out |= search.timed_out
            left -= len(part.members)
        lifted = reduced.lift(problem, chosen)
        notes = {f"removed: {step}": count for step, count in reduced.removed.items()}
        notes["e-nodes left"] = sum(len(part.members) for part in parts)
        bound = max(bound, cheap_lower_bound(problem))
        return Answer(problem.best([best, lifted]), bound, timed_out, notes)


class _Search:
    """The search in one part: ``best`` and ``bound`` meet, or time runs out."""

    def __init__(self, part: Part, clock: Clock, options: Ilp, seed: int, greedy: Choice) -> None:
        self.problem = part.problem
        self.clock = clock
        self.options = options
        self.timed_out = False
        with clock.stage("greedy"):
            start = complete(part.problem, part.narrow(greedy))
            self.best = DagGreedy().best_choice(part.problem, [start], clock)
        self.upper = part.problem.rank(self.best)[0]
        self.bound = cheap_lower_bound(part.problem)
        self.scale = _scale(part.problem, self.upper)
        self.integral = self.scale == 1.0
        if not self._done:
            self.model = Model(part.problem)
            objective = [cost * self.scale for cost in self.model.objective]
            self.program = BinaryProgram(objective, self.model.rows(), seed)

    def run(self) -> None:
        if not self._done:
            with self.clock.stage("relax"):
                self._relax()
        if not self._done:
            with self.clock.stage("branch"):
                self._branch()

    @property
    def _done(self) -> bool:
        return self.upper - self.bound <= 1e-9 * max(abs(self.upper), abs(self.bound))

    def _relax(self) -> None:
        """Raise the bound with cuts on the linear relaxation, and round its solutions to selections."""
        stalled = 0
        for _ in range(self.options.relaxations):
            solution = self.program.solve_relaxation(self.clock.left)
            if solution.values is None:
                self.timed_out = solution.timed_out
                return
            stalled = 0 if self._raise_bound(solution.bound) else stalled + 1
            values: list[float] = solution.values.tolist()
            self._offer(self._rounded(values))
            if self._done or stalled > 5:
                return
            cuts = self.model.violated_cuts(values, self.options.cuts)
            if not cuts:
                return
            self.program.add_rows(cuts)

    def _branch(self) -> None:
        """Solve the binary program; while its solution has a cycle, forbid that and solve again."""
        while not self._done:
            if not self.clock.left:
                self.timed_out = True
                return
            solution = self.program.solve(self.clock.left, self.model.point(self.best))
            self._raise_bound(solution.bound)
            if solution.values is None:
                self.timed_out = solution.timed_out
                return
            values = [float(round(value)) for value in solution.values.tolist()]
            choice = self.model.choice(values)
            cuts = self.model.violated_cuts(values, self.options.cuts)
            if self.problem.order(choice) is not None and not (cuts and self.problem.has_negative_costs):
                self._offer(self.problem.trim(choice))
                if solution.finished:
                    self.bound = max(self.bound, min(self.upper, solution.bound / self.scale))
                    return
            else:
                self._offer(complete(self.problem, choice))
                self.program.add_rows(cuts)
            if not solution.finished:
                self.timed_out = solution.timed_out and not self._done
                return

    def _rounded(self, values: list[float]) -> Choice:
        """Cheapest trees where an e-node is the cheaper the more the relaxation selects it."""
        costs = [
            max(cost, 0.0) * (1.0 - min(1.0, value)) + 1e-9 * abs(cost)
            for cost, value in zip(self.problem.costs, values, strict=False)
        ]
        return cheapest_trees(self.problem, costs)[0]

    def _offer(self, choice: Choice) -> None:
        """Take an acyclic choice, improved locally, if it is better than the best."""
        improved = DagGreedy(starts=0, effort=200_000).best_choice(self.problem, [choice])
        self.best = self.problem.best([self.best, improved])
        self.upper = self.problem.rank(self.best)[0]

    def _raise_bound(self, objective: float) -> bool:
        """Take a bound from the solver; whether that is a step forward."""
        bound = objective / self.scale
        if self.integral and bound > -inf:
            bound = float(ceil(bound - 1e-6))
        before, self.bound = self.bound, max(self.bound, bound)
        return self.bound > before + 1e-5 * max(self.upper - before, 0.0)


def _scale(problem: Problem, upper: float) -> float:
    """A power of two that brings the cost of the best selection to some thousands, far above the solver's tolerances.

    1 for whole numbers: for these, bounds can be rounded up.
    """
    if abs(upper) <= 1e6 and all(cost == int(cost) for cost in problem.costs):
        return 1.0
    return 2.0 ** (12 - frexp(upper or 1.0)[1])
