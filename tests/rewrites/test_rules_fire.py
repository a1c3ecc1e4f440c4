"""A rule must not only be right, it must fire: from its own left side, in an e-graph with every other rule at work."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

from egraph_opt.ir import Constant, TensorGraph, TensorType
from egraph_opt.ops import numpy_dtype, operator
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.library import all_rules
from egraph_opt.saturation.engine import Engine
from egraph_opt.saturation.saturate import problem_of
from egraph_opt.terms.pattern import Number, Pattern, Var
from egraph_opt.terms.sampling import Case, attribute_values, draw

RULES = {r.name: r for r in all_rules("thorough")}
STANDARD = [r.name for r in all_rules()]
CASES = 2


class Sides:
    """Both sides of a rule, under a case, as parts of one graph whose outputs are the left side."""

    def __init__(self, rule: Rule, case: Case, rng: np.random.Generator) -> None:
        self.graph, self.case = TensorGraph(), case
        merges = len(rule.lhs) > 1  # operators that share an operand merge where the others are weights
        self.leaves = {
            name: self._constant(rng.normal(size=t.numbers()), t)
            if name in rule.constants or (merges and not name.startswith("x"))
            else self.graph.add("Input", (name,), (), t)
            for name, t in case.tensors.items()
        }
        self.left = [self._place(p) for p in rule.lhs]
        self.graph.outputs = tuple(self.left)
        self.right = [self._place(p) for p in rule.rhs]

    def _constant(self, value: object, type_: TensorType) -> int:
        array = np.asarray(value).astype(numpy_dtype(type_.dtype))
        return self.graph.constant(Constant.of(array, type_.dtype))

    def _place(self, pattern: Pattern) -> int:
        match pattern:
            case Var(name):
                return self.leaves[name]
            case Number(value):
                type_ = self.case.numbers.get(id(pattern))
                if type_ is not None:
                    return self._constant(np.full(type_.numbers(), value), type_)
                root = self.case.roots[0]
                assert isinstance(root, TensorType)
                return self.graph.add("Fill", ((), value, root.dtype), (), TensorType(root.dtype, ()))
        operands = [self._place(o) for o in pattern.operands]
        attrs = attribute_values(pattern.attrs, self.case)
        declared = operator(pattern.op)
        type_ = declared.infer(attrs, [self.graph.types[i] for i in operands])  # type: ignore[arg-type]
        return self.graph.add(pattern.op, attrs, operands, type_)


def _single(case: Case) -> Case:
    """The case in float32."""

    def convert[T](type_: T) -> T:
        if isinstance(type_, TensorType) and type_.dtype == "float64":
            return TensorType("float32", type_.shape)  # type: ignore[return-value]
        return type_

    def every[K](types: Mapping[K, TensorType]) -> dict[K, TensorType]:
        return {name: convert(t) for name, t in types.items()}

    roots = tuple(convert(t) for t in case.roots)
    attributes = {n: "float32" if v == "float64" else v for n, v in case.attributes.items()}
    return dataclasses.replace(
        case, tensors=every(case.tensors), numbers=every(case.numbers), roots=roots, attributes=attributes
    )


def _meets(sides: Sides, rules: tuple[Rule, ...], rounds: int) -> bool:
    """Whether every left side is in the class of its right side after some rounds."""
    engine = Engine(problem_of(sides.graph, rules))
    for number in range(rounds):
        engine.iterate(merge=number == 0)
        classes = engine.snapshot().node_class
        if all(classes[a] == classes[b] for a, b in zip(sides.left, sides.right, strict=True)):
            return True
    return False


def _drawn(rule: Rule, seed: int) -> tuple[Case, np.random.Generator]:
    rng = np.random.default_rng([seed, *rule.name.encode()])
    case = draw(rule, rng)
    assert case is not None
    return case, rng


@pytest.mark.parametrize("name", RULES)
def test_alone(name: str) -> None:
    rule = RULES[name]
    for seed in range(CASES):
        case, rng = _drawn(rule, seed)
        assert _meets(Sides(rule, case, rng), (rule,), 1), str(case)


@pytest.mark.parametrize("name", STANDARD)
def test_among_all_in_float32(name: str) -> None:
    rule = RULES[name]
    case, rng = _drawn(rule, 0)
    case = _single(case)
    assert _meets(Sides(rule, case, rng), all_rules(), 3), str(case)


def test_no_rule_does_not_bring_sides_together() -> None:
    """What the tests above assert is not true anyway."""
    together = [
        name for name, rule in RULES.items() if _meets(Sides(rule, *_drawn(rule, 0)), (), 1) and rule.lhs != rule.rhs
    ]
    assert len(together) < len(RULES) // 20, together
