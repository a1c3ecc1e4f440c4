"""Jobs that go wrong in ways that no good model does; processes of the tests import this module by its name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from egraph_opt.zoo import Finding, Outcome, Task


def copy(task: Task, tell: Callable[[str], None]) -> Finding:
    """The file backwards, after a moment in which one can be killed."""
    tell("copy")
    time.sleep(0.1)
    (task.folder / "model.onnx").write_bytes(task.path.read_bytes()[::-1])
    return Finding(Outcome.OPTIMIZED, "turned around", {"speedup": 2.0, "control_spread": 0.01})


def named(task: Task, tell: Callable[[str], None]) -> Finding:
    """Does what the model is called after."""
    what = task.path.stem
    if what == "crash":
        tell("crash")
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "abort":
        os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
        os.abort()
    if what == "exit":
        os._exit(7)
    if what == "exit with words":
        os.write(2, b"Traceback (most recent call last):\n  ...\nImportError: no module\n")
        os._exit(8)
    if what == "memory":
        return Finding(Outcome.UNCHANGED, f"{np.ones(10**11).sum()}")
    if what == "error":
        raise ValueError("what a library says")
    if what == "endless":
        tell("endless")
        _endless(task)
    return copy(task, tell)


def _endless(task: Task) -> None:
    """Never ends, and neither does a process that it starts; both leave their numbers beside the model."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10**6)"])
    numbers = task.path.with_suffix(".partial")
    numbers.write_text(f"{os.getpid()} {child.pid}")
    numbers.rename(task.path.with_suffix(".pids"))
    while True:
        time.sleep(1.0)
