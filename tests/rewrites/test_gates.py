"""Every rule that ships passes its gates; broken ones are refused with a counterexample that names the shapes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from egraph_opt.errors import UnsoundRuleError, UsageError
from egraph_opt.rewrites import LEVELS, Rule, rule
from egraph_opt.rewrites.library import all_rules, select_rules
from egraph_opt.rewrites.validation import RECORDS, admit, fingerprint, recorded
from egraph_opt.terms.expressions import ExpressionError, Undefined, compile_expression, evaluate
from egraph_opt.terms.gates import check_equation, holds, least_class, numeric, parts
from egraph_opt.terms.pattern import PatternError, parse
from egraph_opt.terms.program import Program
from egraph_opt.terms.sampling import draw

RULES = {r.name: r for r in all_rules("thorough")}
CONV = "Conv(x, w, **c)"


@pytest.mark.parametrize("name", RULES)
def test_every_rule_passes(name: str) -> None:
    verdict = check_equation(RULES[name], seed=1, cases=8)
    assert verdict.passed, verdict.reason
    assert verdict.cases > 2


@pytest.mark.parametrize("name", list(RULES)[::25])
def test_where_one_input_changes_only_what_reads_it_is_computed_again(name: str) -> None:
    rng = np.random.default_rng(0)
    case = draw(RULES[name], rng)
    assert case is not None
    bound = Program(RULES[name]).bind(case)
    plain, other = ({n: rng.random(t.numbers()) for n, t in case.tensors.items()} for _ in range(2))
    before = bound.run(plain, numeric, np.float64)
    for tensor in plain:
        wanted = bound.run({**plain, tensor: other[tensor]}, numeric, np.float64)
        again = bound.rerun(before, tensor, other[tensor], numeric, np.float64)
        for a, b in zip(wanted, again, strict=True):
            assert all(np.array_equal(x, y, equal_nan=True) for x, y in zip(parts(a), parts(b), strict=True))


def test_every_rule_has_an_up_to_date_record() -> None:
    missing = [name for name, r in RULES.items() if recorded(r) is None]
    assert not missing, f"run the gates again ({RECORDS.name}): {missing}"
    for r in RULES.values():
        record = recorded(r)
        assert record is not None
        assert record.passed
        assert record.rule == r.name


def test_a_changed_rule_has_no_record() -> None:
    r = RULES["conv-scale"]
    for changed in (
        dataclasses.replace(r, when=r.when[:-1]),
        dataclasses.replace(r, float_class="exact"),
        dataclasses.replace(r, dtypes="any"),
        dataclasses.replace(r, rhs=(parse(CONV),)),
    ):
        assert fingerprint(changed) != fingerprint(r)
        assert recorded(changed) is None


# --- broken rules

BROKEN: dict[str, Rule] = {
    "wrong axis of a split": rule(
        "broken",
        "Get(Split(Concat(x0, x1, axis=a), axis=b, sizes=s), index=0)",
        "x0",
        "s == (size(x0, a), size(x1, a))",
        float_class="exact",
    ),
    "wrong axis of a scale": rule(
        "broken",
        "Mul(Conv(x, w, **c), s)",
        "Conv(x, Mul(w, Reshape(s, shape=column(along(s, out, 2), rank(w)))), **c)",
        "const(w)",
        "const(s)",
        "size(out, 2) == size(w, 0)",
        float_class="overflow-risk",
    ),
    "wrong permutation": rule(
        "broken", "Transpose(Transpose(x, perm=p), perm=q)", "Transpose(x, perm=compose(q, p))", float_class="exact"
    ),
    "missing group condition": rule(
        "broken",
        ("Conv(x, w1, **c)", "Conv(x, w2, **c)"),
        (
            "Get(Split(Conv(x, Concat(w1, w2, axis=0), **c), axis=1, sizes=(size(w1, 0), size(w2, 0))), index=0)",
            "Get(Split(Conv(x, Concat(w1, w2, axis=0), **c), axis=1, sizes=(size(w1, 0), size(w2, 0))), index=1)",
        ),
        "shape(w1)[1:] == shape(w2)[1:]",
    ),
    "missing padding condition": rule(
        "broken",
        "Conv(Add(x, s), w, **c)",
        "Conv(x, w, Reshape(ReduceSum(Mul(Reshape(w, shape=(c_group, size(w, 0) // c_group) + shape(w)[1:]),"
        " Reshape(s, shape=per_group(s, x, c_group))), axes=range(2, rank(w) + 1), keepdims=0),"
        " shape=(size(w, 0),)), **c)",
        "fits(s, x)",
        "const(w)",
        "const(s)",
        float_class="overflow-risk",
    ),
    "missing broadcast condition": rule("broken", "Add(x, 0)", "x"),
    "missing shape condition of a sum": rule(
        "broken", "Add(MatMul(x, y), MatMul(x, z))", "MatMul(x, Add(y, z))", float_class="overflow-risk"
    ),
    "too good a float class, rounding": rule("broken", "Add(Add(x, y), z)", "Add(x, Add(y, z))", float_class="exact"),
    "too good a float class, overflow": rule(
        "broken", "Mul(Mul(x, y), z)", "Mul(x, Mul(y, z))", float_class="reassociate"
    ),
    "too good a float class, infinities": rule("broken", "Sub(x, x)", "Mul(x, 0)", float_class="exact"),
    "wrong dtype": rule("broken", "Cast(x, to=t)", "x", dtypes="any", float_class="exact"),
    "wrong number": rule("broken", "Mul(x, 2)", "Add(x, Mul(x, 0.999))", "shape(out) == shape(x)"),
    "wrong number, in the last bits of a float32": rule(
        "broken", "Mul(x, 2)", "Add(x, Mul(x, 1.000001))", "shape(out) == shape(x)"
    ),
    "not commutative": rule("broken", "Sub(x, y)", "Sub(y, x)", float_class="exact"),
    "matrix product the wrong way": rule("broken", "MatMul(x, y)", "MatMul(y, x)", float_class="reassociate"),
    "not monotone": rule("broken", "MaxPool(Neg(x), **p)", "Neg(MaxPool(x, **p))", "max(p_pads) == 0"),
    "not homogeneous": rule("broken", "Sigmoid(Mul(x, a))", "Mul(Sigmoid(x), a)"),
    "never applies": rule("broken", "Relu(x)", "Relu(Relu(x))", "rank(x) == 99"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_refused(name: str) -> None:
    verdict = check_equation(BROKEN[name], cases=40)
    assert not verdict.passed
    assert verdict.reason
    if name != "never applies":
        assert "[" in verdict.reason, f"the counterexample names no shape: {verdict.reason}"
        assert any(f"{tensor}: float" in verdict.reason for tensor in BROKEN[name].tensors), verdict.reason
    with pytest.raises(UnsoundRuleError, match="rule broken is refused"):
        admit([BROKEN[name]])


@pytest.mark.parametrize("name", [n for n in BROKEN if not n.startswith("too good a float class")])
def test_a_broken_rule_does_not_hold(name: str) -> None:
    assert not holds(BROKEN[name], cases=120)


@pytest.mark.parametrize("name", list(RULES)[::25])
def test_a_rule_holds_whatever_its_float_class(name: str) -> None:
    assert holds(dataclasses.replace(RULES[name], float_class="exact"), seed=2, cases=8)


def test_the_same_seed_finds_the_same() -> None:
    for r in (*BROKEN.values(), RULES["conv-scale"]):
        assert check_equation(r, cases=6, seed=3) == check_equation(r, cases=6, seed=3)


# --- the grammar of conditions

OUTSIDE = [
    "x.dtype", "().__class__", "''.join", "(lambda: 1)()", "lambda: 1", "open('f')", "eval('1')", "__import__('os')",
    "[1 for i in (1, 2)]", "{1: 2}", "[1, 2]", "{1, 2}", "f'{x}'", "(y := 1)", "print(1)", "size.__globals__",
    "yield", "1 +",
    "a = 1", "import os", "size(*x)", "x @ y", "1 if", "getattr(x, 'y')", "(size)(x, 1)(2)",
]  # fmt: skip


@pytest.mark.parametrize("text", OUTSIDE)
def test_outside_the_grammar(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(text)
    with pytest.raises((ExpressionError, PatternError)):
        rule("bad", "Transpose(x, perm=p)", "x", text)


@pytest.mark.parametrize("text", ["2 ** 99 ** 99", "1 << 99", "1 / 2", "~1"])
def test_no_way_around_the_grammar(text: str) -> None:
    with pytest.raises((ExpressionError, Undefined, PatternError)):
        evaluate(text, {"p": (1,)})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("p[0] + 1", 2),
        ("length(p) == 2", True),
        ("p[1:] + (3,)", (0, 3)),
        ("min(p)", 0),
        ("1 in p", True),
        ("-p[0] // 2", -1),
    ],
)
def test_inside_the_grammar(text: str, value: object) -> None:
    assert evaluate(text, {"p": (1, 0)}) == value


@pytest.mark.parametrize("text", ["p[9]", "p[0] // p[1]", "length(1)", "p + 1"])
def test_undefined(text: str) -> None:
    with pytest.raises(Undefined):
        evaluate(text, {"p": (1, 0)})


@pytest.mark.parametrize(
    ("left", "right", "when"),
    [
        ("x", "x", ()),
        ("Relu(x)", "y", ()),
        ("Relu(x)", "Nothing(x)", ()),
        ("Relu(x, y=1)", "x", ()),
        ("Transpose(x, perm=p + (1,))", "x", ()),
        ("Transpose(x, perm=p)", "Transpose(x, perm=q)", ()),
        ("Relu(x)", "x", ("rank(y) == 1",)),
        ("Relu(x)", "x", ("const(y)",)),
        ("Relu(x)", "x", ("rank(x) and __builtins__",)),
        ("Relu(x)", "x", ("nothing",)),
        ("Relu(x", "x", ()),
        ("Relu('x')", "x", ()),
    ],
)
def test_what_is_no_rule(left: str, right: str, when: tuple[str, ...]) -> None:
    with pytest.raises(PatternError):
        rule("bad", left, right, *when)


# --- which rules load


def test_levels_nest() -> None:
    every = all_rules()
    exact, standard, fast = (set(select_rules(every, level)) for level in ("exact", "standard", "fast"))
    assert exact < standard <= fast == set(every)
    assert {r.float_class for r in exact} == {"exact"} == LEVELS["exact"]


def test_a_name_is_a_rule_or_a_family() -> None:
    families = {r.family for r in RULES.values()}
    assert [r.name for r in RULES.values() if r.name in families and r.family != r.name] == []


def test_skip_and_only() -> None:
    every = all_rules()
    family = RULES["conv-scale"].family
    assert {r.family for r in select_rules(every, only=[family])} == {family}
    assert family not in {r.family for r in select_rules(every, skip=[family])}
    assert [r.name for r in select_rules(every, only=["conv-scale"])] == ["conv-scale"]
    assert select_rules(every, only=[family], skip=[family]) == ()
    with pytest.raises(UsageError, match="no-such-rule"):
        select_rules(every, skip=["no-such-rule"])


@pytest.mark.parametrize(
    ("lhs", "rhs", "least"),
    [
        ("MatMul(Transpose(x, perm=(1, 0)), Transpose(y, perm=(1, 0)))", "Transpose(MatMul(y, x), perm=(1, 0))", False),
        ("Concat(MatMul(x, w), MatMul(y, w), axis=0)", "MatMul(Concat(x, y, axis=0), w)", False),
        ("Relu(MatMul(x, w))", "MatMul(x, w)", True),
        ("ReduceSum(Neg(Neg(x)), axes=a, keepdims=k)", "ReduceSum(x, axes=a, keepdims=k)", False),
        ("Transpose(Transpose(x, perm=p), perm=q)", "Transpose(x, perm=compose(p, q))", True),
        ("Transpose(Max(x, y), perm=p)", "Max(Transpose(x, perm=p), Transpose(y, perm=p))", False),
        ("Softplus(Reshape(x, shape=s))", "Reshape(Softplus(x), shape=s)", False),
        ("Relu(Softplus(x))", "Softplus(x)", True),
    ],
)
def test_sums_over_other_operands_are_never_exact(lhs: str, rhs: str, least: bool) -> None:
    """In which order a product adds up is the runtime's choice: bits that agree here may differ elsewhere. So are the
    last bits of a logarithm at the end of a row, and which of two zeros is the larger one."""
    law = rule("law", lhs, rhs, float_class="exact")
    assert (least_class(law) == "exact") == least
    if not least:
        verdict = check_equation(law)
        assert not verdict.passed
        assert "float class" in verdict.reason


def test_no_rule_that_ships_says_exact_where_sums_may_differ() -> None:
    for law in all_rules("thorough"):
        assert law.float_class != "exact" or least_class(law) == "exact", law.name


def test_signs_of_zeros_are_bits() -> None:
    """x + -x is +0, and its negation -0: seen on values that cancel."""
    verdict = check_equation(rule("law", "Add(Neg(x), Neg(y))", "Neg(Add(x, y))", float_class="exact"))
    assert not verdict.passed
    assert "reassociate" in verdict.reason
