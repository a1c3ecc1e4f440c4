"""The examples of CONTRIBUTING.md are code that works."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egraph_opt.egraph import EGraph
from egraph_opt.extraction import Status, extract
from egraph_opt.ir import TensorType
from egraph_opt.ops import Operator
from egraph_opt.rewrites.rule import Rule
from egraph_opt.runtime import Signature
from egraph_opt.terms.gates import check_equation

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
EXAMPLES = {
    code.split("\n", 1)[0].removeprefix("# "): code for code in re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Runs the example for a file and returns its names."""

    def run(path: str) -> dict[str, Any]:
        module = types.ModuleType("example")
        monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look there
        exec(compile(EXAMPLES[path], path, "exec"), vars(module))
        return vars(module)

    return run


def test_operator(run: Callable[[str], Any]) -> None:
    declared: Operator = run("egraph_opt/ops/defs/is_nan.py")["OPERATORS"][0]
    sample = declared.complete(np.random.default_rng(0), [], [None])
    assert sample is not None
    assert declared.infer(sample.attrs, sample.types) == TensorType("bool", sample.types[0].shape)
    result = declared.evaluate((), [np.array([1.0, np.nan])])
    assert np.array_equal(result, [False, True])


def test_rule(run: Callable[[str], Any]) -> None:
    rules: tuple[Rule, ...] = run("egraph_opt/rewrites/laws/signs.py")["RULES"]
    verdict = check_equation(rules[0])
    assert verdict.passed, verdict.reason


def test_extractor(run: Callable[[str], Any]) -> None:
    egraph = EGraph.build([("dear", 0, ()), ("cheap", 0, (1,)), ("leaf", 1, ())], roots=[0], class_count=2)
    strategy = run("egraph_opt/extraction/shared_greedy.py")["SharedGreedy"]()
    found = extract(egraph, np.array([5.0, 1.0, 1.0]), extractor=strategy)
    assert (found.cost, found.status, found.extractor) == (2.0, Status.OPTIMAL, "shared-greedy")


def test_cost_model(run: Callable[[str], Any]) -> None:
    model = run("egraph_opt/runtime/traffic.py")["Traffic"](bandwidth=1e9)
    (cost,) = model.price([Signature("Relu", (), (TensorType("float32", (250,)),), (False,))])
    assert cost.seconds == pytest.approx(2e-6)
