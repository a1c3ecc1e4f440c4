"""Bounds on what has not been measured."""

from __future__ import annotations

from functools import partial

import pytest

from egraph_opt.ir import TensorType
from egraph_opt.runtime import CostDatabase, OrtCpu, Signature, Work, work
from egraph_opt.runtime.bounds import MARGIN, Peaks
from egraph_opt.runtime.cuda.costs import shipped, widening
from egraph_opt.runtime.measure import FLOOR


def unary(op: str, *shape: int) -> Signature:
    return Signature(op, (), (TensorType("float32", shape),), (False,))


def test_peaks_are_the_fastest_seen_with_a_margin() -> None:
    seen = [(Work(1000, 10, 5, "float32"), 1.0), (Work(8000, 400, 5, "int8"), 2.0), (Work(5, 5, 5, "float32"), 0.0)]
    peaks = Peaks.of(seen, lambda dtype: 8.0 if dtype == "int8" else 1.0)
    assert (peaks.flops, peaks.bandwidth) == (1000 * MARGIN, 200 * MARGIN)
    assert peaks.seconds(Work(3000, 0, 0, "float32")) == pytest.approx(2.0)
    assert peaks.seconds(Work(3000, 0, 0, "int8")) == pytest.approx(0.25)
    assert peaks.seconds(Work(1, 600, 0, "float32")) == pytest.approx(2.0)


def test_nothing_seen_says_nothing() -> None:
    assert Peaks.of([], lambda dtype: 1.0).seconds(Work(10, 10, 10, "float32")) == 0.0


def test_half_of_the_shipped_measurements_bounds_the_other_half() -> None:
    rows = [(s.key, s, e.seconds) for s, e in shipped("h100").items() if e.seconds]
    rows.sort(key=lambda row: row[0])
    tight = 0
    for parity in (0, 1):
        peaks = Peaks.of([(work(s), t) for _, s, t in rows[parity::2]], partial(widening, fast=False))
        for key, signature, seconds in rows[1 - parity :: 2]:
            bound = peaks.seconds(work(signature))
            assert bound <= seconds, key
            tight += bound > 0.2 * seconds
    assert tight > 0.05 * len(rows)


def test_a_quote_is_a_bound_before_and_the_price_after_measuring() -> None:
    model = OrtCpu(budget_seconds=0.003, database=CostDatabase.in_memory())
    large, tiny, opaque = unary("Relu", 1 << 20), unary("Relu", 4), Signature("Opaque", (), (), ())
    before = model.quote([large, tiny, opaque])
    assert [q.cost is None for q in before] == [True, True, False]
    assert before[0].lower_bound > before[1].lower_bound == FLOOR
    costs = model.price([large, tiny, opaque])
    after = model.quote([large, tiny, opaque])
    assert [q.cost for q in after] == costs
    assert [q.lower_bound for q in after] == [c.seconds for c in costs]
    # whether the bound was below what came out is up to the machine: lazy extraction reports one that was not


def test_what_cannot_run_is_scaled_to_the_reference_alone() -> None:
    model = OrtCpu(budget_seconds=0.003, database=CostDatabase.in_memory())
    opaque = Signature("Opaque", (), (TensorType("float32", (1 << 16,)),), (False,))
    reference = [unary("Relu", 1 << 16)]
    model.price(reference)
    alone = model.price([opaque], reference=reference)[0]
    among = model.price([opaque, unary("Erf", 1 << 16), unary("Tanh", 1 << 16)], reference=reference)[0]
    assert alone == among
    assert model.quote([opaque], reference=reference)[0].cost == alone
