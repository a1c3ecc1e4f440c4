"""The run folder: what is written is there, what was cut off is not, and only one process writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from egraph_opt.errors import UsageError
from egraph_opt.zoo import Journal, Outcome, Record, enter_round, latest, read_records, read_rounds
from egraph_opt.zoo.journal import RESULTS, RUN

RECORDS = [Record(f"{n}.onnx", n * 4, "c", 1, Outcome.UNCHANGED, "as it was", "now", log="é\n\u2028") for n in "abc"]


def write(folder: Path, records: list[Record]) -> bytes:
    with Journal(folder) as journal:
        for record in records:
            journal.append(record)
    return (folder / RESULTS).read_bytes()


def test_records_come_back(tmp_path: Path) -> None:
    write(tmp_path, RECORDS[:1])
    write(tmp_path, RECORDS[1:])
    assert read_records(tmp_path) == RECORDS


def test_a_line_cut_off_anywhere_costs_that_record_alone(tmp_path: Path) -> None:
    whole = write(tmp_path, RECORDS)
    start = whole[:-1].rfind(b"\n") + 1
    for cut in range(start, len(whole)):
        (tmp_path / RESULTS).write_bytes(whole[:cut])
        with Journal(tmp_path) as journal:
            kept = list(journal.records)
            journal.append(RECORDS[0])
        complete = cut == len(whole) - 1  # only the end of the line is missing
        assert kept == RECORDS[: 3 if complete else 2]
        assert read_records(tmp_path) == [*kept, RECORDS[0]]


@pytest.mark.parametrize("damage", [b"\0" * 40 + b"\n", b"{}\n", b'{"model": 1\n', b"\xff\xfe\n", b"[]\n"])
def test_a_damaged_line_costs_nothing_else(tmp_path: Path, damage: bytes) -> None:
    whole = write(tmp_path, RECORDS)
    first, rest = whole.split(b"\n", 1)
    (tmp_path / RESULTS).write_bytes(first + b"\n" + damage + rest)
    with Journal(tmp_path) as journal:
        assert journal.records == RECORDS


def test_the_last_record_of_a_model_counts(tmp_path: Path) -> None:
    again = Record("a.onnx", "x", "c", 2, Outcome.CRASHED, "", "later")
    write(tmp_path, [*RECORDS, again])
    assert latest(read_records(tmp_path))["a.onnx"] == again


def test_only_one_process_works_on_a_run(tmp_path: Path) -> None:
    with Journal(tmp_path), pytest.raises(UsageError, match="another process"):
        Journal(tmp_path)
    with Journal(tmp_path):
        pass


def test_rounds_come_back(tmp_path: Path) -> None:
    given = {"target": "analytic", "skip_rules": ["relu-relu"], "time_limit": 5.0}
    with Journal(tmp_path / "run") as journal:
        enter_round(journal, tmp_path, given)
        enter_round(journal, tmp_path, {"seed": 3}, rerun="all")
        made = list(journal.rounds)
    found = read_rounds(tmp_path / "run")
    assert found == made
    assert [r.config for r in found] == [r.config for r in made]
    assert found[1].settings.target == "analytic"
    assert found[1].config != found[0].config


@pytest.mark.parametrize("text", ["", "{}", '{"format": 99, "rounds": []}', '{"format": 1, "rounds": [{}]}'])
def test_what_is_no_run_is_not_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="holds no run"):
        read_rounds(tmp_path)
    (tmp_path / RUN).write_text(text)
    with pytest.raises(UsageError, match=RUN):
        read_rounds(tmp_path)
