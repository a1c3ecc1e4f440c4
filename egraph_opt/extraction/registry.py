"""The strategies by name. A new one is a file and a line here."""

from __future__ import annotations

from dataclasses import fields

from egraph_opt.errors import UsageError
from egraph_opt.extraction.dag_greedy import DagGreedy
from egraph_opt.extraction.ilp import Ilp
from egraph_opt.extraction.lns import Lns
from egraph_opt.extraction.portfolio import Portfolio
from egraph_opt.extraction.result import Extractor
from egraph_opt.extraction.tree_greedy import TreeGreedy

_EXTRACTORS = (TreeGreedy, DagGreedy, Lns, Ilp, Portfolio)


def extractors() -> tuple[type[Extractor], ...]:
    """Every strategy, from the fastest to the best."""
    return _EXTRACTORS


def get_extractor(name: str, **options: object) -> Extractor:
    """The strategy ``name`` with its options set.

    Raises:
        UsageError: no strategy has that name, or it has no such option.
    """
    for strategy in _EXTRACTORS:
        if strategy.name == name:
            known = [field.name for field in fields(strategy)]
            unknown = sorted(set(options).difference(known))
            if unknown:
                raise UsageError(
                    f"extractor {name!r} has no option {unknown[0]!r}; it has: {', '.join(known) or 'none'}"
                )
            return strategy(**options)  # pyright: ignore[reportArgumentType]
    raise UsageError(
        f"there is no extractor {name!r}; choose one of: {', '.join(strategy.name for strategy in _EXTRACTORS)}"
    )
