"""Cost models from files: what they say counts, and what is wrong with them is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from egraph_opt.errors import UsageError
from egraph_opt.ir import TensorType
from egraph_opt.runtime import CostModel, Signature, get_cost_model
from egraph_opt.runtime.user import load_cost_model

X = TensorType("float32", (4, 8))
RELU, EXP = (Signature(op, (), (X,), (False,)) for op in ("Relu", "Exp"))
INPUT = Signature("Input", ("x",), (), ())
PYTHON = """
from dataclasses import dataclass
from egraph_opt.runtime.costs import Cost, Quote

@dataclass(frozen=True)
class Mine:
    name = "mine"
    description = "mine"
    threads: int = 1

    def price(self, signatures, *, reference=(), on_progress=None, deadline=None):
        return [Cost({body}, 0, 0, 0.0, "model") for s in signatures]

    def quote(self, signatures, *, reference=()):
        return [Quote.known(s, c) for s, c in zip(signatures, self.price(signatures))]
"""


def load(tmp_path: Path, name: str, text: str, **options: Any) -> CostModel:
    (tmp_path / name).write_text(text)
    return load_cost_model(tmp_path / name, "analytic", get_cost_model, **options)


@pytest.mark.parametrize("name", ["prices.toml", "prices.json"])
def test_a_table_over_another_model(tmp_path: Path, name: str) -> None:
    text = {
        "prices.toml": "[seconds]\nRelu = 0.5\n[factors]\nExp = 10\n",
        "prices.json": '{"seconds": {"Relu": 0.5}, "factors": {"Exp": 10}}',
    }[name]
    model, base = load(tmp_path, name, text), get_cost_model("analytic")
    relu, exp, leaf = model.price([RELU, EXP, INPUT])
    assert relu.seconds == 0.5
    assert exp.seconds == pytest.approx(10 * base.price([EXP])[0].seconds)
    assert leaf.seconds == 0
    assert [q.cost for q in model.quote([EXP, RELU])] == [exp, relu]


def test_one_signature_as_costs_show_prints_it(tmp_path: Path) -> None:
    model = load(tmp_path, "p.toml", f"[seconds]\n'{RELU.key}' = 7\n")
    other = Signature("Relu", (), (TensorType("float32", (1,)),), (False,))
    assert [c.seconds for c in model.price([RELU, other])] == [7, get_cost_model("analytic").price([other])[0].seconds]


def test_another_base(tmp_path: Path) -> None:
    model = load(tmp_path, "p.toml", 'base = "analytic:h100"\n')
    assert model.price([EXP]) == get_cost_model("analytic:h100").price([EXP])


def test_a_python_file(tmp_path: Path) -> None:
    model = load(tmp_path, "mine.py", PYTHON.replace("{body}", "2.0 * self.threads"), threads=3, fast=True)
    assert [c.seconds for c in model.price([RELU, EXP])] == [6.0, 6.0]
    assert model.quote([RELU])[0].cost == model.price([RELU])[0]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.toml", "[seconds]\nRelo = 1\n", "no operator Relo; did you mean Relu?"),
        ("p.toml", "[seconds]\nQuux = 1\n", "no operator Quux"),
        ("p.toml", "[seconds]\nRelu = -1\n", "seconds of Relu must be a number from 0 up"),
        ("p.toml", "[seconds]\nRelu = nan\n", "seconds of Relu must be a number from 0 up"),
        ("p.toml", "[seconds]\nRelu = true\n", "seconds of Relu must be a number from 0 up"),
        ("p.toml", "[costs]\nRelu = 1\n", "base, seconds and factors, not costs"),
        ("p.toml", "seconds = 3\n", "seconds maps operators to numbers"),
        ("p.toml", "base = 3\n", "base is the name of a target"),
        ("p.toml", 'base = "gpu"\n', "unknown target"),
        ("p.toml", "[seconds\n", "no table of prices"),
        ("p.json", "[]", "not a list"),
        ("p.txt", "", "write prices.toml, prices.json or a Python file"),
        ("p.py", "x = 1\n", "it has none"),
        ("p.py", "def (\n", "SyntaxError"),
        ("p.py", "import no_such_module\n", "no_such_module"),
        ("p.py", PYTHON.replace("{body}", "1") + PYTHON.replace("{body}", "1").replace("Mine", "Two"), "Mine, Two"),
    ],
)
def test_what_is_no_cost_model(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        load(tmp_path, name, text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("body", "words"), [("-1.0", "no Cost from 0 up"), ("1 / 0", "Mine failed: ZeroDivisionError")]
)
def test_prices_that_are_none(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(UsageError, match=r"mine\.py") as error:
        load(tmp_path, "mine.py", PYTHON.replace("{body}", body)).price([RELU])
    assert words in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        load_cost_model(tmp_path / "nothing.toml", "analytic", get_cost_model)
