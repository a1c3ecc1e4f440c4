"""``rules check --file``: rules of a user's file go through the gates, and what is refused names its shapes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOOD = {"name": "good", "lhs": ["Relu(Relu(x))"], "rhs": ["Relu(x)"], "float_class": "exact"}
BAD = {"name": "bad", "lhs": ["Mul(Conv(x, w, **c), y)"], "rhs": ["Conv(x, w, **c)"], "float_class": "reassociate"}
REST = {"when": [], "dtypes": "float", "status": "definition", "family": "mine", "source": "here"}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """A file with a rule that is right and one that is not."""
    path = tmp_path / "rules.jsonl"
    path.write_text("".join(json.dumps({**rule, **REST}) + "\n" for rule in (GOOD, BAD)))
    return path


def test_a_wrong_rule_is_refused_with_its_shapes(cli: Callable[..., Any], rules: Path) -> None:
    done = cli("rules", "check", "--file", rules)
    assert done.code == 1
    assert "1 good, 1 bad" in done.out
    (line,) = (line for line in done.out.splitlines() if line.startswith("bad is refused:"))
    for tensor in ("x", "w", "y"):
        assert f"{tensor}: float64[" in line
    assert "good is refused" not in done.out


def test_a_right_rule_is_not(cli: Callable[..., Any], rules: Path) -> None:
    done = cli("rules", "check", "good", "--file", rules)
    assert done.code == 0
    assert "1 good, 0 bad" in done.out


def test_what_is_no_file_or_no_rule(cli: Callable[..., Any], rules: Path) -> None:
    cli("rules", "check", "--file", rules.with_name("nothing.jsonl")).complains(2, "nothing.jsonl")
    cli("rules", "check", "relu-relu", "--file", rules).complains(2, "there is no rule relu-relu")
    rules.write_text('{"name": "half"}\n')
    cli("rules", "check", "--file", rules).complains(2, "line 1", "is no rule")
