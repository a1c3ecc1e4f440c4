"""A wrong rule that got past the gates is caught by verification and named; what the others gain is not lost by it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from egraph_opt import Outcome, UnsoundRuleError
from egraph_opt.cli import main
from egraph_opt.pipeline import run as pipeline
from egraph_opt.pipeline.choose import Chooser
from egraph_opt.pipeline.tries import TRIES
from egraph_opt.rewrites import rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.validation import effective_status

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
    assert "wrong results come from wrong: please report this" in result.report.notes
    assert any("tried again without wrong: " in note for note in result.report.notes), result.report.notes
    assert [refusal.left_out for refusal in result.report.refusals] == [("wrong",)]


def _plain(model: onnx.ModelProto, tools: Any) -> bytes:
    """The model after nothing was done to it."""
    return tools.optimize(model, only_rules=["cast-nothing"]).model.SerializeToString()


@pytest.mark.usefixtures("no_gates")
@pytest.mark.parametrize("name", ["dropped operator", "wrong axis"])
def test_the_gain_of_the_other_rules_is_not_lost(name: str, tools: Any) -> None:
    """What only unites classes, as the first of these does, is found as well."""
    model = tools.parse(MODELS[name].replace("y = Relu", "d = Relu").replace("}", " y = Relu(d) }"))
    result = tools.optimize(model, rules=(*all_rules(), WRONG[name]))
    right = tools.optimize(model)
    assert result.report.outcome == Outcome.OPTIMIZED, result.report.reason
    assert result.verified
    assert [n.op_type for n in result.model.graph.node] == [n.op_type for n in right.model.graph.node]
    assert len(result.model.graph.node) < len(model.graph.node)
    assert "wrong" not in result.report.rules
    assert result.report.notes[:2] == ["wrong results come from wrong: please report this", "tried again without wrong"]
    (refusal,) = result.report.refusals
    assert refusal.left_out == ("wrong",)
    assert "no candidate verified" in refusal.reason
    assert result.report.to_json()["refusals"][0]["left_out"] == ["wrong"]


LINES = {
    "Sigmoid": rule("no sigmoid", "Sigmoid(x)", "x", family="wrong 1"),
    "Tanh": rule("no tanh", "Tanh(x)", "x", family="wrong 2"),
    "Exp": rule("no exp", "Exp(x)", "x", family="wrong 3"),
    "Sin": rule("no sin", "Sin(x)", "x", family="wrong 4"),
}


@pytest.mark.usefixtures("no_gates")
@pytest.mark.parametrize("count", [2, 4])
def test_one_wrong_rule_after_the_other(count: int, tools: Any) -> None:
    """A bisection names one of those that are each wrong alone; there are so many tries, and no more."""
    body = " ".join(f"v{i + 1} = {op}(v{i})" for i, op in enumerate(list(LINES)[:count]))
    model = tools.parse(f"g (float[2,4] v0) => (float[2,4] y) {{ {body} a = Relu(v{count}) y = Relu(a) }}")
    result = tools.optimize(model, rules=(*all_rules(), *list(LINES.values())[:count]))
    out = {name for refusal in result.report.refusals for name in refusal.left_out}
    assert len(out) == len(result.report.refusals) == min(count, TRIES)
    assert out <= {law.name for law in LINES.values()}
    if count == 2:
        assert result.report.outcome == Outcome.OPTIMIZED
        assert [n.op_type for n in result.model.graph.node] == ["Sigmoid", "Tanh", "Relu"]
    else:
        assert result.report.outcome == Outcome.REJECTED
        assert [n.op_type for n in result.model.graph.node] == [n.op_type for n in model.graph.node]


@pytest.mark.usefixtures("no_gates")
def test_of_rules_that_are_wrong_together_the_proved_ones_stay(tools: Any) -> None:
    """Two negations are a proved rule, without which a wrong one does not match."""
    wrong = rule("wrong", "Sigmoid(Abs(x))", "Abs(x)", family="wrong")
    proved = next(r for r in all_rules() if r.equation == "Neg(Neg(x)) => x")
    assert effective_status(proved) == "proved"
    text = "g (float[2,4] x) => (float[2,4] y) { a = Abs(x) b = Neg(a) c = Neg(b) d = Sigmoid(c) y = Relu(d) }"
    result = tools.optimize(tools.parse(text), rules=(proved, wrong))
    assert result.report.outcome == Outcome.OPTIMIZED, result.report.reason
    assert [n.op_type for n in result.model.graph.node] == ["Abs", "Sigmoid", "Relu"]
    assert [refusal.left_out for refusal in result.report.refusals] == [("wrong",)]
    assert any(proved.name in note for note in result.report.notes)


@pytest.mark.usefixtures("no_gates")
def test_where_no_set_of_rules_shows_it_again_all_suspects_are_left_out(
    tools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Chooser, "_bisect", lambda *_: ())
    wrong = rule("wrong", "Sigmoid(Relu(x))", "Neg(x)", family="wrong")
    result = tools.optimize(tools.parse(MODELS["dropped operator"]), rules=(wrong,))
    assert result.report.outcome == Outcome.REJECTED
    (refusal,) = result.report.refusals
    assert refusal.left_out == ("wrong",)
    assert refusal.blame == "a rule that led to wrong results is among wrong: please report this"
    assert any(note.startswith("tried again without wrong: ") for note in result.report.notes), result.report.notes


@pytest.mark.usefixtures("no_gates")
def test_tries_share_the_time_limit(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that the first try has used up leaves no second one, and the report says so."""
    real = Chooser.choose

    def late(self: Chooser, entries: Any) -> Any:
        choice = real(self, entries)
        assert self.deadline is not None
        moved = self.deadline + 1
        monkeypatch.setattr(pipeline.time, "monotonic", lambda: moved)
        return choice

    monkeypatch.setattr(Chooser, "choose", late)
    result = tools.optimize(
        tools.parse(MODELS["dropped operator"]), rules=(WRONG["dropped operator"],), time_limit=30.0
    )
    monkeypatch.undo()
    assert result.report.outcome == Outcome.REJECTED
    assert not result.report.refusals
    assert any("no time was left" in note for note in result.report.notes), result.report.notes


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
