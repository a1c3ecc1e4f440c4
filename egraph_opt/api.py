"""The Python interface: one verb, a result, and nothing of the caller's is changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import onnx
import onnx_ir

from egraph_opt.errors import UsageError
from egraph_opt.onnx_io import copy_model, external_files, load_model, save_model, to_ir
from egraph_opt.pipeline import OnProgress, Options, Outcome, Report, Run
from egraph_opt.rewrites import Rule
from egraph_opt.runtime.side_file import keep_beside, write_beside

Model = str | Path | onnx.ModelProto | onnx_ir.Model


@dataclass(frozen=True)
class OptimizeResult:
    """What ``optimize`` returns.

    Attributes:
        model: the optimized model, or the original where nothing better was found; of the kind that was given
            (``onnx_ir.Model`` for a path).
        report: every number of the run; ``report.to_json()`` is what ``--json`` writes.
        run: the run itself, with its e-graph and prices, for those who want to look inside.
    """

    model: onnx.ModelProto | onnx_ir.Model
    report: Report
    run: Run

    @property
    def verified(self) -> bool:
        """Whether the model was compared with the original and found equivalent, or is the original."""
        return self.report.outcome in (Outcome.OPTIMIZED, Outcome.UNCHANGED, Outcome.BUDGET)

    @property
    def changed(self) -> bool:
        """Whether the model is another one than was given."""
        return self.report.outcome == Outcome.OPTIMIZED


def optimize(
    model: Model,
    *,
    on_progress: OnProgress | None = None,
    rules: tuple[Rule, ...] = (),
    **options: Any,
) -> OptimizeResult:
    """A faster model that computes the same.

    Args:
        model: a path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it is not changed.
        on_progress: called with a ``Progress`` while the work goes on.
        rules: rules to use instead of those that ship.
        **options: fields of ``egraph_opt.Options``: ``target="ort-cpu"``, ``numerics="standard"``...

    Raises:
        UsageError: an option does not exist or does not fit the model.
        InvalidModelError: the model is not valid.
    """
    try:
        chosen = Options(**options)
    except TypeError as error:
        raise UsageError(f"unknown option: {error}") from None
    run = Run(to_ir(model), chosen, on_progress, rules)
    result = run.run()
    wanted = onnx_ir.to_proto(result) if isinstance(model, onnx.ModelProto) else result
    return OptimizeResult(cast("onnx.ModelProto | onnx_ir.Model", wanted), run.report, run)


def optimize_file(source: str | Path, destination: str | Path, **options: Any) -> Report:
    """``optimize`` from file to file; the destination is replaced in one step, and may be the source.

    Raises:
        UsageError, InvalidModelError: as ``optimize``; also when the destination cannot be written.
    """
    model = load_model(source)
    result = optimize(model, **options)
    write_result(cast(onnx_ir.Model, result.model), result.run, source, destination)
    return result.report


def write_result(model: onnx_ir.Model, run: Run, source: str | Path, destination: str | Path) -> None:
    """Writes what ``run`` made of the file ``source``; where the original is kept, the file byte for byte,
    with the orders of values that lie beside it, if they are of this model.

    With weights in other files, or ``shapes`` that were fixed, the original is written anew.

    Raises:
        UsageError: the destination cannot be written.
    """
    if run.report.outcome != Outcome.OPTIMIZED:
        keep_beside(model, source)  # first: the destination may be the source
    if run.report.outcome == Outcome.OPTIMIZED or run.options.shapes or external_files(source):
        save_model(model, destination)
    else:
        copy_model(source, destination)
    write_beside(model, destination)
