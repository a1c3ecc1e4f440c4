"""Finds every operator: each module of ``egraph_opt.ops.defs`` ends with ``OPERATORS``.

A module may also list ``IMPORTERS``: ONNX operators that are no operator of ours, because they become a constant or the
operand itself on the way in.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from egraph_opt.ops import defs
from egraph_opt.ops.base import Operator


@cache
def operators() -> dict[str, Operator]:
    """The table, by name, in a stable order."""
    table: dict[str, Operator] = {}
    for module in _modules():
        for declared in module.OPERATORS:
            assert declared.name not in table, f"operator {declared.name} is declared twice"
            table[declared.name] = declared
    return table


@cache
def operator(name: str) -> Operator:
    """The operator called ``name``.

    Raises:
        KeyError: there is none.
    """
    return operators()[name]


@cache
def importers() -> dict[str, Operator]:
    """The operator that understands each ONNX operator of the default domain."""
    table = {onnx_name: declared for declared in operators().values() for onnx_name in declared.onnx_names}
    for module in _modules():
        for declared in getattr(module, "IMPORTERS", ()):
            table |= dict.fromkeys(declared.onnx_names, declared)
    return table


def _modules() -> list[ModuleType]:
    names = sorted(m.name for m in pkgutil.iter_modules(defs.__path__))
    return [importlib.import_module(f"{defs.__name__}.{name}") for name in names]
