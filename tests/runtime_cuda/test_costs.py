"""The shipped measurements and the model fitted to them; no GPU."""

from __future__ import annotations

import pytest

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorType
from egraph_opt.runtime import Signature, get_cost_model
from egraph_opt.runtime.cuda.costs import shipped
from egraph_opt.runtime.cuda.fitted import held_out_error


def test_held_out_error_is_small() -> None:
    measured = [(s, e.seconds) for s, e in shipped("h100").items() if e.seconds]
    assert len(measured) > 800
    assert held_out_error(measured) < 0.25


def test_measured_and_estimated_prices() -> None:
    known = next(s for s in shipped("h100") if s.op == "Conv")
    wide = Signature(
        "MatMul", (), (TensorType("float16", (96, 1024)), TensorType("float16", (1024, 2048))), (False, True)
    )
    costs = get_cost_model("cuda:h100").price([known, wide, known])
    assert costs[0] == costs[2]
    assert costs[0].origin == "measured"
    assert costs[0].seconds == shipped("h100")[known].seconds
    assert costs[1].origin == "estimated"
    assert all(0 <= c.lower_bound <= c.seconds for c in costs)


def test_unknown_card_is_refused() -> None:
    with pytest.raises(UsageError, match="h100"):
        get_cost_model("cuda:h9000")
