"""Validation of many axioms: from the cache where it is known, in several processes where it is not."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from egraph_opt.axioms.cache import Cache
from egraph_opt.axioms.evaluate import method
from egraph_opt.axioms.record import Axiom
from egraph_opt.axioms.space import FULL, Space
from egraph_opt.axioms.validate import Report, validate

_HEAVY = ("convolution", "joining", "reductions", "definitions", "channels", "pooling", "products", "movement")
"""Families in which single axioms take long: they start first, so that no process is left alone with one at the end."""
Progress = Callable[[Report, int, int], None]


def validate_all(
    axioms: Sequence[Axiom],
    *,
    sample: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    force: bool = False,
    on_done: Progress | None = None,
    space: Space = FULL,
) -> list[Report]:
    """A report on every axiom, in order.

    A sample is neither taken from the cache nor kept; ``force`` computes everything anew. ``on_done`` hears of each
    report and how many of how many are there.
    """
    kept = Cache()
    found: dict[str, Report] = {}
    if sample is None and not force:
        found = {a.name: r for a in axioms if (r := kept.get(a, space)) is not None}
    open_ = sorted((a for a in axioms if a.name not in found), key=_weight)
    for axiom, report in _reports(open_, sample, seed, jobs, space):
        found[axiom.name] = report
        if sample is None:
            kept.put(axiom, space, report)
        if on_done is not None:
            on_done(report, len(found), len(axioms))
    return [found[a.name] for a in axioms]


def _reports(
    axioms: Sequence[Axiom], sample: int | None, seed: int, jobs: int, space: Space
) -> Iterator[tuple[Axiom, Report]]:
    if jobs <= 1 or len(axioms) < 2:
        for axiom in axioms:
            yield axiom, validate(axiom, sample=sample, seed=seed, space=space)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(validate, a, sample=sample, seed=seed, space=space): a for a in axioms}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _weight(axiom: Axiom) -> tuple[int, bool, int]:
    heavy = _HEAVY.index(axiom.family) if axiom.family in _HEAVY else len(_HEAVY)
    return heavy, method(axiom) == "prime", -len(axiom.tensors)
