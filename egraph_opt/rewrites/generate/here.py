"""The executor of a run without processes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future


class Here(Executor):
    """Runs what is submitted at once, in this process; what it raises is raised there."""

    def submit[**P, T](self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future
