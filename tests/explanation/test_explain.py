"""What an explanation says of nodes whose fate is known, and that it agrees with what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx_ir
import pytest

from egraph_opt import Explanation, UsageError, explain
from egraph_opt.explanation import Fate, NodeExplanation, RuleAt, Stop
from egraph_opt.explanation.misses import Finder, Obstacle
from egraph_opt.onnx_io import import_model
from egraph_opt.pipeline import run as pipeline
from egraph_opt.rewrites import rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.saturation import fold_constants
from egraph_opt.search.match import Subject, apply, matches
from tests.explanation.conftest import QUICK

CLS = "rapidocr_onnxruntime__ch_ppocr_mobile_v2.0_cls_infer"
SHAPES = {"measure_shapes": {"x": (1, 3, 48, 192)}}


def attempt(node: NodeExplanation, name: str) -> RuleAt:
    return next(a for a in node.attempts if a.rule == name)


def test_a_rewritten_node_has_its_rules_and_both_costs(explained: Explanation) -> None:
    node = explained.node("second")
    assert node.fate is Fate.REWRITTEN
    assert node.into == ("Relu",)
    assert node.rules == ("relu-idempotent",)
    assert node.before == pytest.approx(2 * (node.after or 0))
    made = attempt(node, "relu-idempotent")
    assert (made.stop, made.float_class) == (Stop.MADE, "exact")
    assert made.equation == "Relu(Relu(x)) => Relu(x)"


def test_conditions_that_fail_show_what_they_were_asked_about(explained: Explanation) -> None:
    stopped = attempt(explained.node("turn"), "transpose-nothing")
    assert stopped.stop is Stop.CONDITION
    assert "p is (1, 0)" in stopped.reason
    assert "(0, 1)" in stopped.reason


def test_forms_that_do_not_match_name_the_node(explained: Explanation) -> None:
    stopped = [a for a in explained.node("exp").attempts if a.stop is Stop.FORM]
    assert all("turn" in a.reason for a in stopped if "would have to be" in a.reason)
    numbers = attempt(explained.node("double"), "mul-one")
    assert numbers.stop is Stop.FORM
    assert "2 where 1 is needed" in numbers.reason


def test_rules_that_fired_in_vain_have_the_cost_of_what_they_made(explained: Explanation) -> None:
    declined = [a for n in explained.nodes for a in n.attempts if a.stop is Stop.COST]
    assert any("the graph would cost" in a.reason for a in declined)
    for node in explained.nodes:
        for way in node.alternatives:
            assert way.whole is None or way.whole >= explained.after * (1 - 1e-6)
    chosen = [way for way in explained.node("exp").alternatives if way.chosen]
    assert [way.whole for way in chosen] == [pytest.approx(explained.after)]


def test_rules_that_were_not_loaded_say_what_loads_them(parsed: onnx.ModelProto) -> None:
    node = explain(parsed, nodes=["second"], numerics="exact", skip_rules=["relu-idempotent"], **QUICK).node("second")
    left_out = attempt(node, "relu-idempotent")
    assert left_out.stop is Stop.NOT_LOADED
    assert "--skip-rules" in left_out.reason
    losing = [r for r in all_rules("thorough") if r.float_class == "drops-nonfinite"]
    assert losing
    every = explain(parsed, nodes=["nothing"], **QUICK).node("nothing").attempts
    found = [a for a in every if a.rule in {r.name for r in losing} and a.stop is Stop.NOT_LOADED]
    assert found
    assert all("--numerics fast" in a.reason for a in found)


def test_what_rules_have_nothing_to_do_with(explained: Explanation) -> None:
    assert explained.node("lost").fate is Fate.UNUSED
    passed = explained.node("pass")
    assert passed.fate is Fate.READ
    assert "nothing" in passed.reason


def test_a_node_that_is_not_there(parsed: onnx.ModelProto) -> None:
    with pytest.raises(UsageError, match=r"no node seccond; there are 9, for example second"):
        explain(parsed, nodes=["seccond"], **QUICK)


def test_a_candidate_that_was_refused_is_explained_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "admit", tuple)
    wrong = rule("wrong", "Sigmoid(x)", "x", family="wrong")
    text = "g (float[2,4] x) => (float[2,4] y) { a = Relu(x) b = Sigmoid(a) y = Relu(b) }"
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> ' + text)
    found = explain(model, rules=(wrong,), **QUICK)
    assert not found.taken
    assert found.graph
    assert "no candidate verified" in found.reason
    assert found.node("b").rules == ("wrong",)


@pytest.fixture(scope="module")
def cls(zoo: Path) -> Explanation:
    return explain(zoo / f"{CLS}.onnx", **SHAPES, **QUICK)


@pytest.mark.zoo
def test_gains_of_groups_add_up_to_the_gain_of_the_whole(cls: Explanation) -> None:
    groups = {frozenset(n.group): (n.before or 0.0, n.after or 0.0) for n in cls.nodes if n.group}
    gain = sum(before - after for before, after in groups.values())
    assert gain == pytest.approx(cls.before - cls.after, rel=1e-3)


@pytest.mark.zoo
def test_every_node_has_a_fate_and_a_reason(cls: Explanation, zoo: Path) -> None:
    model = onnx.load(str(zoo / f"{CLS}.onnx"))
    assert [n.node for n in cls.nodes] == [n.name or n.output[0] for n in model.graph.node]
    assert all(n.reason for n in cls.nodes)
    fates = {n.fate for n in cls.nodes}
    assert {Fate.REWRITTEN, Fate.ABSORBED, Fate.KEPT, Fate.CONSTANT} <= fates
    assert all(n.rules for n in cls.nodes if n.fate in (Fate.REWRITTEN, Fate.ABSORBED))
    assert {"hardswish-product-divided", "conv-bias-hardswish"} <= set(cls.node("Div@0").rules)


@pytest.mark.zoo
@pytest.mark.parametrize("name", [CLS, "exp_hf_bert_tiny_d", "silero_vad__silero_vad_16k_op15"])
def test_what_stops_a_rule_agrees_with_where_rules_match(name: str, zoo: Path) -> None:
    graph = fold_constants(import_model(onnx_ir.load(str(zoo / f"{name}.onnx"))).graph)
    subject = Subject(graph)
    finder = Finder(subject, frozenset())
    obstacles: set[Obstacle] = set()
    for one in all_rules("thorough"):
        if len(one.lhs) > 1:
            continue
        roots = {m.roots[0] for m in matches(subject, one) if apply(subject, m) is not None}
        first: Any = next(iter(one.lhs))
        for index in subject.by_op.get((first.op, len(first.operands)), ())[:20]:
            miss = finder.miss(one, index)
            assert (miss.obstacle is Obstacle.NOTHING) == (index in roots), (one.name, index, miss)
            assert bool(miss.reason) == (miss.obstacle is not Obstacle.NOTHING)
            obstacles.add(miss.obstacle)
    assert obstacles >= {Obstacle.FORM, Obstacle.CONDITION, Obstacle.NOTHING}
