"""Rules behind a fault are found, and the pair of models shows it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx
import onnx_ir
import pytest

from egraph_opt import Options, UsageError
from egraph_opt.pipeline import run as pipeline
from egraph_opt.pipeline.bisect import Bisection, bisect
from egraph_opt.pipeline.checks import Command, Disagreement, Slower
from egraph_opt.rewrites import Rule, rule
from egraph_opt.rewrites.library import all_rules

CLS = "rapidocr_onnxruntime__ch_ppocr_mobile_v2.0_cls_infer"
QUICK: dict[str, Any] = {"target": "analytic", "extractor": "dag-greedy"}
WRONG = rule("wrong", "Sigmoid(x)", "x", family="wrong")
TWO = (
    rule("half", "Sigmoid(x)", "Tanh(x)", family="half"),
    rule("other half", "Tanh(x)", "Relu(x)", family="other half"),
)
DEEP = """g (float[2,4] x) => (float[2,4] y) {
    a = Relu(x) b = Relu(a) c = Exp(b) d = Sigmoid(c) e = Exp(d) f = Neg(e) h = Neg(f) i = Exp(h) y = Abs(i)
}"""


def found_in(model: onnx.ModelProto, rules: tuple[Rule, ...] = (), **options: Any) -> Bisection:
    chosen = Options(**{**QUICK, **options})
    return bisect(onnx_ir.from_proto(model), Disagreement(chosen), chosen, rules=rules)


@pytest.mark.usefixtures("no_gates")
def test_a_wrong_rule_among_all_is_found_with_a_part_that_shows_it(tools: Any) -> None:
    found = found_in(tools.parse(DEEP), (*all_rules(), WRONG))
    assert [r.name for r in found.rules] == ["wrong"]
    assert found.minimal
    assert "output 'y'" in found.fault
    assert found.is_part
    assert found.pair is not None
    operators = [[n.op_type for n in m.graph] for m in (found.pair.original, found.pair.faulty)]
    assert "Sigmoid" in operators[0]
    assert "Sigmoid" not in operators[1]
    assert len(operators[0]) < 9
    assert Disagreement(Options(**QUICK))(found.pair.original, found.pair.faulty) == found.pair.said != ""


@pytest.mark.usefixtures("no_gates")
def test_rules_that_are_only_wrong_together(tools: Any) -> None:
    """One of them alone is wrong as well, so the check asks for what both lead to."""
    command = f'{sys.executable} -c "import onnx,sys; ops=[n.op_type for n in onnx.load(sys.argv[1]).graph.node];'
    check = Command(command + " sys.exit(not {'Sigmoid', 'Tanh'} & set(ops))\" {model}")
    options = Options(**QUICK)
    found = bisect(onnx_ir.from_proto(tools.parse(DEEP)), check, options, rules=(*all_rules(), *TWO))
    assert {r.name for r in found.rules} == {"half", "other half"}


def test_no_fault_with_the_rules_that_ship(tools: Any) -> None:
    found = found_in(tools.parse(DEEP))
    assert (found.fault, found.rules, found.pair) == ("", (), None)


def test_a_check_that_finds_fault_with_the_original(tools: Any) -> None:
    with pytest.raises(UsageError, match=r"the original itself.*status 3: no good"):
        bisect(
            onnx_ir.from_proto(tools.parse(DEEP)),
            Command(f"{sys.executable} -c \"import sys; print('no good'); sys.exit(3)\" {{model}}"),
            Options(**QUICK),
        )


def test_a_fault_that_does_not_show_again_is_no_rule_s(tools: Any) -> None:
    """A race that is lost by chance."""
    found: list[str] = []

    def once(original: onnx_ir.Model, made: onnx_ir.Model) -> str:
        if made is original or found:
            return ""
        found.append("slower, this time")
        return found[0]

    result = bisect(onnx_ir.from_proto(tools.parse(DEEP)), once, Options(**QUICK))
    assert (result.fault, result.again, result.rules) == ("slower, this time", False, ())
    assert result.tried == 3
    assert result.pair is not None


def test_what_is_no_command() -> None:
    with pytest.raises(UsageError, match=r"write \{model\}"):
        Command("true")
    model = onnx_ir.Model(onnx_ir.Graph([], [], nodes=[], opset_imports={"": 17}), ir_version=8)
    with pytest.raises(UsageError, match="cannot run no-such-command"):
        Command("no-such-command {model}")(model, model)


def test_slower_is_told_from_the_same(tools: Any) -> None:
    fast = tools.parse("g (float[200,200] x) => (float[200,200] y) { y = Relu(x) }")
    many = " ".join(f"a{i + 1} = Erf(a{i})" for i in range(20))
    slow = tools.parse(f"g (float[200,200] x) => (float[200,200] y) {{ a0 = Relu(x) {many} y = Relu(a20) }}")
    check = Slower(Options(**QUICK))
    first, second = onnx_ir.from_proto(fast), onnx_ir.from_proto(slow)
    assert "x the speed" in check(first, second)
    assert check(second, first) == ""
    assert check(first, first) == ""


@pytest.fixture
def no_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "admit", tuple)


@pytest.mark.zoo
def test_the_rule_behind_an_operator_of_a_real_model(zoo: Path, tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text(
        "import onnx, sys\n"
        "found = [n.name for n in onnx.load(sys.argv[1]).graph.node if n.op_type == 'HardSwish']\n"
        "sys.exit(f'{len(found)} of them' if found else 0)\n"
    )
    model = onnx_ir.load(str(zoo / f"{CLS}.onnx"))
    inside = ["conv-bias-hardswish", "conv-hardswish"]  # they leave none of these operators
    options = Options(measure_shapes={"x": (1, 3, 48, 192)}, skip_rules=inside, **QUICK)
    found = bisect(model, Command(f"{sys.executable} {script} {{model}}"), options)
    assert [r.name for r in found.rules] == ["hardswish-product-divided"]
    assert found.is_part
    assert found.pair is not None
    assert sum(1 for _ in found.pair.original.graph) < 6
