"""What a process of ours does before it loads anything else: it starts in half the time, and leaves the cores alone."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

SELDOM_NEEDED = frozenset({"sympy", "onnx_ir._symbolic_shapes"})
"""Loaded at their first use: onnx_ir asks for them at its import, and uses them for sums and products of sizes only."""

_GARBAGE = (50_000, 20, 50)
"""Objects between two looks for garbage. Nearly all that a command makes lives as long as it does, and each look at
all of it takes the longer the larger the model is."""


def quick_start() -> None:
    """For programs, not for a library within another's program: it sets what belongs to the whole process.

    NumPy gets one thread (unless the user's environment says otherwise): ours are small products, and the threads of
    OpenBLAS wait busily for the next one.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(*_GARBAGE)
    if not any(isinstance(finder, _WhenNeeded) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenNeeded())


def command_of(module: str) -> list[str]:
    """The command line of a process of ours that runs ``main`` of a module, after a quick start."""
    entry = f"from {__name__} import quick_start; quick_start(); from {module} import main; main()"
    return [sys.executable, "-c", entry]


class _WhenNeeded(MetaPathFinder):
    """Finds the modules that are seldom needed, and lets them run when something of theirs is first asked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in SELDOM_NEEDED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec
