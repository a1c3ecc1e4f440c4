"""The process of one model: ``Isolated`` starts it.

Reads two pickles from stdin: limits, then the pickle of a job and its task. Writes lines of JSON to stdout:
``{"stage": ...}`` as the work goes on, ``{"finding": ...}`` at the end. It does not outlive its parent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import json
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, cast

from egraph_opt.errors import BudgetError, EgraphOptError, UnsupportedModelError
from egraph_opt.zoo.records import Finding, Outcome, is_about_memory

LEAST_CPU_SECONDS = 60


@dataclass(frozen=True)
class Limits:
    """Of one model: wall seconds for all of it, and bytes of data for each of its processes."""

    seconds: float
    memory: int


@dataclass(frozen=True)
class Task:
    """A model to optimize, the options of ``egraph_opt.optimize``, and a folder to leave the result in."""

    path: Path
    options: Mapping[str, Any]
    folder: Path


Job = Callable[[Task, Callable[[str], None]], Finding]
"""What is done with a model; it is given the task, and what to call with the name of each stage that begins."""


def main() -> None:
    """Entry point of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not reach the pipe
    faulthandler.enable()
    _restrict(cast(Limits, pickle.load(sys.stdin.buffer)))  # noqa: S301 - the peer is our own parent
    order = pickle.load(sys.stdin.buffer)  # noqa: S301 - the bytes of another pickle: it is opened under the limits
    threading.Thread(target=_end_with_parent, daemon=True).start()
    finding = _attempt(order, lambda stage: _say(out, {"stage": stage}))
    _say(out, {"finding": dataclasses.asdict(finding)})
    os._exit(0)  # the threads of libraries need no farewell


def _restrict(limits: Limits) -> None:
    """Sets the limits of this process and those that it will start. Data, not address space: mapped weights are free.

    The parent counts wall time; CPU time ends what the parent did not live to end."""
    with contextlib.suppress(ImportError):  # not on every system
        import resource

        seconds = max(ceil(limits.seconds * (os.cpu_count() or 1)), LEAST_CPU_SECONDS)
        for kind, wanted in (
            (resource.RLIMIT_DATA, limits.memory),
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_CORE, 0),
        ):
            with contextlib.suppress(ValueError, OSError):  # a stricter limit is in force
                resource.setrlimit(kind, (wanted, wanted))


def _end_with_parent() -> None:
    """Ends this process, and those it started, when the parent is gone: it holds the other end of stdin."""
    os.read(sys.stdin.fileno(), 1)  # nothing is ever sent
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _attempt(order: bytes, tell: Callable[[str], None]) -> Finding:
    try:
        job, task = cast(tuple[Job, Task], pickle.loads(order))  # noqa: S301 - the peer is our own parent
        return job(task, tell)
    except MemoryError:
        return Finding(Outcome.OUT_OF_MEMORY, "an allocation failed")
    except UnsupportedModelError as error:
        return Finding(Outcome.UNSUPPORTED, str(error))
    except BudgetError as error:
        return Finding(Outcome.TIMEOUT, str(error))
    except EgraphOptError as error:
        return Finding(Outcome.ERROR, str(error))
    except Exception as error:  # whatever it is, it is the outcome of this model
        traceback.print_exc()
        said = f"{type(error).__name__}: {error}"
        return Finding(Outcome.OUT_OF_MEMORY if is_about_memory(said) else Outcome.ERROR, f"internal error: {said}")


def _say(out: Any, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(message), file=out, flush=True)
