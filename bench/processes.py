"""Runs a command and says how much memory each of its processes held at most (Linux)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

INTERVAL = 0.02
"""Seconds between two looks at the processes. A peak of resident memory is the system's own and missed by none."""


@dataclass
class Peak:
    """Of one process, in bytes: the largest resident size, mapped files included, and the largest sampled size of
    what is its own (``private``: no mapped file)."""

    command: str
    resident: int = 0
    private: int = 0


@dataclass(frozen=True)
class Watched:
    """What a command took: wall and CPU seconds (children included), its exit status, and its processes in order."""

    seconds: float
    cpu_seconds: float
    status: int
    processes: tuple[Peak, ...]

    def peak(self, role: str = "") -> Peak:
        """The largest process whose command line contains ``role``; with none, the command itself."""
        found = [p for p in self.processes if role in p.command] if role else list(self.processes[:1])
        return max(found, key=lambda p: p.resident, default=Peak(role))


def watch(command: Sequence[str]) -> Watched:
    """Runs a command to its end."""
    start = time.monotonic()
    peaks: dict[int, Peak] = {}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while True:
        for pid in _family(process.pid):
            with contextlib.suppress(OSError, KeyError, ValueError):  # it has just ended
                _look(pid, peaks)
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        time.sleep(INTERVAL)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    return Watched(time.monotonic() - start, cpu, process.returncode, tuple(peaks.values()))


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                yield from _family(int(child))


def _look(pid: int, peaks: dict[int, Peak]) -> None:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    resident, private = (int(status[key].split()[0]) * 1024 for key in ("VmHWM", "RssAnon"))
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    peak = peaks.setdefault(pid, Peak(command))
    if peak.command != command:  # right after its start it still is its parent, memory and all
        peak = peaks[pid] = Peak(command)
    peak.resident, peak.private = max(peak.resident, resident), max(peak.private, private)
