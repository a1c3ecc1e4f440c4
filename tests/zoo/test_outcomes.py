"""Whatever happens to a model's process, that is its outcome, and no other model's; nothing of it is left running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import onnx
import pytest

from egraph_opt.runtime import CostDatabase
from egraph_opt.zoo import Batch, Event, Journal, Outcome, Record, discover, enter_round, read_records
from egraph_opt.zoo.job import optimize_model
from tests.zoo.conftest import Run

EXPECTED = {
    "a good one": (Outcome.OPTIMIZED, "turned around"),
    "crash": (Outcome.CRASHED, "SIGSEGV"),
    "abort": (Outcome.OUT_OF_MEMORY, "needs more than 1.5 GB"),
    "exit": (Outcome.CRASHED, "exit status 7"),
    "exit with words": (Outcome.CRASHED, "exit status 8: ImportError: no module"),
    "memory": (Outcome.OUT_OF_MEMORY, "allocation failed"),
    "error": (Outcome.ERROR, "ValueError: what a library says"),
    "endless": (Outcome.TIMEOUT, "not done after 15 s: killed while in stage endless"),
    "z another good one": (Outcome.OPTIMIZED, "turned around"),
}


def is_running(number: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.05)
    return path.read_text()


def test_every_fault_has_its_outcome(tmp_path: Path, jobs: ModuleType, run: Run) -> None:
    folder = tmp_path / "zoo"
    folder.mkdir()
    for name in EXPECTED:
        (folder / f"{name}.onnx").write_bytes(name.encode())
    records = run(folder, jobs.named, {"time_limit": 15.0, "memory_limit": 1.5})
    assert list(records) == sorted(f"{name}.onnx" for name in EXPECTED)
    for name, (outcome, reason) in EXPECTED.items():
        record = records[f"{name}.onnx"]
        assert record.outcome is outcome, record
        assert reason in record.reason
        assert record.seconds > 0
        assert record.peak_memory > 10**7
        assert record.digest
        assert bool(record.output) == (outcome is Outcome.OPTIMIZED)
    assert "Segmentation fault" in records["crash.onnx"].log
    assert "Traceback" in records["error.onnx"].log
    good = tmp_path / "run" / records["a good one.onnx"].output
    assert good.read_bytes() == b"eno doog a"
    for number in (folder / "endless.pids").read_text().split():
        assert not is_running(int(number))
    assert not any((tmp_path / "run" / "work").iterdir())


def test_models_that_exhaust_and_never_end(
    tmp_path: Path, folder: Path, greedy_model: onnx.ModelProto, endless_model: onnx.ModelProto, run: Run
) -> None:
    shutil.rmtree(folder / "deep")
    (folder / "scale.onnx").unlink()
    for model in (greedy_model, endless_model):
        onnx.checker.check_model(model)
    (folder / "greedy.onnx").write_bytes(greedy_model.SerializeToString())
    (folder / "broken.onnx").write_bytes((folder / "relu.onnx").read_bytes()[:-9])
    old = onnx.load(folder / "relu.onnx")
    old.opset_import[0].version = 6
    (folder / "old.onnx").write_bytes(old.SerializeToString())
    endless = tmp_path / "endless" / "endless.onnx"
    endless.parent.mkdir()
    endless.write_bytes(endless_model.SerializeToString())
    records = run(folder, optimize_model, {"target": "analytic", "time_limit": 40.0, "memory_limit": 1.5})
    records |= run(endless.parent, optimize_model, {"target": "analytic", "time_limit": 10.0}, out="run of the endless")
    found = {name.removesuffix(".onnx"): record.outcome for name, record in records.items()}
    assert found == {
        "broken": Outcome.ERROR,
        "endless": Outcome.TIMEOUT,
        "greedy": Outcome.OUT_OF_MEMORY,
        "old": Outcome.UNSUPPORTED,
        "relu": Outcome.OPTIMIZED,
    }
    assert "opset 6" in records["old.onnx"].reason
    optimized = onnx.load(tmp_path / "run" / records["relu.onnx"].output)
    assert [node.op_type for node in optimized.graph.node] == ["Relu"]


def test_a_model_that_vanishes_is_an_error(folder: Path, jobs: ModuleType, run: Run) -> None:
    (folder / "gone.onnx").symlink_to(folder / "nowhere.onnx")
    records = run(folder, jobs.copy)
    assert records["gone.onnx"].outcome is Outcome.ERROR
    assert "No such file" in records["gone.onnx"].reason
    assert sum(r.outcome is Outcome.OPTIMIZED for r in records.values()) == 4


def test_processes_end_with_their_parent(tmp_path: Path, jobs: ModuleType) -> None:
    (tmp_path / "zoo").mkdir()
    model = tmp_path / "zoo" / "endless.onnx"
    model.write_bytes(b"x")
    code = (
        "import jobs, sys; from pathlib import Path; from egraph_opt.zoo import *\n"
        "with Journal(Path(sys.argv[2])) as journal:\n"
        "    enter_round(journal, Path(sys.argv[1]), {})\n"
        "    Batch(journal, 1, jobs.named).run(discover(Path(sys.argv[1])))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(model.parent), str(tmp_path / "run")])
    numbers = [int(n) for n in wait_for(model.with_suffix(".pids")).split()]
    assert all(map(is_running, numbers))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 60
    while any(map(is_running, numbers)):
        assert time.monotonic() < deadline, "processes outlive the run"
        time.sleep(0.05)


def test_what_is_finished_is_on_disk_before_the_next_starts(folder: Path, tmp_path: Path, jobs: ModuleType) -> None:
    on_disk: list[int] = []

    def tell(event: Event) -> None:
        if event.kind == "started":
            on_disk.append(len(read_records(tmp_path / "run")))

    with Journal(tmp_path / "run") as journal:
        enter_round(journal, folder, {})
        Batch(journal, 1, jobs.copy, tell).run(discover(folder))
    assert on_disk == [0, 1, 2, 3]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_records_are_json(outcome: Outcome) -> None:
    record = Record("m", "d", "c", 1, outcome, "why", "now", report={"seconds": {"total": float("nan")}})
    assert Record.from_json(record.to_json()).outcome is outcome
    assert record.to_json()["report"] == {"seconds": {"total": None}}


def test_costs_are_shared(tmp_path: Path, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRAPH_OPT_CACHE", str(tmp_path / "cache"))
    for path in (folder / "relu.onnx", folder / "scale.onnx"):
        path.unlink()
    shutil.rmtree(folder / "deep" / "deeper")
    run(folder, optimize_model, {"measure": False})
    rows = CostDatabase.open().rows()
    assert rows
    shutil.copy(folder / "deep" / "transpose.onnx", folder / "second.onnx")
    records = run(folder, optimize_model, resume=True)
    assert len(records) == 2
    assert CostDatabase.open().rows() == rows, "something was measured again"
