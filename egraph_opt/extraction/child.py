"""The parent's side of a worker: starts it, hears it, tells it, and ends it."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
from types import TracebackType

from egraph_opt.extraction.problem import Choice
from egraph_opt.extraction.worker import Ended, Job, receive, send
from egraph_opt.startup import command_of

Message = tuple[int, Choice | None, float]


class Child:
    """A worker process; leaving the ``with`` block kills it."""

    def __init__(self, job: Job) -> None:
        self._process = subprocess.Popen(
            command_of("egraph_opt.extraction.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt from the terminal reaches the parent alone
        )
        self._heard: queue.SimpleQueue[Message | Ended] = queue.SimpleQueue()
        self._to_say: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._to_say.put(job)
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._talk, daemon=True).start()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._to_say.put(None)

    def hear(self, seconds: float) -> Message | Ended | None:
        """The next message; None if there is none within ``seconds``. A worker that died has ended."""
        with contextlib.suppress(queue.Empty):
            return self._heard.get(timeout=seconds) if seconds > 0 else self._heard.get_nowait()
        return None

    def tell(self, index: int, choice: Choice) -> None:
        """Hands the worker a choice for one part."""
        self._to_say.put((index, choice))

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                message = receive(self._process.stdout)  # pyright: ignore[reportArgumentType]
                assert isinstance(message, tuple | Ended)
                self._heard.put(message)  # pyright: ignore[reportUnknownArgumentType]
        self._heard.put(Ended(False, {}))

    def _talk(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while (message := self._to_say.get()) is not None:
                send(self._process.stdin, message)  # pyright: ignore[reportArgumentType]
            self._process.stdin.close()
