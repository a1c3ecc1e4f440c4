"""The worker process.

Reads jobs, pickles, from stdin, one after the other. Writes pickles to stdout: ``("iteration", report, snapshot)`` for
every round, where most small rounds have no snapshot, and at the end of a job ``("done", stop reason, snapshot)``. The
parent is the only one who ever talks to it, over pipes that it made itself.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import pickle
import struct
import sys
import time
from dataclasses import dataclass
from typing import BinaryIO

from egraph_opt.saturation.engine import Engine
from egraph_opt.saturation.problem import Problem
from egraph_opt.saturation.snapshot import StopReason

SNAPSHOT_EVERY = 20
"""Times its own cost that lies between two snapshots."""


@dataclass(frozen=True)
class Limits:
    """When saturation stops.

    Attributes:
        seconds: no new iteration starts after this; the parent kills the worker some time later.
        memory: bytes of address space for the worker, None for no limit.
        nodes: e-nodes after which no new iteration starts.
        iterations: rounds.
        merge_rounds: in how many of the first rounds operators that share an operand are merged.
    """

    seconds: float = 30.0
    memory: int | None = 8 * 2**30
    nodes: int = 100_000
    iterations: int = 12
    merge_rounds: int = 1


@dataclass(frozen=True)
class Job:
    """A problem and its limits."""

    problem: Problem
    limits: Limits


def write(stream: BinaryIO, message: object) -> None:
    """Sends one message: its length, then the pickle."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(struct.pack("<Q", len(data)))
    stream.write(data)
    stream.flush()


def read(stream: BinaryIO) -> object | None:
    """Receives one message, or ``None`` when the other side is gone."""
    header = stream.read(8)
    if len(header) < 8:
        return None
    (length,) = struct.unpack("<Q", header)
    data = stream.read(length)
    return pickle.loads(data) if len(data) == length else None  # noqa: S301 - the peer is our own child or parent


def saturate(job: Job, out: BinaryIO) -> None:
    """Runs iterations until a limit. Sends a snapshot after the first, and after each that leaves no more than a small
    part of the time to taking them: what is lost if the worker dies is less than that many snapshots take."""
    start = time.monotonic()
    engine = Engine(job.problem)
    write(out, ("iteration", None, engine.snapshot()))
    taken, cost = -math.inf, 0.0
    reason = StopReason.ITERATIONS
    for round_ in range(job.limits.iterations):
        if time.monotonic() - start > job.limits.seconds:
            reason = StopReason.TIME
            break
        report = engine.iterate(merge=round_ < job.limits.merge_rounds)
        if not report.changed:
            reason = StopReason.MATCHES if report.damped else StopReason.SATURATED
            break
        begin, snapshot = time.monotonic(), None
        if begin - taken >= SNAPSHOT_EVERY * cost:
            snapshot = engine.snapshot()
            taken = time.monotonic()
            cost = taken - begin
        write(out, ("iteration", report, snapshot))
        if report.nodes > job.limits.nodes:
            reason = StopReason.NODES
            break
    write(out, ("done", reason, engine.snapshot()))


def _is_full(limit: int | None) -> bool:
    """Whether nine tenths of the allowed address space are in use."""
    if limit is None:
        return False
    try:
        with open("/proc/self/statm") as status:
            pages = int(status.read().split()[0])
    except (OSError, ValueError):
        return False
    return pages * os.sysconf("SC_PAGE_SIZE") > 0.9 * limit


def main() -> None:
    """Entry point of the worker; it ends when the parent has no more jobs, and when the memory is full."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not reach the pipe
    gc.disable()  # a job makes many small objects and no cycles of them: looking for some is a tenth of its Python time
    while (job := read(sys.stdin.buffer)) is not None:
        assert isinstance(job, Job)
        if not _finishes(job, out):
            return
        gc.collect()


def _finishes(job: Job, out: BinaryIO) -> bool:
    """Does one job, if the memory suffices for it."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)  # this stays: the next job may have a larger limit
        resource.setrlimit(resource.RLIMIT_AS, (most if job.limits.memory is None else job.limits.memory, most))
    try:
        saturate(job, out)
    except Exception as error:
        # out of memory shows as MemoryError or, deep inside a parser or a library, as almost anything else
        if not (isinstance(error, MemoryError) or _is_full(job.limits.memory)):
            raise
        write(out, ("done", StopReason.MEMORY, None))
        return False
    return True
