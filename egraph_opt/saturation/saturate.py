"""Saturation as its user sees it: a graph and rules in, an e-graph and a report out, whatever happens to the worker."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

from egraph_opt.errors import BudgetError, EgraphOptError
from egraph_opt.ir import TensorGraph
from egraph_opt.rewrites import Rule, relevant
from egraph_opt.saturation.frozen import Frozen, freeze
from egraph_opt.saturation.problem import Problem
from egraph_opt.saturation.snapshot import IterationReport, RuleReport, Snapshot, StopReason
from egraph_opt.saturation.worker import Job, Limits, read, write
from egraph_opt.startup import command_of

GRACE = 5.0
"""Seconds past the time limit after which a worker that is still in an iteration is killed."""
STARTUP = 60.0
"""Seconds that a worker may take to start and load the graph, on top of its time limit."""


@dataclass(frozen=True)
class SaturationReport:
    """What saturation did.

    Attributes:
        reason: why it stopped; ``detail`` adds the worker's own last words where it failed.
        iterations: one report per round that changed something.
        seconds: wall time, the worker's start included.
    """

    reason: StopReason
    detail: str
    iterations: tuple[IterationReport, ...]
    nodes: int
    classes: int
    seconds: float

    @property
    def rules(self) -> dict[str, RuleReport]:
        """Matches and seconds of each rule over all iterations, most matches first."""
        total: dict[str, RuleReport] = {}
        for iteration in self.iterations:
            for name, report in iteration.rules.items():
                old = total.get(name, RuleReport(0, 0.0))
                total[name] = RuleReport(old.matches + report.matches, old.seconds + report.seconds)
        return dict(sorted(total.items(), key=lambda item: (-item[1].matches, item[0])))


@dataclass(frozen=True)
class Saturation:
    """The e-graph, and how it came about."""

    frozen: Frozen
    report: SaturationReport


class Worker:
    """A worker process that is started early, so that its imports overlap with other work.

    It takes one job after the other; after one that it did not survive, the next gets a new process.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            command_of("egraph_opt.saturation.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._closed = False
        self._sender: threading.Thread | None = None
        self._said: list[bytes] = []
        said, stderr = self._said, cast(BinaryIO, self.process.stderr)
        self._listener = threading.Thread(target=lambda: said.extend(stderr), daemon=True)
        self._listener.start()

    def begin(self, job: Job) -> BinaryIO:
        """Sends the job, without waiting for the worker to take it; the stream of the worker's answers."""
        if self._closed:
            self._start()
        stdin = cast(BinaryIO, self.process.stdin)

        def send() -> None:
            with contextlib.suppress(OSError, ValueError):  # gone or closed: its answers say so
                write(stdin, job)

        self._sender = threading.Thread(target=send, daemon=True)
        self._sender.start()
        return cast(BinaryIO, self.process.stdout)

    def last_words(self) -> str:
        """What it wrote to stderr, once it has ended."""
        self._listener.join(1.0)
        return b"".join(self._said).decode(errors="replace").strip()

    def close(self) -> None:
        """Ends the process, if it still runs, and its pipes."""
        self._closed = True
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        if self._sender is not None:
            self._sender.join()  # a write ends with the reader
        self._listener.join(1.0)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def saturate(
    graph: TensorGraph,
    rules: Sequence[Rule],
    limits: Limits | None = None,
    *,
    worker: Worker | None = None,
    guard_cancellation: bool = True,
    sides: Sequence[Collection[int]] = (),
    on_progress: Callable[[IterationReport], None] | None = None,
) -> Saturation:
    """Every graph that ``rules`` make equal to ``graph``, within ``limits``.

    The worker may run out of time or memory, crash or be killed: the e-graph of its last snapshot is kept, which is
    that of the last finished iteration or not much older.
    A ``worker`` that is given is not closed, and may be given again.
    Where the graph is several graphs in one, ``sides`` holds the nodes of each: operators that share an operand are
    merged within a side, as they would be without the other.

    Raises:
        BudgetError: not even the graph itself fitted into the limits.
    """
    limits = limits or Limits()
    start = time.monotonic()
    with contextlib.nullcontext(worker) if worker is not None else Worker() as running:
        snapshot, iterations, reason, detail = _converse(
            running, Job(problem_of(graph, rules, sides), limits), on_progress
        )
    if snapshot is None:
        if reason == StopReason.FAILED:
            raise EgraphOptError(f"the saturation worker failed before it had the graph: {detail}")
        raise BudgetError(f"saturation ended before it had the graph ({reason}): raise the time or memory limit")
    frozen = freeze(graph, snapshot, rules, guard_cancellation=guard_cancellation)
    report = SaturationReport(
        reason,
        detail,
        tuple(iterations),
        frozen.egraph.node_count,
        len(set(frozen.egraph.node_class.tolist())),
        time.monotonic() - start,
    )
    return Saturation(frozen, report)


def problem_of(graph: TensorGraph, rules: Sequence[Rule], sides: Sequence[Collection[int]] = ()) -> Problem:
    """What the worker needs of ``graph`` and ``rules``; operators are merged within each of ``sides`` (the whole by
    default)."""
    stored = [index for index, node in enumerate(graph.nodes) if node.op == "Const"]
    splats = {index: number for index in stored if (number := graph.splat(index)) is not None}
    triangles = {index: number for index in stored if (number := graph.triangle(index)) is not None}
    doubled = frozenset(filter(graph.is_doubled, stored))
    within = tuple(map(frozenset, sides)) or (frozenset(range(len(graph.nodes))),)
    present = {(node.op, len(node.operands)) for node in graph.nodes}
    plain = Problem(tuple(graph.nodes), tuple(graph.types), graph.outputs, splats, triangles, doubled, within, ())
    return replace(plain, rules=relevant(rules, present | plain.spelled))


def _converse(
    worker: Worker, job: Job, on_progress: Callable[[IterationReport], None] | None
) -> tuple[Snapshot | None, list[IterationReport], StopReason, str]:
    stdout = worker.begin(job)
    process = worker.process
    timed_out = threading.Event()

    def kill() -> None:
        timed_out.set()
        process.kill()

    timer = threading.Timer(job.limits.seconds + STARTUP, kill)
    timer.start()
    snapshot: Snapshot | None = None
    iterations: list[IterationReport] = []
    reason: StopReason | None = None
    try:
        while (message := read(stdout)) is not None:
            match message:
                case ("iteration", report, fresh):
                    snapshot = cast(Snapshot | None, fresh) or snapshot
                    if report is None:  # the graph is in: from here on the limit itself counts
                        timer.cancel()
                        timer = threading.Timer(job.limits.seconds + GRACE, kill)
                        timer.start()
                    else:
                        iterations.append(report)
                        if on_progress:
                            on_progress(report)
                case ("done", StopReason() as why, fresh):
                    snapshot = cast(Snapshot | None, fresh) or snapshot
                    reason = why
                    break
                case _:
                    raise AssertionError(f"unexpected message {message!r}")
    except BaseException:
        worker.close()  # what it still answers belongs to no other job
        raise
    finally:
        timer.cancel()
    if reason is None:
        code = process.wait()
        text = worker.last_words()
        worker.close()
        reason = StopReason.TIME if timed_out.is_set() else _reason(code, text)
        return snapshot, iterations, reason, text.splitlines()[-1] if text else f"exit status {code}"
    if reason is StopReason.MEMORY or timed_out.is_set():
        worker.close()  # it ends, or was just killed
    return snapshot, iterations, reason, ""


def _reason(code: int, text: str) -> StopReason:
    if "memory allocation" in text or "MemoryError" in text:
        return StopReason.MEMORY
    return StopReason.KILLED if code in (-9, -15) else StopReason.FAILED
