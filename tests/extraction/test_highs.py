"""What HiGHS does on its own account, and must not reach callers."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

import os
import random
import signal
from math import inf

import highspy
import numpy as np
import pytest

from egraph_opt.extraction.highs import BinaryProgram, Row

# From a random e-graph with negative costs: the optimum is -3, the hint costs 0.
OBJECTIVE = [2.0, 1, 0, 4, 0, 4, 0, 1, 0, 3, 0, 4, 4, -1, 6, 0, 3, -3, 1, 0, 0, 0, 0]
ROWS: list[tuple[dict[int, float], float, float]] = [
    ({0: 1, 1: 1, 2: 1, 3: 1}, 1, 1),
    ({1: 1, 20: -1}, -inf, 0),
    ({4: 1, 5: 1, 19: -1}, 0, 0),
    ({6: 1, 7: 1, 8: 1, 20: -1}, 0, 0),
    ({8: 1, 21: -1}, -inf, 0),
    ({7: 1, 8: 1, 13: -1}, -inf, 0),
    ({7: 1, 22: -1}, -inf, 0),
    ({10: 1, 11: 1, 12: 1, 21: -1}, 0, 0),
    ({11: 1, 9: -1}, -inf, 0),
    ({10: 1, 13: -1}, -inf, 0),
    ({10: 1, 22: -1}, -inf, 0),
    ({14: 1, 15: 1, 16: 1}, 1, 1),
    ({14: 1, 19: -1}, -inf, 0),
    ({14: 1, 9: -1}, -inf, 0),
    ({14: 1, 16: 1, 13: -1}, -inf, 0),
    ({17: 1, 18: 1, 22: -1}, 0, 0),
    ({17: 1, 13: -1}, -inf, 0),
    ({14: -1, 19: 1}, -inf, 0),
    ({1: -1, 20: 1}, -inf, 0),
    ({11: -1, 14: -1, 9: 1}, -inf, 0),
    ({8: -1, 21: 1}, -inf, 0),
    ({7: -1, 8: -1, 10: -1, 14: -1, 16: -1, 17: -1, 13: 1}, -inf, 0),
    ({7: -1, 10: -1, 22: 1}, -inf, 0),
]


def program() -> BinaryProgram:
    return BinaryProgram(OBJECTIVE, [Row(list(r), list(r.values()), low, high) for r, low, high in ROWS], seed=0)


@pytest.mark.parametrize("hinted", [False, True])
def test_the_point_has_the_objective_that_is_reported(hinted: bool) -> None:
    hint = [1.0 if column in (2, 15) else 0.0 for column in range(len(OBJECTIVE))]
    solution = program().solve(inf, hint if hinted else None)
    assert solution.finished
    assert solution.values is not None
    assert float(np.array(OBJECTIVE) @ solution.values) == pytest.approx(-3.0)
    assert solution.bound == pytest.approx(-3.0)


def test_another_thread_count_in_the_same_process_is_no_obstacle() -> None:
    highspy.Highs.resetGlobalScheduler(True)
    other = highspy.Highs()
    other.silent()
    other.setOptionValue("threads", 2)
    column = other.addBinary(obj=1.0)
    other.addConstr(column + 0.0 >= 1.0)
    other.run()
    assert program().solve(inf, None).finished


def test_no_time_is_no_answer_and_no_false_bound() -> None:
    solution = program().solve(0.0, None)
    assert solution.finished or (solution.timed_out and solution.bound <= -3.0)


def covering() -> BinaryProgram:
    """Takes many nodes of branch and bound: the solver calls back before it has ended."""
    rng = random.Random(1)
    rows = [Row(rng.sample(range(60), 4), [1.0] * 4, 1.0, inf) for _ in range(120)]
    return BinaryProgram([rng.uniform(20.0, 30.0) for _ in range(60)], rows, seed=0)


def test_an_interrupt_ends_the_solver_and_is_raised_then() -> None:
    handler = signal.getsignal(signal.SIGINT)

    def interrupt() -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return False

    with pytest.raises(KeyboardInterrupt):
        covering().solve(inf, None, stop=interrupt)
    assert signal.getsignal(signal.SIGINT) is handler


def test_what_a_callback_raises_ends_the_solver_and_is_raised_then() -> None:
    def fail(point: list[float] | None, bound: float) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        covering().solve(inf, None, stream=fail)
