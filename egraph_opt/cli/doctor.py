"""``egraph-opt doctor``."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import typer

from egraph_opt.cli.console import stdout, table
from egraph_opt.runtime import CostDatabase, cache_folder, cpu_name
from egraph_opt.runtime.cuda import report as gpu_report


def doctor_command() -> None:
    """Check the installation: versions, the cache of costs, and whether the saturation worker starts. Exit 1 if not."""
    made = table("", "part", "state", "detail")
    good = True
    for name, check in CHECKS.items():
        try:
            detail = check()
            made.add_row(name, "ok", detail)
        except Exception as error:  # a doctor reports whatever is wrong
            good = False
            made.add_row(name, "BAD", f"{type(error).__name__}: {error}")
    for name, detail, fine in gpu_report():  # optional: a machine without a GPU is no fault
        made.add_row(name, "ok" if fine else "-", detail)
    stdout.print(made)
    raise typer.Exit(0 if good else 1)


def _package(name: str, module: str) -> Callable[[], str]:
    def check() -> str:
        importlib.import_module(module)
        try:
            return version(name)
        except PackageNotFoundError:
            return "installed"

    return check


def _worker() -> str:
    from egraph_opt.ir import TensorGraph, TensorType
    from egraph_opt.rewrites.library import all_rules
    from egraph_opt.saturation import saturate

    graph = TensorGraph()
    x = graph.add("Input", ("x",), (), TensorType("float32", (2,)))
    graph.outputs = (graph.add("Relu", (), (x,), TensorType("float32", (2,))),)
    report = saturate(graph, all_rules()).report
    return f"starts and saturates in {report.seconds:.1f} s ({report.reason})"


def _cache() -> str:
    stored = CostDatabase.open()
    count = len(stored.rows())
    stored.close()
    return f"{count} measured operators in {cache_folder()}"


CHECKS: dict[str, Callable[[], str]] = {
    "python": platform.python_version,
    "processor": lambda: f"{cpu_name()}, {os.cpu_count()} threads",
    "onnx": _package("onnx", "onnx"),
    "onnx-ir": _package("onnx-ir", "onnx_ir"),
    "onnxruntime": _package("onnxruntime", "onnxruntime"),
    "egglog": _package("egglog", "egglog"),
    "highspy": _package("highspy", "highspy"),
    "cost cache": _cache,
    "saturation worker": _worker,
}
