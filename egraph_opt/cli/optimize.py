"""``egraph-opt optimize``."""

from __future__ import annotations

import sys
import traceback
import zipfile
from pathlib import Path

import numpy as np
import onnx_ir
import typer

from egraph_opt.api import write_result
from egraph_opt.cli.console import ProgressLine, parse_shape_sets, parse_shapes, split_names, stderr
from egraph_opt.cli.options import CostModelFile, RuleFiles
from egraph_opt.cli.output import STDOUT, check_outputs, write_json
from egraph_opt.cli.show import show_report
from egraph_opt.egraph.serialize import write_egraph
from egraph_opt.errors import EgraphOptError, UsageError
from egraph_opt.extraction import extractors
from egraph_opt.onnx_io import load_model
from egraph_opt.pipeline import Options, Outcome, Run

EXIT = {Outcome.REJECTED: 5, Outcome.FAILED: 4}


def optimize_command(
    model: Path = typer.Argument(..., metavar="IN", help="An ONNX file."),
    output: Path | None = typer.Option(
        None, "-o", "--output", metavar="OUT", help="Where to write; without it, only report."
    ),
    target: str = typer.Option("ort-cpu", help="Whose costs count: ort-cpu (measured), analytic[:h100], cuda[:h100]."),
    extractor: str = typer.Option(
        "ilp", help=f"How the cheapest graph is picked: {', '.join(e.name for e in extractors())}."
    ),
    layout: str = typer.Option(
        "joint", help="cuda: how layouts are picked: joint (with the graph), sequential, layout, substitutions."
    ),
    numerics: str = typer.Option("standard", help="What rewrites may do to rounding: exact, standard, fast."),
    effort: str = typer.Option(
        "standard", help="Which rules load: standard; thorough (also those that enlarge the e-graph: small models)."
    ),
    shape: list[str] = typer.Option([], metavar="NAME:1,3,224,224", help="Fix the shape of an input."),
    measure_shape: list[str] = typer.Option(
        [], metavar="NAME:1,3,224,224", help="Measure at this shape; the model stays dynamic. Again: another size."
    ),
    threads: int = typer.Option(1, help="Threads of ONNX Runtime in every measurement."),
    time_limit: float | None = typer.Option(None, metavar="S", help="Seconds for everything."),
    memory_limit: float = typer.Option(8.0, metavar="GB", help="Memory of the saturation worker."),
    rule_files: RuleFiles = [],  # noqa: B006 - typer copies it
    cost_model: CostModelFile = None,
    skip_rules: list[str] = typer.Option([], metavar="a,b", help="Rules or families to leave out."),
    only_rules: list[str] = typer.Option([], metavar="a,b", help="Rules or families to use, and no others."),
    keep_opset: bool = typer.Option(False, help="Never raise the opset."),
    provenance: bool = typer.Option(
        True, "--provenance/--no-provenance", help="Metadata of each node: which nodes it comes from, by which rules."
    ),
    seed: int = typer.Option(0, help="Seed of every random choice."),
    verify_inputs: Path | None = typer.Option(None, metavar="FILE.npz", help="Your own inputs to verify on as well."),
    save_egraph: Path | None = typer.Option(None, metavar="FILE", help="Write the e-graph with its costs as JSON."),
    json_file: Path | None = typer.Option(
        None, "--json", metavar="FILE", help="Write the report as JSON; - for stdout."
    ),
    no_measure: bool = typer.Option(False, help="Choose by estimated cost alone; nothing is timed end to end."),
    lazy_costs: bool = typer.Option(False, help="Measure only operators that can still change the answer."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress, no tables."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="More detail, and the traceback of an internal error."),
) -> None:
    """Optimize a model, verify the result against the original, and keep whichever is faster."""
    options = Options(
        target=target,
        extractor=extractor,
        layout=layout,  # type: ignore[arg-type]
        numerics=numerics,  # type: ignore[arg-type]
        effort=effort,  # type: ignore[arg-type]
        shapes=parse_shapes("--shape", shape),
        measure_shapes=parse_shape_sets("--measure-shape", measure_shape),
        threads=threads,
        time_limit=time_limit,
        memory_limit=memory_limit,
        rule_files=rule_files,
        cost_model=cost_model or "",
        skip_rules=split_names(skip_rules),
        only_rules=split_names(only_rules),
        keep_opset=keep_opset,
        provenance=provenance,
        seed=seed,
        verify_inputs=_inputs(verify_inputs),
        measure=not no_measure,
        lazy_costs=lazy_costs,
    )
    options.check()
    read = (verify_inputs, cost_model, *rule_files)
    check_outputs(output, apart_from=read, special=False)  # it may be the model itself
    check_outputs(save_egraph, json_file, apart_from=(model, output, *read))
    original = load_model(model)
    run = Run(original.clone(), options, None)
    with ProgressLine(quiet) as line:
        run.on_progress = line
        result = _run(run, original, verbose)
    if output is not None:
        write_result(result, run, model, output)
    if save_egraph is not None and run.frozen is not None and run.prices is not None:
        run.prices.settle()  # a file holds costs, not bounds
        write_egraph(save_egraph, run.frozen.egraph, run.prices.seconds)
    if json_file is not None:
        write_json(json_file, run.report.to_json())
    if not quiet and json_file != STDOUT:
        show_report(run.report, model, output, verbose=verbose)
    code = EXIT.get(run.report.outcome, 0)
    if run.report.outcome == Outcome.BUDGET:
        code = 6
    raise typer.Exit(code)


def _run(run: Run, original: onnx_ir.Model, verbose: bool) -> onnx_ir.Model:
    """The result; after an internal error, the original, with the error in the report."""
    try:
        return run.run()
    except EgraphOptError as error:
        if error.exit_code != 4:
            raise
        failure = error
    except Exception as error:  # the original must survive our faults, whatever they are
        failure = error
    if verbose:
        traceback.print_exception(failure, file=sys.stderr)
    run.report.outcome, run.report.reason = Outcome.FAILED, f"internal error: {type(failure).__name__}: {failure}"
    run.report.after = run.report.before
    stderr.print(
        f"egraph-opt: {run.report.reason}\nThe original is kept. Run with -v for details, and please report this.",
        markup=False,
        soft_wrap=True,
    )
    return original


def _inputs(path: Path | None) -> dict[str, np.ndarray] | None:
    if path is None:
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"--verify-inputs {path} is no .npz file of arrays: {error}") from None
