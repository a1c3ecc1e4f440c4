"""The worker may be killed, run out of memory or time, or be flooded by rules: the best graph so far survives."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from egraph_opt.errors import BudgetError
from egraph_opt.rewrites import rule
from egraph_opt.saturation import IterationReport, Limits, StopReason, Worker, rebuild, saturate

EXPLODING = (
    rule("associate-right", "Add(Add(x, y), z)", "Add(x, Add(y, z))", family="explode"),
    rule("associate-left", "Add(x, Add(y, z))", "Add(Add(x, y), z)", family="explode"),
    rule("commute", "Add(x, y)", "Add(y, x)", family="explode"),
)
FOREVER = Limits(seconds=120, nodes=10**9, iterations=1000)


def _feeds(length: int) -> dict[str, Any]:
    return {f"x{i}": np.array([i, -i], np.float32) for i in range(length)}


def test_an_untouched_worker_saturates(tools: Any) -> None:
    graph = tools.chain(4)
    found = saturate(graph, EXPLODING)
    assert found.report.reason == StopReason.SATURATED
    assert found.report.detail == ""
    assert found.report.rules["associate-right"].matches > 0
    assert set(found.report.rules) <= {r.name for r in EXPLODING}


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("after", [1, 2])
def test_killed_from_outside(after: int, sent: signal.Signals, tools: Any) -> None:
    graph = tools.chain(60)
    seen: list[IterationReport] = []
    with Worker() as worker:

        def shoot(report: IterationReport) -> None:
            seen.append(report)
            if len(seen) == after:
                os.kill(worker.process.pid, sent)

        found = saturate(graph, EXPLODING, FOREVER, worker=worker, on_progress=shoot)
    assert found.report.reason == StopReason.KILLED
    assert found.report.detail
    assert len(found.report.iterations) >= after
    original = rebuild(found.frozen, found.frozen.selection_of_original())
    tools.same(tools.values(original, _feeds(60)), tools.values(graph, _feeds(60)))
    assert found.frozen.egraph.node_count > 1.5 * len(graph.nodes)


def test_killed_before_it_has_the_graph(tools: Any) -> None:
    worker = Worker()
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    with pytest.raises(BudgetError, match="killed"):
        saturate(tools.chain(3), EXPLODING, worker=worker)


def test_a_worker_that_cannot_start(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Exception, match="before it had the graph"):
        saturate(tools.chain(3), EXPLODING)


def test_no_process_is_left_behind(tools: Any) -> None:
    with Worker() as worker:
        saturate(tools.chain(3), EXPLODING, worker=worker)
    assert worker.process.poll() is not None
    assert all(s is None or s.closed for s in (worker.process.stdin, worker.process.stdout, worker.process.stderr))


def test_a_worker_takes_one_job_after_the_other(tools: Any) -> None:
    with Worker() as worker:
        first, other, again = (saturate(tools.chain(n), EXPLODING, worker=worker) for n in (5, 3, 5))
        assert worker.process.poll() is None
    alone = saturate(tools.chain(5), EXPLODING)
    assert first.frozen.enodes == again.frozen.enodes == alone.frozen.enodes
    assert first.frozen.fired == again.frozen.fired == alone.frozen.fired
    assert other.report.nodes < first.report.nodes


def test_each_job_has_its_own_memory(tools: Any) -> None:
    with Worker() as worker:
        first = worker.process
        saturate(tools.chain(3), EXPLODING, Limits(memory=2**31), worker=worker)
        for memory, said in ((2**32, str(2**32)), (None, "unlimited")):
            saturate(tools.chain(3), EXPLODING, Limits(memory=memory), worker=worker)
            limits = Path(f"/proc/{first.pid}/limits").read_text()
            assert said in next(line for line in limits.splitlines() if line.startswith("Max address space"))
        assert worker.process is first


@pytest.mark.parametrize("end", ["killed", "memory", "interrupted"])
def test_after_a_job_that_it_did_not_survive_the_next_gets_a_process_of_its_own(end: str, tools: Any) -> None:
    def shoot(_: IterationReport) -> None:
        if end == "interrupted":
            raise KeyboardInterrupt
        os.kill(worker.process.pid, signal.SIGKILL)

    with Worker() as worker:
        first = worker.process
        if end == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                saturate(tools.chain(60), EXPLODING, FOREVER, worker=worker, on_progress=shoot)
        elif end == "killed":
            killed = saturate(tools.chain(60), EXPLODING, FOREVER, worker=worker, on_progress=shoot)
            assert killed.report.reason == StopReason.KILLED
        else:
            with pytest.raises(BudgetError, match="memory"):
                saturate(tools.chain(2000), EXPLODING, Limits(memory=2**20), worker=worker)
        assert first.poll() is not None
        found = saturate(tools.chain(4), EXPLODING, worker=worker)
        assert found.report.reason == StopReason.SATURATED
        assert worker.process is not first
    assert worker.process.poll() is not None


def _many_relus(tools: Any) -> Any:
    draft = tools.draft()
    return draft.done(*(draft.op("Relu", draft.input(f"x{i}", 2)) for i in range(500)))


DEEP = rule("deep", "Relu(x)", "Exp(" * 100 + "Relu(Neg(x))" + ")" * 100)
"""As wrong as can be; with few matches it makes many e-nodes, round after round."""


def test_out_of_memory_keeps_the_last_snapshot(tools: Any) -> None:
    graph = _many_relus(tools)
    limits = Limits(seconds=120, nodes=10**9, iterations=1000, memory=400 * 2**20)
    found = saturate(graph, (DEEP,), limits)
    assert found.report.reason == StopReason.MEMORY, found.report
    assert found.report.iterations
    original = rebuild(found.frozen, found.frozen.selection_of_original())
    tools.same(tools.values(original, _feeds(500)), tools.values(graph, _feeds(500)))


def test_no_memory_at_all(tools: Any) -> None:
    with pytest.raises(BudgetError, match="memory"):
        saturate(tools.chain(2000), EXPLODING, Limits(memory=2**20))


def test_no_time_at_all(tools: Any) -> None:
    graph = tools.chain(10)
    found = saturate(graph, EXPLODING, Limits(seconds=0))
    assert found.report.reason == StopReason.TIME
    assert found.report.iterations == ()
    assert len(found.frozen.enodes) == len(graph.nodes)


def test_time_ends_a_flood(tools: Any) -> None:
    found = saturate(_many_relus(tools), (DEEP,), Limits(seconds=1, nodes=10**9, iterations=10**6))
    assert found.report.reason == StopReason.TIME
    assert found.frozen.egraph.node_count >= 1000


def test_a_worker_that_hangs_is_killed(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("egraph_opt.saturation.saturate"), "GRACE", 0.5)
    with Worker() as worker:
        found = saturate(
            tools.chain(60),
            EXPLODING,
            Limits(seconds=1, nodes=10**9, iterations=1000),
            worker=worker,
            on_progress=lambda _: os.kill(worker.process.pid, signal.SIGSTOP),
        )
    assert found.report.reason == StopReason.TIME
    assert len(found.report.iterations) >= 1
    assert worker.process.poll() is not None


def test_a_flood_is_damped_and_says_so(tools: Any) -> None:
    found = saturate(tools.chain(200), EXPLODING, FOREVER)
    assert found.report.reason == StopReason.MATCHES
    assert found.report.nodes < 500_000


def test_e_nodes_end_a_flood(tools: Any) -> None:
    found = saturate(tools.chain(100), EXPLODING, Limits(seconds=120, nodes=3000, iterations=1000))
    assert found.report.reason == StopReason.NODES
    assert found.report.nodes < 30 * 3000


def test_rounds_end_a_flood(tools: Any) -> None:
    found = saturate(tools.chain(30), EXPLODING, Limits(seconds=120, nodes=10**9, iterations=2))
    assert found.report.reason == StopReason.ITERATIONS
    assert len(found.report.iterations) == 2


def test_two_runs_give_the_same(tools: Any) -> None:
    first, second = (saturate(tools.chain(6), EXPLODING) for _ in range(2))
    assert first.frozen.enodes == second.frozen.enodes
    assert first.frozen.egraph.roots.tolist() == second.frozen.egraph.roots.tolist()
    assert first.frozen.fired == second.frozen.fired


def test_a_worker_loads_no_more_than_it_needs() -> None:
    script = "import sys, egraph_opt.saturation.worker; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"onnx", "onnx_ir", "sympy", "egglog"} & set(loaded)
    assert "egglog.bindings" in loaded
