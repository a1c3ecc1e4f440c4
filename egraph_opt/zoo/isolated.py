"""A job in a process of its own, with limits; whatever happens to it, the caller gets a finding."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egraph_opt.startup import command_of
from egraph_opt.zoo.records import Finding, Outcome, is_about_memory
from egraph_opt.zoo.worker import Job, Limits, Task

LOG_BYTES = 4000
"""How much of the end of a log is kept."""


@dataclass(frozen=True)
class Ended:
    """How it ended: the finding, wall and CPU seconds, the largest resident size in bytes, and the end of the log."""

    finding: Finding
    seconds: float
    cpu_seconds: float
    peak_memory: int
    log: str


class Isolated:
    """A running job. ``kill`` may be called from any thread; ``wait`` must be called once."""

    def __init__(self, job: Job, task: Task, limits: Limits, log: Path) -> None:
        self._limits, self._log = limits, log
        self._start = time.monotonic()
        self._timed_out = False
        order = pickle.dumps(limits) + pickle.dumps(pickle.dumps((job, task)))
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command_of("egraph_opt.zoo.worker"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # a process group to end at once
            )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died already: its exit status says so
            self._process.stdin.write(order)
            self._process.stdin.flush()  # and stays open: its end means that we are gone

    def kill(self) -> None:
        """Ends the process and those that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, on_stage: Callable[[str], None]) -> Ended:
        """Waits for the end, in which no process of the job is left; ``on_stage`` is called as stages begin."""
        timer = threading.Timer(self._limits.seconds, self._time_out)
        timer.start()
        finding, stage = None, ""
        assert self._process.stdin is not None and self._process.stdout is not None
        for line in self._process.stdout:
            message = _parse(line)
            if "stage" in message and message["stage"] != stage:
                stage = message["stage"]
                on_stage(stage)
            elif "finding" in message:
                finding = Finding.from_json(message["finding"])
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        timer.cancel()
        self.kill()  # what it left behind; its own number is not free for others yet
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        log = _tail(self._log)
        return Ended(
            finding or self._explain(stage, log),
            time.monotonic() - self._start,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            log,
        )

    def _time_out(self) -> None:
        self._timed_out = True
        self.kill()

    def _explain(self, stage: str, log: str) -> Finding:
        """The finding of a process that ended without one."""
        code, where = self._process.returncode, f" while in stage {stage}" if stage else ""
        if self._timed_out or code == -signal.SIGXCPU:
            return Finding(Outcome.TIMEOUT, f"not done after {self._limits.seconds:g} s: killed{where}")
        if is_about_memory(log):
            return Finding(
                Outcome.OUT_OF_MEMORY, f"needs more than {self._limits.memory / 2**30:g} GB: it ended itself{where}"
            )
        if code == -signal.SIGKILL:
            return Finding(
                Outcome.OUT_OF_MEMORY,
                f"killed from outside{where}, as the system does when it is short of memory: use fewer --jobs",
            )
        if code < 0:
            return Finding(Outcome.CRASHED, f"{signal.Signals(-code).name} ({signal.strsignal(-code)}){where}")
        last = log.strip().rpartition("\n")[2]  # of a traceback, the error
        return Finding(Outcome.CRASHED, f"exit status {code}{where}" + (f": {last}" if last else ""))


def _parse(line: bytes) -> dict[str, Any]:
    try:
        return json.loads(line)
    except ValueError:  # cut off by the end of the process
        return {}


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - LOG_BYTES, 0))
        return file.read().decode(errors="replace")
