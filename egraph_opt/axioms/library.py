"""The axioms that ship."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from egraph_opt.axioms import laws
from egraph_opt.axioms.record import Axiom


@cache
def all_axioms() -> tuple[Axiom, ...]:
    """Every axiom, in a stable order: by family, then as written."""
    modules = sorted(m.name for m in pkgutil.iter_modules(laws.__path__))
    found: tuple[Axiom, ...] = tuple(a for m in modules for a in importlib.import_module(f"{laws.__name__}.{m}").AXIOMS)
    names = [a.name for a in found]
    assert len(set(names)) == len(names), "two axioms have one name"
    return found
