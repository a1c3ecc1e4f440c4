"""Every axiom holds on a sample, every wrong one is refused with the shapes that show it, and a fault of an evaluator
would be seen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from egraph_opt.axioms import Axiom, all_axioms, axiom
from egraph_opt.axioms.evaluate import PRIME, Source, Terms, inverse, method, residue, resolver, values_of
from egraph_opt.axioms.space import FULL, pads
from egraph_opt.axioms.validate import validate
from egraph_opt.ir import TensorType
from egraph_opt.ops import operator
from egraph_opt.terms import Case
from egraph_opt.terms.pattern import parse

WRONG = json.loads(Path(__file__).with_name("wrong_axioms.json").read_text())
FAMILIES = sorted({a.family for a in all_axioms()})


def _named(name: str) -> Axiom:
    return next(a for a in all_axioms() if a.name == name)


def _wrong(entry: dict[str, object]) -> Axiom:
    ordered = bool(entry.get("needs_order"))
    return axiom(str(entry["name"]), str(entry["lhs"]), str(entry["rhs"]), *entry["when"], needs_order=ordered)  # type: ignore[misc]


@pytest.mark.parametrize("family", FAMILIES)
def test_axioms_hold_on_a_sample(family: str) -> None:
    reports = [validate(a, sample=6) for a in all_axioms() if a.family == family]
    assert not [(r.axiom, r.counterexample) for r in reports if not r.passed]


@pytest.mark.parametrize("entry", WRONG, ids=[e["name"] for e in WRONG])
def test_wrong_axioms_are_refused_with_their_shapes(entry: dict[str, object]) -> None:
    report = validate(_wrong(entry), sample=300)
    assert not report.passed
    assert "float64[" in report.counterexample


def test_enlarging_under_same_upper_is_wrong_for_stride_2_alone() -> None:
    entry = next(e for e in WRONG if e["name"] == "enlarge-under-same-upper")
    report = validate(_wrong({**entry, "when": [*entry["when"], "s == (1,)"]}), sample=100)
    assert report.passed, report.counterexample


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("taso-w2-groups-of-any-size", "size(y, 0) * h == size(w, 0) * g"),
        ("taso-a19-any-groups", "c_group == 1"),
        ("taso-a24-any-groups", "c_group == 1"),
    ],
)
def test_the_missing_condition_makes_them_right(name: str, condition: str) -> None:
    entry = next(e for e in WRONG if e["name"] == name)
    report = validate(_wrong({**entry, "when": [*entry["when"], condition]}), sample=60)
    assert report.passed, report.counterexample


def test_a_number_has_the_shape_that_its_place_asks_for() -> None:
    """A scalar is no kernel, so the ones of a convolution are tried in every size of kernel."""
    right = validate(_named("conv-by-ones"))
    assert right.passed
    assert right.combinations > 100
    wrong = axiom("by-ones", "Conv(x, 1, strides=s, pads=p, dilations=l, group=g)", "x", "shape(out) == shape(x)")
    assert "differ" in validate(wrong).counterexample


def test_an_axiom_that_fits_no_shapes_is_refused() -> None:
    report = validate(axiom("nothing", "Relu(x)", "x", "rank(x) == 9"))
    assert not report.passed
    assert "no shapes" in report.counterexample


@pytest.mark.parametrize(
    ("name", "broken", "words"),
    [
        ("conv-of-padded-input", "Conv", "polynomials"),
        ("averagepool-of-channels", "AveragePool", "polynomials"),
        ("maxpool-of-channels", "MaxPool", "signed"),
        ("softmax-spelled-out", "Softmax", "float64"),
    ],
)
def test_a_fault_of_an_evaluator_is_seen(name: str, broken: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = operator(broken)
    compute = declared.compute

    def faulty(attrs: tuple[object, ...], operands: list[np.ndarray]) -> np.ndarray:
        result = np.array(compute(attrs, operands))  # type: ignore[arg-type]
        result.reshape(-1)[-1:] = operands[0].reshape(-1)[:1]
        return result

    monkeypatch.setattr(declared, "compute", faulty)
    report = validate(_named(name), sample=60)
    assert not report.passed
    assert words in report.counterexample


def test_a_fault_is_seen_modulo_the_prime_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where exact polynomials are not asked (too few small shapes), the residues still see it."""
    monkeypatch.setattr("egraph_opt.axioms.validate.applies", lambda _: False)
    declared = operator("MatMul")
    compute = declared.compute
    monkeypatch.setattr(declared, "compute", lambda a, o: np.asarray(compute(a, o)) + (o[0].shape[-1] > 3))
    report = validate(_named("matmul-of-sum-right"), sample=60)
    assert "modulo a prime" in report.counterexample


def test_methods_follow_from_what_an_axiom_says() -> None:
    assert method(_named("add-commutative")) == "prime"
    assert method(_named("averagepool-is-conv")) == "prime"
    assert method(_named("maxpool-of-relu")) == "signed"
    assert method(_named("gelu-spelled-out")) == "real"


def test_parts_of_terms_are_kept_with_the_residues_that_they_were_computed_of() -> None:
    values, of = values_of("prime", Source(0))[0], resolver(parse("Div(Add(x, y), y)"), Terms())
    shapes = [(2, 3), (1, 3), (2, 3), (3,)]
    for shape in shapes:
        case = Case({"x": TensorType("float64", (2, 3)), "y": TensorType("float64", shape)})
        term = of(case, case.environment)
        x, y = (values.value(t) for t in term.operands[0].operands)
        expected = (x + y) * inverse(y) % PRIME
        assert (values.value(term) == expected).all()
        assert x.shape != y.shape or (x != y).any()


def test_residues_divide() -> None:
    x = np.array([1, 2, 3, PRIME - 1], np.int64)
    assert (x * inverse(x) % PRIME == 1).all()
    assert residue(1 / 9) * 9 % PRIME == 1
    assert residue(-0.5) * -2 % PRIME == 1


def test_pad_patterns_are_what_their_names_say() -> None:
    found = {name: pads(name, size=4, kernel=3, stride=2, dilation=1) for name in FULL.pads}
    assert found == {
        "none": (0, 0),
        "symmetric": (1, 1),
        "SAME_UPPER": (0, 1),
        "SAME_LOWER": (1, 0),
        "asymmetric": (1, 2),
        "more than half the kernel": (2, 2),
    }
