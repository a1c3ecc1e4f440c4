"""Known substitutions (those of TASO and Tensat, restated with explicit sizes, pads and groups) follow from the rules
that ship: from the left side alone, on several shapes. Those known to be false are refused.

``bench/substitutions`` holds them as rules: ``known.jsonl``, of which ``missing.txt`` names those that are true and do
not follow yet; ``false.jsonl``; and ``corrected.jsonl``, the same with the condition that was forgotten.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from egraph_opt.errors import UnsoundRuleError
from egraph_opt.rewrites.artefact import read_rules
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.validation import admit
from egraph_opt.terms import check_equation, draw
from egraph_opt.terms.gates import Gate
from egraph_opt.verification.derivable import derive, least_effort

FOLDER = Path(__file__).parents[2] / "bench" / "substitutions"
KNOWN, FALSE, CORRECTED = (
    {rule.name: rule for rule in read_rules(FOLDER / f"{name}.jsonl")} for name in ("known", "false", "corrected")
)
MISSING = (FOLDER / "missing.txt").read_text().split()
NOT_YET = pytest.mark.xfail(raises=AssertionError, strict=True, reason="true, but does not follow from the rules yet")
SHAPES = 1


@pytest.mark.parametrize("name", [pytest.param(n, marks=NOT_YET) if n in MISSING else n for n in KNOWN])
def test_follows_from_the_rules(name: str) -> None:
    known = KNOWN[name]
    for seed in range(SHAPES):
        rng = np.random.default_rng([seed, *name.encode()])
        case = draw(known, rng)
        if case is None:
            pytest.fail(f"no shapes were found for {name}")
        effort, _ = least_effort(known, case, seed)
        assert effort is not None, str(case)


@pytest.mark.parametrize("name", KNOWN)
def test_is_true(name: str) -> None:
    verdict = check_equation(KNOWN[name], cases=4)
    assert verdict.passed, verdict.reason


def test_the_list_is_long_enough() -> None:
    assert len(KNOWN) >= 60
    assert set(MISSING) <= set(KNOWN)
    assert len(set(MISSING)) == len(MISSING)


def test_without_rules_hardly_anything_follows() -> None:
    """What the first test asserts is not true anyway."""
    for name in ("merge-qkv", "conv-concat", "transpose-of-product", "batchnorm-into-conv", "part-0-of-2"):
        rng = np.random.default_rng(0)
        case = draw(KNOWN[name], rng)
        assert case is not None
        assert not derive(KNOWN[name], case, (), rng).found


@pytest.mark.parametrize("name", FALSE)
def test_what_is_false_does_not_follow(name: str) -> None:
    """No chain of shipped rules leads from the left of a false substitution to its right where they differ."""
    rng = np.random.default_rng([0, *name.encode()])
    case = next(c for c in (draw(FALSE[name], rng) for _ in range(60)) if c and not Gate(FALSE[name]).holds(c, rng))
    assert not derive(FALSE[name], case, all_rules("thorough"), rng).found, str(case)


@pytest.mark.parametrize("name", FALSE)
def test_what_is_false_is_refused_with_its_shapes(name: str) -> None:
    verdict = check_equation(FALSE[name], cases=60)
    assert not verdict.passed
    for tensor in FALSE[name].tensors:
        assert f"{tensor}: float64[" in verdict.reason, verdict.reason
    with pytest.raises(UnsoundRuleError, match="is refused"):
        admit([FALSE[name]])


@pytest.mark.parametrize("name", CORRECTED)
def test_the_condition_that_was_forgotten_makes_it_true(name: str) -> None:
    verdict = check_equation(CORRECTED[name], cases=6)
    assert verdict.passed, verdict.reason


def test_the_unsound_rules_of_taso_are_all_here() -> None:
    """Rules 98 and 105, 99 and 130, 100 and 131 are the same; 125 to 129 are forms of one."""
    said = " ".join(rule.source for rule in FALSE.values())
    for numbers in ("98 and 105", "99 and 130", "100 and 131", "125-129"):
        assert f"TASO's shipped rules {numbers}" in said
    assert set(FALSE) - set(CORRECTED) == {"dropped-term", "relu-of-two-pools", "relu-is-linear"}
