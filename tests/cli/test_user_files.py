"""``--rules`` and ``--cost-model`` in the commands that take them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from egraph_opt import Options, UsageError, optimize
from egraph_opt.rewrites import user, validation
from egraph_opt.rewrites.library import GENERATED
from egraph_opt.rewrites.user import RefusedRulesError, read_user_rules

QUICK = ("--target", "analytic", "--no-measure", "-q")
REST = {"when": [], "dtypes": "float", "status": "unproved", "float_class": "exact", "family": "mine", "source": "here"}
GOOD = {"name": "mine", "lhs": ["Abs(Exp(x))"], "rhs": ["Exp(x)"], **REST, "needs_order": True}
BAD = {"name": "bad", "lhs": ["Sub(x, y)"], "rhs": ["Sub(y, x)"], **REST}
WORSE = {"name": "worse", "lhs": ["Sigmoid(x)"], "rhs": ["x"], **REST}
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Exp(x) b = Abs(a) y = Neg(b) }"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EGRAPH_OPT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def abs_of_exp(tmp_path: Path) -> Path:
    path = tmp_path / "abs.onnx"
    path.write_bytes(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {TEXT}').SerializeToString())
    return path


def write(path: Path, *rules: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    return path


def operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(str(path)).graph.node]


def test_optimize_with_a_rule_of_ones_own(cli: Callable[..., Any], abs_of_exp: Path, tmp_path: Path) -> None:
    rules, out = write(tmp_path / "mine.jsonl", GOOD), tmp_path / "out.onnx"
    assert cli("optimize", abs_of_exp, "-o", out, *QUICK).code == 0
    assert "Abs" in operators(out)
    done = cli("optimize", abs_of_exp, "-o", out, "--rules", rules, *QUICK)
    assert done.code == 0, done.err
    assert operators(out) == ["Exp", "Neg"]
    again = cli("optimize", abs_of_exp, "--rules", rules, "--skip-rules", "mine", "--json", "-", *QUICK)
    assert json.loads(again.out)["outcome"] == "unchanged"


def test_wrong_rules_are_all_named_with_their_shapes(cli: Callable[..., Any], abs_of_exp: Path, tmp_path: Path) -> None:
    done = cli("optimize", abs_of_exp, "--rules", write(tmp_path / "r.jsonl", BAD, GOOD, WORSE), *QUICK)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert "2 of 3 rules of" in done.err
    lines = {line.split(":")[0].strip(): line for line in done.err.splitlines()}
    assert "x: float64[" in lines["bad"]
    assert "y: float64[" in lines["bad"]
    assert "x: float64[" in lines["worse"]
    assert "mine" not in lines


def test_rules_are_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    path = write(tmp_path / "r.jsonl", GOOD)
    (first,) = read_user_rules([path])
    assert len(list((own_cache / "rules").glob("*.json"))) == 1
    monkeypatch.setattr(validation, "check_equation", None)  # would fail if it was called
    assert read_user_rules([path]) == (first,)
    write(path, {**GOOD, "float_class": "reassociate"})
    with pytest.raises(TypeError):
        read_user_rules([path])


def test_refused_rules_stay_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", BAD)
    for _ in range(2):
        with pytest.raises(RefusedRulesError, match="bad: "):
            read_user_rules([path])
        with pytest.raises(UsageError):
            Options(rule_files=[path]).check()


def test_a_rule_that_needs_to_say_why_it_holds_is_told_how(tmp_path: Path) -> None:
    with pytest.raises(RefusedRulesError, match='"needs_order": true'):
        read_user_rules([write(tmp_path / "a.jsonl", {**GOOD, "needs_order": False})])
    with pytest.raises(RefusedRulesError) as error:
        read_user_rules([write(tmp_path / "b.jsonl", BAD)])
    assert "needs_order" not in str(error.value)


def test_names(tmp_path: Path) -> None:
    assert user.read_user_rules([GENERATED]) == ()  # they ship already
    with pytest.raises(UsageError, match="mul-one has the name of a rule that ships"):
        read_user_rules([write(tmp_path / "a.jsonl", {**GOOD, "name": "mul-one"})])
    with pytest.raises(UsageError, match="mine has the name of another one"):
        read_user_rules([write(tmp_path / "b.jsonl", GOOD, {**GOOD, "lhs": ["Abs(Abs(x))"], "rhs": ["Abs(x)"]})])
    with pytest.raises(UsageError, match="cannot read"):
        read_user_rules([tmp_path / "nothing.jsonl"])


def test_no_file_may_say_proved(tmp_path: Path) -> None:
    (rule,) = read_user_rules([write(tmp_path / "r.jsonl", {**GOOD, "status": "proved"})])
    assert validation.effective_status(rule) == "unproved"


def test_verify_by_rules_of_ones_own(cli: Callable[..., Any], abs_of_exp: Path, tmp_path: Path) -> None:
    rules, out = write(tmp_path / "mine.jsonl", GOOD), tmp_path / "out.onnx"
    cli("optimize", abs_of_exp, "-o", out, "--rules", rules, *QUICK)
    assert cli("verify", abs_of_exp, out, "--prove").code == 1
    done = cli("verify", abs_of_exp, out, "--prove", "--rules", rules)
    assert done.code == 0, done.out
    assert "mine (unproved)" in done.out


def test_compare_and_zoo_take_them(cli: Callable[..., Any], abs_of_exp: Path, tmp_path: Path) -> None:
    rules = write(tmp_path / "mine.jsonl", GOOD)
    prices = tmp_path / "prices.toml"
    prices.write_text("[seconds]\nAbs = 1.0\nExp = 2.0\nNeg = 4.0\n")
    own = ("--rules", rules, "--cost-model", prices, "--target", "analytic")
    done = cli("compare", abs_of_exp, *own, "--extractors", "ilp", "--no-measure", "-q", "--json", "-")
    assert [row["cost"] for row in json.loads(done.out)["rows"]] == [pytest.approx(6.0)]
    (tmp_path / "zoo").mkdir()
    abs_of_exp.rename(tmp_path / "zoo" / "abs.onnx")
    run = tmp_path / "run"
    done = cli("zoo", tmp_path / "zoo", "--out", run, *own, "--no-measure", "--progress", "none", "--json", "-")
    assert json.loads(done.out)["outcomes"]["optimized"] == 1, done.err
    write(rules, {**GOOD, "family": "other"}, {**GOOD, "name": "more", "lhs": ["Abs(Abs(x))"], "rhs": ["Abs(x)"]})
    cli("zoo", tmp_path / "zoo", "--out", run, "--resume").complains(2, "the rules", "--rerun")
    write(rules, BAD)
    assert cli("zoo", tmp_path / "zoo", "--out", tmp_path / "other", *own).code == 2


def test_prices_of_ones_own_decide(tmp_path: Path) -> None:
    text = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) y = Relu(a) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    path = tmp_path / "prices.json"
    path.write_text('{"seconds": {"Relu": 1.0, "Max": 1e-3}}')
    made = optimize(model, target="analytic", measure=False, cost_model=path)
    assert [node.op_type for node in made.model.graph.node] == ["Max"]  # type: ignore[union-attr]
    assert made.report.estimated_before == pytest.approx(2.0)
    assert made.report.estimated_after == pytest.approx(1e-3)
