"""HiGHS behind a typed face: the only file that imports highspy (which has no usable type hints)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from types import FrameType
from typing import Any

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
        bound: no feasible point has a lower objective; -inf if the solver failed.
        finished: whether the solver proved that ``values`` is best.
        timed_out: whether it did not because of the time limit.
        reduced_costs: (columns,) of a relaxation: what a column adds at least to the bound, per unit.
    """

    values: NDArray[np.float64] | None
    bound: float
    finished: bool
    timed_out: bool
    reduced_costs: list[float] = field(default_factory=list[float])


Stream = Callable[[list[float] | None, float], None]
"""Takes a better point while the solver runs (or None), and the lower bound; -inf if there is none yet."""


@contextmanager
def interrupts_wait() -> Generator[Callable[[], bool]]:
    """Puts off what an interrupt does (SIGINT, as a rule a KeyboardInterrupt) to the end of the block.

    An exception that comes out of a callback leaves HiGHS hanging. The block is given a function that tells whether
    there was an interrupt. Only the main thread of a program is ever interrupted.
    """
    waiting: list[tuple[int, FrameType | None]] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: waiting.append((number, frame)))
    try:
        yield lambda: bool(waiting)
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting and callable(before):
        before(*waiting[0])


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
            "parallel": "off",
            "random_seed": seed % 2**31,
            "mip_rel_gap": 0.0,
            "mip_abs_gap": 0.0,
        }.items():
            solver.setOptionValue(option, value)
        count = len(objective)
        self._objective = np.array(objective, np.float64)
        none = np.empty(0, np.int32)
        solver.addCols(count, self._objective, np.zeros(count), np.ones(count), 0, none, none, np.empty(0))
        self._solver = solver
        self._count = count
        self.forbidden: set[int] = set()
        self._raised: BaseException | None = None
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

    def forbid(self, columns: Iterable[int]) -> None:
        """Fixes columns to 0."""
        fresh = np.array(sorted(set(columns).difference(self.forbidden)), np.int32)
        self.forbidden.update(fresh.tolist())
        self._solver.changeColsBounds(len(fresh), fresh, np.zeros(len(fresh)), np.zeros(len(fresh)))

    def solve_relaxation(self, seconds: float) -> Solution:
        """The linear relaxation, from where the last one ended."""
        self._set_integer(False)
        status = self._run(seconds)
        if status != highspy.HighsModelStatus.kOptimal:
            return Solution(None, -inf, False, status == highspy.HighsModelStatus.kTimeLimit)
        found = self._solver.getSolution()
        objective = float(self._solver.getInfo().objective_function_value)
        return Solution(np.array(found.col_value), objective, True, False, list(found.col_dual))

    def solve(
        self,
        seconds: float,
        hint: Sequence[float] | None,
        stream: Stream = lambda point, bound: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Solution:
        """The binary program; ``hint`` is a point to start from, which the solver checks.

        ``stream`` hears of better points and bounds, and ``stop`` is asked, while the solver runs; what they raise
        ends it.

        HiGHS 1.16 may improve a hint during presolve, report the objective of the better point as optimal, and yet
        return the hint. So the objective is recomputed, and in that case the program solved without the hint.
        """
        begin = time.monotonic()
        with interrupts_wait() as interrupted:
            self._listen(stream, lambda: interrupted() or stop())
            solution, objective = self._solve_once(seconds, hint)
            if hint is not None and solution.finished and solution.values is not None:
                actual = float(self._objective @ solution.values)
                if actual > objective + 1e-6 * max(1.0, abs(objective)):
                    solution, _ = self._solve_once(max(0.0, seconds - (time.monotonic() - begin)), None)
        if self._raised is not None:
            raise self._raised
        return solution

    def _solve_once(self, seconds: float, hint: Sequence[float] | None) -> tuple[Solution, float]:
        """The solution, and the objective that the solver reports for it."""
        self._set_integer(True)
        self._solver.clearSolver()
        if hint is not None:
            point = highspy.HighsSolution()
            point.col_value = list(hint)
            self._solver.setSolution(point)
        status = self._run(seconds)
        finished = status == highspy.HighsModelStatus.kOptimal
        timed_out = status == highspy.HighsModelStatus.kTimeLimit
        if not finished and not timed_out and status != highspy.HighsModelStatus.kInterrupt:
            return Solution(None, -inf, False, False), inf
        info = self._solver.getInfo()
        found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        values = np.array(self._solver.getSolution().col_value) if found else None
        objective = float(info.objective_function_value)
        return Solution(values, objective if finished else float(info.mip_dual_bound), finished, timed_out), objective

    def _listen(self, stream: Stream, stop: Callable[[], bool]) -> None:
        self._raised = None

        def improved(event: Any) -> None:
            try:
                stream([float(value) for value in event.data_out.mip_solution], float(event.data_out.mip_dual_bound))
            except BaseException as error:  # must not reach HiGHS; raised when that has ended
                self._raised = error

        def asked(event: Any) -> None:
            try:
                stream(None, float(event.data_out.mip_dual_bound))
                event.interrupt(self._raised is not None or stop())
            except BaseException as error:
                self._raised = error
                event.interrupt(True)

        self._solver.cbMipImprovingSolution.clear()
        self._solver.cbMipInterrupt.clear()
        self._solver.cbMipImprovingSolution.subscribe(improved)
        self._solver.cbMipInterrupt.subscribe(asked)

    def _set_integer(self, integer: bool) -> None:
        kind = highspy.HighsVarType.kInteger if integer else highspy.HighsVarType.kContinuous
        columns = np.arange(self._count, dtype=np.int32)
        self._solver.changeColsIntegrality(self._count, columns, np.full(self._count, kind.value, np.uint8))

    def _run(self, seconds: float) -> highspy.HighsModelStatus:
        # HiGHS counts its time limit from the creation of the solver.
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds if seconds < inf else inf)
        if self._solver.run() == highspy.HighsStatus.kError:
            # HiGHS has one thread pool per process and refuses another number of threads than its first user chose.
            highspy.Highs.resetGlobalScheduler(True)
            self._solver.run()
        return self._solver.getModelStatus()
