"""A model that is written wrong is no proof against a rule: one is only named if there is no such model without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir
import pytest

from egraph_opt import Options, Outcome
from egraph_opt.onnx_io import export_model
from egraph_opt.pipeline import choose
from egraph_opt.pipeline.bisect import bisect
from egraph_opt.pipeline.checks import Disagreement

TEXT = """g (float[2,4] x) => (float[2,4] y) {
    a = Relu (x) b = Relu (a) c = Neg (b) d = Neg (c) e = Neg (d) f = Exp (e) y = Abs (f)
}"""


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[list[str]], bool]], None]:
    """Puts a fault into what writes models: the last operator is one that ONNX does not know, or has no name of an
    output, where the operators of the model are such and such."""

    def put(kind: str, when: Callable[[list[str]], bool]) -> None:
        def faulty(*args: Any, **options: Any) -> onnx_ir.Model:
            model = export_model(*args, **options)
            if when([node.op_type for node in model.graph]):
                if kind == "operator":
                    model.graph[-1].op_type = "NoSuchOperator"
                else:
                    model.graph.outputs[0].name = "another"
            return model

        monkeypatch.setattr(choose, "export_model", faulty)

    return put


@pytest.mark.parametrize(("kind", "said"), [("operator", "onnx.checker"), ("output", "'y' is missing")])
def test_what_writes_models_wrong_accuses_no_rule(kind: str, said: str, fault: Any, tools: Any) -> None:
    model = tools.parse(TEXT)
    right = tools.optimize(model)
    assert right.changed
    fault(kind, lambda operators: True)
    result = tools.optimize(model)
    assert result.report.outcome == Outcome.REJECTED
    assert [n.op_type for n in result.model.graph.node] == [n.op_type for n in model.graph.node]
    assert said in result.report.reason
    if kind == "operator":
        assert "NoSuchOperator" in result.report.reason
    assert not result.report.refusals
    assert result.report.notes[-1].startswith("an invalid model was written, and no rule is known to be behind it")
    assert not any(name in note for note in result.report.notes for name in right.report.rules)


@pytest.mark.parametrize("double", ["Relu", "Neg"])
def test_a_rule_without_which_all_is_well_is_named(double: str, fault: Any, tools: Any) -> None:
    """Of two simplifications one leads to a graph that is written wrong; the other is not lost by it."""
    count = TEXT.count(f"{double} (")
    fault("operator", lambda operators: operators.count(double) < count)
    result = tools.optimize(tools.parse(TEXT))
    assert result.report.outcome == Outcome.OPTIMIZED, result.report.reason
    operators = [n.op_type for n in result.model.graph.node]
    assert operators.count(double) == count
    assert operators.count("Neg" if double == "Relu" else "Relu") == 1
    assert all("onnx.checker" in refusal.reason for refusal in result.report.refusals)
    out = [name for refusal in result.report.refusals for name in refusal.left_out]
    assert any(f"wrong results come from {name}" in note for note in result.report.notes for name in out)
    again = tools.optimize(tools.parse(TEXT), skip_rules=out)
    assert again.report.outcome == Outcome.OPTIMIZED


def test_bisection_of_what_shows_without_any_rule_names_none(fault: Any, tools: Any) -> None:
    options = Options(target="analytic", extractor="dag-greedy")
    fault("operator", lambda operators: True)
    found = bisect(onnx_ir.from_proto(tools.parse(TEXT)), Disagreement(options), options)
    assert "NoSuchOperator" in found.fault
    assert not found.rules
    assert found.again
    assert found.pair is not None
    assert [n.op_type for n in found.pair.faulty.graph][:-1] == [n.op_type for n in found.pair.original.graph][:-1]
