"""The cheapest selection by DAG cost with OR-Tools' CP-SAT, a solver of another kind: clauses, levels, hints."""

# OR-Tools is optional, and its type hints are partial.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingTypeArgument=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil, floor, frexp, inf
from typing import Any, ClassVar

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.engine import Task
from egraph_opt.extraction.exact import News, Report
from egraph_opt.extraction.graph import strongly_connected
from egraph_opt.extraction.landmarks import landmarks
from egraph_opt.extraction.parallel import SMALL, search_beside, search_here
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee


def is_installed() -> bool:
    """Whether OR-Tools is there."""
    return find_spec("ortools") is not None


@dataclass(frozen=True)
class CpSat:
    """Exact extraction with CP-SAT, from the answer of ``dag-greedy``; never worse than that or the warm start.

    Needs OR-Tools (the extra ``cp-sat``). Costs are rounded down to multiples of 2^-46 of the largest, so that bounds
    hold; two selections that differ by less than that count as equal.

    Attributes:
        workers: threads of the solver. The answer is the same for each seed, whatever their number.
    """

    workers: int = 1

    name: ClassVar[str] = "cp-sat"
    guarantee: ClassVar[Guarantee] = Guarantee.DAG_OPTIMAL
    description: ClassVar[str] = "cheapest selection, proven with OR-Tools' CP-SAT: counts a shared e-node once"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Greedy answer, reductions, then each independent part on its own, the smallest first."""
        board = Board(problem, clock, warm_start)
        engine = CpSatEngine(self.workers)
        timed_out = search_here(board, engine, seed, SMALL)
        timed_out |= search_beside(board, engine, seed, lambda: None)
        return board.answer(timed_out=timed_out)


@dataclass(frozen=True)
class CpSatEngine:
    """Runs CP-SAT on one part."""

    workers: int = 1

    def search(self, task: Task, clock: Clock, seed: int, report: Report, news: News) -> bool:
        """See ``Engine``. CP-SAT takes no ``news`` once it runs."""
        from ortools.sat.python import cp_model

        with clock.stage("cp-sat"):
            start = news() or task.start
            model = _Model(cp_model, task.problem, start, clock)
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = self.workers
            solver.parameters.interleave_search = True
            solver.parameters.random_seed = seed % 2**31
            if clock.left < inf:
                solver.parameters.max_time_in_seconds = clock.left

            class Better(cp_model.CpSolverSolutionCallback):
                """Hands on each solution."""

                def on_solution_callback(self) -> None:
                    report(model.choice(self.boolean_value), -inf)

            def bound(value: float) -> None:
                report(None, model.bound(value))

            solver.best_bound_callback = bound
            status = solver.solve(model.model, Better())
            if status == cp_model.OPTIMAL:
                report(model.choice(solver.boolean_value), -inf)
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                report(None, model.bound(solver.best_objective_bound))
            return status not in (cp_model.OPTIMAL, cp_model.INFEASIBLE, cp_model.MODEL_INVALID)


_BITS = 46  # of the largest cost: sums stay far below 2^63


class _Model:
    """Clauses for one problem: a literal per e-node and per class, and a level per class that is on a cycle.

    The level of a class is above those of the operands of its selected e-node, so that no cycle can be selected.
    """

    def __init__(self, cp_model: Any, problem: Problem, start: Sequence[int], clock: Clock) -> None:
        self.problem = problem
        self.model = model = cp_model.CpModel()
        upper = problem.rank(start)[0]
        largest = max((abs(cost) for cost in problem.costs), default=0.0)
        self._whole = largest < 2**40 and all(cost == int(cost) for cost in problem.costs)
        self.scale = 1.0 if self._whole else 2.0 ** (_BITS - frexp(max(largest, abs(upper)))[1])
        self.nodes = [model.new_bool_var("") for _ in problem.costs]
        self.classes = [model.new_bool_var("") for _ in problem.nodes]
        for root in problem.roots:
            model.add(self.classes[root] == 1)
        self._add_choices()
        self._add_levels()
        if not problem.has_negative_costs:
            for landmark in landmarks(problem, stop=lambda: not clock.left).found:
                model.add_bool_or([self.nodes[node] for node in landmark.nodes])
        for cls, node in enumerate(start):
            model.add_hint(self.classes[cls], node >= 0)
            for member in problem.nodes[cls]:
                model.add_hint(self.nodes[member], member == node)
        weights = [floor(cost * self.scale) for cost in problem.costs]
        model.minimize(sum(weight * node for weight, node in zip(weights, self.nodes, strict=True) if weight))

    def _add_choices(self) -> None:
        problem, model, nodes, classes = self.problem, self.model, self.nodes, self.classes
        for cls, members in enumerate(problem.nodes):
            model.add_exactly_one([*(nodes[node] for node in members), classes[cls].negated()])
            for child in problem.successors[cls]:
                using = [nodes[node] for node in members if child in problem.operands[node]]
                model.add_at_most_one([*using, classes[child].negated()])
        if problem.has_negative_costs:  # else no class is selected for its own sake
            for cls in set(range(len(classes))).difference(problem.roots):
                users = [nodes[node] for node in problem.users[cls]]
                model.add_bool_or([*users, classes[cls].negated()])

    def _add_levels(self) -> None:
        problem, model = self.problem, self.model
        component = strongly_connected(problem.successors)
        sizes = [0] * len(component)
        for number in component:
            sizes[number] += 1
        levels = [model.new_int_var(0, sizes[number] - 1, "") for number in component]
        for members in problem.nodes:
            for node in members:
                cls = problem.owner[node]
                for child in problem.operands[node]:
                    if component[child] == component[cls]:
                        model.add(levels[cls] >= levels[child] + 1).only_enforce_if(self.nodes[node])

    def choice(self, value: Any) -> Choice:
        """The trimmed choice of a solution, given as a function from literals to truth."""
        chosen = [next((node for node in members if value(self.nodes[node])), -1) for members in self.problem.nodes]
        return self.problem.trim(chosen)

    def bound(self, objective: float) -> float:
        """The lower bound that one on the rounded objective stands for."""
        if self._whole:
            return float(ceil(objective - 1e-6))
        return objective / self.scale
