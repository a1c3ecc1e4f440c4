"""The report of a run: numbers for programs and a page for people, all from the records."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest

from egraph_opt.errors import UsageError
from egraph_opt.zoo import Journal, Outcome, Record, enter_round, latest, regressions, summarize, write_report
from egraph_opt.zoo.summary import earlier
from tests.zoo.conftest import Run

FACTS = {"nodes": 5, "operators": {"Relu": 4, "Exp": 1}, "parameters": 7, "weight_bytes": 28, "opset": 17}
REPORT: dict[str, Any] = {
    "before": FACTS,
    "after": {**FACTS, "nodes": 2, "operators": {"Relu": 1, "Exp": 1}},
    "seconds": {"saturate": 1.0, "extract": 0.5, "total": 2.0},
    "understood": 0.8,
    "opaque": {"Loop": 1},
    "estimated_before": 3e-6,
    "estimated_after": 2e-6,
    "candidates": [{"name": "cheapest", "estimated": 2e-6, "nodes": 2, "ratio": None, "verdict": "equivalent"}],
    "chosen": "cheapest",
    "rules": {"relu-relu": 3, "add-commutes": 2},
    "notes": ["a <note> & more"],
}
NASTY = "sub/<b>&'\"ü#?%.onnx"


def record(name: str, outcome: Outcome, **changes: Any) -> Record:
    return replace(
        Record(name, "d" * 64, "c", 1, outcome, "a <reason>", "now", seconds=4.0, peak_memory=10**8, report=REPORT),
        **changes,
    )


RECORDS = [
    record("a.onnx", Outcome.OPTIMIZED, output="models/x/model.onnx"),
    record("b.onnx", Outcome.OPTIMIZED, output="m", report={**REPORT, "speedup": 2.0, "control_spread": 0.02}),
    record(NASTY, Outcome.UNCHANGED, report={**REPORT, "after": FACTS}),
    record("d.onnx", Outcome.CRASHED, report={}, log="Fatal <error>"),
]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A run with records, and its report."""
    with Journal(tmp_path / "run") as journal:
        enter_round(journal, tmp_path, {"target": "analytic", "measure": False, "only_rules": ["a", "b"]})
        journal.append(record("a.onnx", Outcome.TIMEOUT))
        for one in RECORDS:
            journal.append(one)
    write_report([tmp_path / "run"], tmp_path / "run")
    return tmp_path / "run"


class Page(HTMLParser):
    """Ids, targets of links, text, and whether every tag is closed."""

    VOID = ("meta", "br", "link", "path", "use", "rect")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.ids += [named["id"] or ""] if "id" in named else []
        self.links += [named["href"] or ""] if tag == "a" else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_is_whole_and_needs_nothing_else(made: Path) -> None:
    text = (made / "report.html").read_text()
    page = Page(text)
    assert page.open == []
    assert not re.search(r"""(src|href)=["'](https?:)?//""", re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL))
    assert "@import" not in text
    for link in page.links:
        if link.startswith("#") and link != "#":
            assert unquote(link[1:]) in page.ids
    for one in RECORDS:
        assert f"model:{one.model}" in page.ids
    for words in ("a <reason>", "Fatal <error>", "a <note> & more", "relu-relu", "1.50 × est.", "2.00 ×"):
        assert words in page.text
    assert "<reason>" not in text


def test_page_names_the_same_again(made: Path) -> None:
    assert "a.onnx --target analytic --only-rules a,b --no-measure" in Page((made / "report.html").read_text()).text


def test_table_has_every_model_once(made: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((made / "results.csv").read_text())))
    assert {row["model"]: row["outcome"] for row in rows} == {r.model: str(r.outcome) for r in RECORDS}
    by_name = {row["model"]: row for row in rows}
    assert (by_name["a.onnx"]["speed"], float(by_name["a.onnx"]["speedup"])) == ("estimated", 1.5)
    assert (by_name["b.onnx"]["speed"], float(by_name["b.onnx"]["speedup"])) == ("measured", 2.0)
    assert by_name["d.onnx"]["speedup"] == by_name["d.onnx"]["nodes_before"] == ""
    assert by_name["a.onnx"]["nodes_before"] == "5"


def test_means_count_unchanged_models_as_one() -> None:
    found = summarize(RECORDS)
    assert found["speedup_changed"] == pytest.approx(math.sqrt(3))
    assert found["speedup_all"] == pytest.approx(3 ** (1 / 3))
    assert found["failed"] == 1
    assert found["outcomes"][Outcome.OPTIMIZED] == 2
    assert summarize([])["speedup_all"] is None
    json.dumps(found)


def test_shards_make_one_report(tmp_path: Path) -> None:
    for number, one in enumerate(RECORDS):
        with Journal(tmp_path / str(number)) as journal:
            enter_round(journal, tmp_path, {})
            journal.append(one)
    write_report([tmp_path / str(n) for n in range(4)], tmp_path / "all")
    rows = list(csv.DictReader((tmp_path / "all" / "results.csv").open()))
    assert len(rows) == 4
    assert "../0/models/x/model.onnx" in Page((tmp_path / "all" / "report.html").read_text()).links


def test_report_of_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        write_report([tmp_path], tmp_path)


def measured(ratio: float, spread: float = 0.02) -> Record:
    return record("m", Outcome.OPTIMIZED, report={**REPORT, "speedup": ratio, "control_spread": spread})


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        (record("m", Outcome.OPTIMIZED), record("m", Outcome.UNCHANGED), "was optimized, is unchanged"),
        (record("m", Outcome.UNCHANGED), record("m", Outcome.CRASHED), "is crashed"),
        (record("m", Outcome.UNCHANGED), record("m", Outcome.UNSUPPORTED), "is unsupported"),
        (record("m", Outcome.CRASHED), record("m", Outcome.TIMEOUT), ""),
        (record("m", Outcome.UNCHANGED), record("m", Outcome.OPTIMIZED), ""),
        (measured(1.5), measured(1.3), "was 1.500 x as fast as the original, is 1.300 x"),
        (measured(1.5), measured(1.45), ""),
        (measured(1.5, 0.2), measured(1.3), ""),
        (measured(1.5), record("m", Outcome.OPTIMIZED), ""),
    ],
)
def test_regressions(before: Record, now: Record, worse: str) -> None:
    found = regressions({"m": now, "new": now}, {"m": before, "gone": before})
    assert list(found) == (["m"] if worse else [])
    assert worse in found.get("m", "")


def test_earlier_is_the_record_before_the_last() -> None:
    old, new = record("m", Outcome.UNCHANGED), record("m", Outcome.CRASHED)
    assert earlier([old, new, record("n", Outcome.CRASHED)]) == {"m": old}
    assert latest([old, new])["m"] is new


def test_report_of_a_real_run(tmp_path: Path, folder: Path, jobs: ModuleType, run: Run) -> None:
    run(folder, jobs.copy)
    written = write_report([tmp_path / "run"], tmp_path / "run")
    assert [path.name for path in written] == ["results.csv", "report.html"]
    page = Page(written[1].read_text())
    outputs = [link for link in page.links if link.startswith("models/")]
    assert len(outputs) == 4
    assert all((tmp_path / "run" / link).is_file() for link in outputs)
