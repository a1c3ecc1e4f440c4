"""The strategies by name. A new one is a file and a line here."""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec

from egraph_opt.errors import UsageError
from egraph_opt.extraction.annealing import Annealing
from egraph_opt.extraction.area_flow import AreaFlow
from egraph_opt.extraction.beam import Beam
from egraph_opt.extraction.cp_sat import CpSat
from egraph_opt.extraction.dag_greedy import DagGreedy
from egraph_opt.extraction.genetic import Genetic
from egraph_opt.extraction.ilp import Ilp
from egraph_opt.extraction.lns import Lns
from egraph_opt.extraction.portfolio import Portfolio
from egraph_opt.extraction.result import Extractor
from egraph_opt.extraction.smoothe import Smoothe
from egraph_opt.extraction.tree_greedy import TreeGreedy
from egraph_opt.extraction.treewidth import Treewidth

_EXTRACTORS = (
    TreeGreedy,
    DagGreedy,
    AreaFlow,
    Beam,
    Genetic,
    Annealing,
    Smoothe,
    Treewidth,
    Lns,
    CpSat,
    Ilp,
    Portfolio,
)
_NEEDS = {CpSat.name: "ortools"}
"""Optional libraries; the extra that installs one has the name of the strategy."""


def extractors() -> tuple[type[Extractor], ...]:
    """Every strategy whose libraries are installed, from the fastest to the best."""
    return tuple(strategy for strategy in _EXTRACTORS if _is_installed(strategy.name))


def _is_installed(name: str) -> bool:
    return name not in _NEEDS or find_spec(_NEEDS[name]) is not None


def get_extractor(name: str, **options: object) -> Extractor:
    """The strategy ``name`` with its options set.

    Raises:
        UsageError: no strategy has that name, it has no such option, or a library for it is not installed.
    """
    for strategy in _EXTRACTORS:
        if strategy.name == name:
            known = [field.name for field in fields(strategy)]
            unknown = sorted(set(options).difference(known))
            if unknown:
                raise UsageError(
                    f"extractor {name!r} has no option {unknown[0]!r}; it has: {', '.join(known) or 'none'}"
                )
            if not _is_installed(name):
                raise UsageError(f"extractor {name!r} needs {_NEEDS[name]}: pip install 'egraph-opt[{name}]'")
            return strategy(**options)  # pyright: ignore[reportArgumentType]
    raise UsageError(
        f"there is no extractor {name!r}; choose one of: {', '.join(strategy.name for strategy in _EXTRACTORS)}"
    )
