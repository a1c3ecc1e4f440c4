"""A wrong rule that got past the gates is caught by verification, named, and leaves the original in place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from egraph_opt import Outcome, UnsoundRuleError
from egraph_opt.cli import main
from egraph_opt.pipeline import run as pipeline
from egraph_opt.rewrites import rule
from egraph_opt.rewrites.library import all_rules

WRONG = {
    "dropped operator": rule("wrong", "Sigmoid(x)", "x", family="wrong"),
    "wrong axis": rule(
        "wrong",
        "Transpose(Transpose(x, perm=p), perm=q)",
        "Transpose(x, perm=(0, 1, 2))",
        "rank(x) == 3",
        family="wrong",
    ),
    "missing group condition": rule(
        "wrong", "Conv(Conv(x, w, **c), v, **d)", "Conv(x, w, **c)", "shape(out) == shape(x)", family="wrong"
    ),
    "slightly wrong number": rule("wrong", "Mul(x, 2)", "Mul(x, 1.99)", family="wrong"),
}
MODELS = {
    "dropped operator": "g (float[2,4] x) => (float[2,4] y) { a = Relu(x) b = Sigmoid(a) y = Relu(b) }",
    "wrong axis": "g (float[3,3,3] x) => (float[3,3,3] y) { a = Transpose<perm=[1,0,2]>(x)"
    " b = Transpose<perm=[0,2,1]>(a) c = Transpose<perm=[2,1,0]>(b) y = Relu(c) }",
    "missing group condition": "g (float[1,2,4,4] x) => (float[1,2,4,4] y)"
    " <float[2,1,1,1] w={2,3}, float[2,2,1,1] v={1,2,3,4}>"
    " { a = Conv<group=2>(x, w) y = Conv(a, v) }",
    "slightly wrong number": "g (float[2,4] x) => (float[2,4] y) <float two={2}>"
    " { a = Mul(x, two) b = Relu(a) y = Relu(b) }",
}


@pytest.fixture
def no_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "admit", tuple)


@pytest.mark.usefixtures("no_gates")
@pytest.mark.parametrize("name", [n for n in WRONG if n != "slightly wrong number"])
def test_verification_catches_it(name: str, tools: Any) -> None:
    model = tools.parse(MODELS[name])
    result = tools.optimize(model, rules=(WRONG[name],))
    assert result.report.outcome == Outcome.REJECTED, result.report.reason
    assert not result.verified
    assert result.model.SerializeToString() == _plain(model, tools)
    assert result.report.verdict["kind"] == "different"
    assert any("wrong results" in note and "wrong:" in note for note in result.report.notes), result.report.notes


def _plain(model: onnx.ModelProto, tools: Any) -> bytes:
    """The model after nothing was done to it."""
    return tools.optimize(model, only_rules=["cast-nothing"]).model.SerializeToString()


@pytest.mark.usefixtures("no_gates")
def test_the_wrong_result_is_not_taken_among_all_rules(tools: Any) -> None:
    model = tools.parse(MODELS["dropped operator"].replace("y = Relu(b)", "c = Relu(b) y = Relu(c)"))
    result = tools.optimize(model, rules=(*all_rules(), WRONG["dropped operator"]))
    assert "Sigmoid" in [n.op_type for n in result.model.graph.node]
    if not result.changed:
        assert result.report.outcome == Outcome.REJECTED
        assert any("wrong" in note for note in result.report.notes), result.report.notes


@pytest.mark.usefixtures("no_gates")
def test_a_rule_that_only_unites_classes_is_named(tools: Any) -> None:
    model = tools.parse(MODELS["dropped operator"])
    result = tools.optimize(model, rules=(*all_rules(), WRONG["dropped operator"]))
    assert result.report.outcome == Outcome.REJECTED
    assert any("go away without wrong:" in note for note in result.report.notes), result.report.notes


@pytest.mark.usefixtures("no_gates")
@pytest.mark.parametrize("wrong", [False, True])
def test_where_estimates_decide_others_are_drawn_only_if_the_best_is_refused(wrong: bool, tools: Any) -> None:
    model = tools.parse(MODELS["dropped operator"].replace("y = Relu(b)", "c = Relu(b) y = Relu(c)"))
    right = rule("right", "Relu(Relu(x))", "Relu(x)", family="right")
    cheaper = rule("wrong", "Sigmoid(Relu(x))", "Neg(x)", family="wrong")
    result = tools.optimize(model, rules=(right, cheaper) if wrong else (right,), target="analytic")
    assert [n.op_type for n in result.model.graph.node] == ["Relu", "Sigmoid", "Relu"]
    assert (len(result.report.candidates) > 1) == wrong


@pytest.mark.usefixtures("no_gates")
def test_exit_5_and_the_original_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tools: Any
) -> None:
    model = tools.parse(MODELS["dropped operator"])
    (tmp_path / "in.onnx").write_bytes(model.SerializeToString())
    monkeypatch.setattr(pipeline, "all_rules", lambda _: (WRONG["dropped operator"],))
    arguments = ["optimize", "in.onnx", "-o", "out.onnx", "--target", "analytic", "--json", "r.json"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["egraph-opt", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 5
    assert "wrong" in (tmp_path / "r.json").read_text()
    assert "rejected" in capsys.readouterr().out
    written = onnx.load(str(tmp_path / "out.onnx"))
    assert [n.op_type for n in written.graph.node] == ["Relu", "Sigmoid", "Relu"]
    assert (tmp_path / "in.onnx").read_bytes() == model.SerializeToString()


@pytest.mark.parametrize("name", WRONG)
def test_the_gates_refuse_it_first(name: str, tools: Any) -> None:
    with pytest.raises(UnsoundRuleError, match="rule wrong is refused"):
        tools.optimize(tools.parse(MODELS[name]), rules=(WRONG[name],))
