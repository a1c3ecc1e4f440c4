"""Work on heavy models in a process of its own: ONNX Runtime's copies of the weights are not in this one, and all
memory is given back when it ends.

The process reads one pickled call from stdin and writes its pickled answer to stdout. The parent is the only one who
ever talks to it, over pipes that it made itself.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import onnx_ir

from egraph_opt.errors import EgraphOptError
from egraph_opt.onnx_io import weight_bytes
from egraph_opt.startup import command_of
from egraph_opt.verification.serialize import Runnable, runnable

HEAVY = 32_000_000
"""Bytes of weights above which a model is not run in this process."""


class ApartError(EgraphOptError):
    """The process ended without an answer: it was killed, or ran out of memory."""


def apart[T](function: Callable[..., T], *models: onnx_ir.Model, above: int = HEAVY, **options: Any) -> T:
    """``function(*models, **options)``; in a process of its own where the models have more than ``above`` bytes.

    ``function`` is one that a module has under its name; what it returns or raises, and the options, can be pickled.

    Raises:
        ApartError: that process ended without an answer.
    """
    if sum(map(weight_bytes, models)) <= above * len(models):
        return function(*models, **options)
    with ExitStack() as stack:
        process = stack.enter_context(_started())
        stdin, stdout = cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout)
        with contextlib.suppress(BrokenPipeError):  # its exit status says why
            pickle.dump((function, len(models), options), stdin)
            for model in models:
                _send(model, stdin, stack)
            stdin.close()
        try:
            kind, answer = pickle.load(stdout)  # noqa: S301 - the peer is our own child
        except (EOFError, pickle.UnpicklingError):
            raise ApartError(f"the process that ran the model ended with status {process.wait()}") from None
    if kind == "error":
        raise answer
    return answer


def _send(model: onnx_ir.Model, stdin: BinaryIO, stack: ExitStack) -> None:
    """Writes a model; what is not a file is gone from memory afterwards, a file when ``stack`` ends."""
    with ExitStack() as own:
        source = own.enter_context(runnable(model, inline=HEAVY))
        pickle.dump(source, stdin)
        if isinstance(source.source, Path):
            stack.push(own.pop_all())


def main() -> None:
    """Entry point of the process."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints must not reach the pipe
    function, count, options = pickle.load(sys.stdin.buffer)  # noqa: S301 - the peer is our own parent
    sources = [cast(Runnable, pickle.load(sys.stdin.buffer)) for _ in range(count)]  # noqa: S301
    answer = _answer(function, sources, options)
    pickle.dump(answer, out)
    out.flush()
    os._exit(0)  # the threads of libraries need no farewell


def _answer(function: Callable[..., Any], sources: list[Runnable], options: dict[str, Any]) -> tuple[str, Any]:
    models: list[onnx_ir.Model] = []
    while sources:
        models.append(sources.pop(0).model())
    try:
        return "done", function(*models, **options)
    except EgraphOptError as error:
        return "error", error
    except Exception as error:  # ONNX Runtime's errors have no common base class, and not all can be pickled
        return "error", ApartError(f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _started() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command_of(__name__), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                cast(BinaryIO, stream).close()
