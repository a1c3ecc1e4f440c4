"""What all tests share: the saturation worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from egraph_opt.saturation import Worker


class _Kept(Worker):
    """Stays when a run is done with it."""

    def __exit__(self, *_: object) -> None:
        return None


@pytest.fixture(scope="session", autouse=True)
def one_worker() -> Iterator[None]:
    """What is optimized in the process of the tests is saturated by one worker, as a bisection's
    are: else most of the time went into starting them. How runs start their own is seen by the tests of the program.
    """
    kept: list[_Kept] = []

    def worker() -> Worker:
        if not kept:
            kept.append(_Kept())
        return kept[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("egraph_opt.pipeline.run.Worker", worker)
        yield
    for started in kept:
        started.close()
