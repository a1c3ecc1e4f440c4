"""egglog's engine, without the Python package around it.

``import egglog`` brings in a formatter, a notebook display and a language of its own, which take some tenths of a
second to load; the compiled module needs none of them. It is registered under its own name, so that whoever imports
the package too gets the same module.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from egglog import bindings
else:

    def _load():
        name = "egglog.bindings"
        if name not in sys.modules:
            package = importlib.util.find_spec("egglog")  # of the package itself, which this does not run
            spec = PathFinder.find_spec(name, package.submodule_search_locations)
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]

    bindings = _load()

__all__ = ["bindings"]
