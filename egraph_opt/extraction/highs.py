"""HiGHS behind a typed face: the only file that imports highspy (which has no usable type hints)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

import highspy
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Row:
    """``lower <= sum of coefficients[i] * column[columns[i]] <= upper``."""

    columns: Sequence[int]
    coefficients: Sequence[float]
    lower: float
    upper: float


@dataclass(frozen=True)
class Solution:
    """What a solve returned.

    Attributes:
        values: (columns,) the best point found, or None.
        bound: no feasible point has a lower objective.
        finished: whether the solver proved that ``values`` is best; otherwise it ran out of time.
    """

    values: NDArray[np.float64] | None
    bound: float
    finished: bool


class _QuietHighs(highspy.Highs):
    """HiGHS without the banner that it prints to stdout when it is created."""

    def enableCallbacks(self) -> None:  # noqa: N802 - called by the constructor, before anything is printed
        self.silent()
        super().enableCallbacks()


class BinaryProgram:
    """``minimise objective @ x`` over x in {0, 1} and rows that can be added; one thread, fixed seed."""

    def __init__(self, objective: Sequence[float], rows: Iterable[Row], seed: int) -> None:
        solver = _QuietHighs()
        solver.silent()
        for option, value in {
            "threads": 1,
            "random_seed": seed % 2**31,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 0.0,
        }.items():
            solver.setOptionValue(option, value)
        count = len(objective)
        none = np.empty(0, np.int32)
        solver.addCols(
            count, np.array(objective, np.float64), np.zeros(count), np.ones(count), 0, none, none, np.empty(0)
        )
        self._solver = solver
        self._count = count
        self.add_rows(rows)

    def add_rows(self, rows: Iterable[Row]) -> None:
        rows = list(rows)
        starts = np.zeros(len(rows), np.int32)
        if len(rows) > 1:
            np.cumsum([len(row.columns) for row in rows[:-1]], out=starts[1:])
        columns = np.array([column for row in rows for column in row.columns], np.int32)
        coefficients = np.array([value for row in rows for value in row.coefficients], np.float64)
        lower = np.array([row.lower for row in rows], np.float64)
        upper = np.array([row.upper for row in rows], np.float64)
        self._solver.addRows(len(rows), lower, upper, len(columns), starts, columns, coefficients)

    def solve_relaxation(self, seconds: float) -> Solution:
        """The linear relaxation, from where the last one ended."""
        self._set_integer(False)
        self._run(seconds)
        finished = self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        if not finished:
            return Solution(None, -inf, False)
        values = np.array(self._solver.getSolution().col_value)
        return Solution(values, self._solver.getInfo().objective_function_value, True)

    def solve(self, seconds: float, hint: Sequence[float] | None) -> Solution:
        """The binary program; ``hint`` is a feasible point to start from, which the solver checks."""
        self._set_integer(True)
        self._solver.clearSolver()
        if hint is not None:
            point = highspy.HighsSolution()
            point.col_value = list(hint)
            self._solver.setSolution(point)
        self._run(seconds)
        info = self._solver.getInfo()
        found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        values = np.array(self._solver.getSolution().col_value) if found else None
        finished = self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        bound = info.objective_function_value if finished else info.mip_dual_bound
        return Solution(values, float(bound), finished)

    def _set_integer(self, integer: bool) -> None:
        kind = highspy.HighsVarType.kInteger if integer else highspy.HighsVarType.kContinuous
        columns = np.arange(self._count, dtype=np.int32)
        self._solver.changeColsIntegrality(self._count, columns, np.full(self._count, kind.value, np.uint8))

    def _run(self, seconds: float) -> None:
        # HiGHS counts its time limit from the creation of the solver.
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds if seconds < inf else inf)
        self._solver.run()
