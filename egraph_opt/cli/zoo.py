"""``egraph-opt zoo`` and ``egraph-opt report``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import typer

from egraph_opt.cli.console import split_names, stderr, stdout, table
from egraph_opt.cli.options import CostModelFile, RuleFiles
from egraph_opt.cli.output import STDOUT, check_outputs, write_json
from egraph_opt.cli.zoo_progress import VIEWS, view
from egraph_opt.errors import UsageError
from egraph_opt.units import size
from egraph_opt.zoo import (
    Batch,
    Journal,
    Outcome,
    Record,
    Rerun,
    Settings,
    Shard,
    Source,
    discover,
    earlier,
    enter_round,
    latest,
    read_records,
    read_rounds,
    regressions,
    summarize,
    write_report,
)

FAIL_ON = ("regression", "unsupported")
RERUN = get_args(Rerun)[1:]
PROGRESS = ("auto", *VIEWS)


def zoo_command(
    context: typer.Context,
    folder: Path = typer.Argument(..., metavar="DIR", help="Where the models are, at any depth."),
    out: Path = typer.Option(..., metavar="DIR", help="The run folder: results, optimized models, report."),
    jobs: int = typer.Option(1, min=1, help="Models at once; one at a time disturbs measurements least."),
    resume: bool = typer.Option(False, "--resume", help="Finish the run that is in --out."),
    rerun: str | None = typer.Option(None, metavar="failed|changed|all", help="Do these models of the run again."),
    shard: str | None = typer.Option(None, metavar="I/N", help="Only every N-th model, from the I-th on."),
    fail_on: list[str] = typer.Option([], metavar="regression|unsupported", help="Exit 1 for this too."),
    baseline: Path | None = typer.Option(None, metavar="RUN", help="Regressions are against this, not the last round."),
    progress: str = typer.Option("auto", metavar="auto|bars|lines|json|none", help="json: an event a line, on stdout."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the summary; - for stdout."),
    time_limit: float = typer.Option(600.0, metavar="S", help="A model that takes longer is stopped."),
    memory_limit: float = typer.Option(8.0, metavar="GB", help="Data of each process of a model."),
    target: str = typer.Option("ort-cpu", help="This and what follows: as for optimize."),
    extractor: str = typer.Option("ilp"),
    numerics: str = typer.Option("standard"),
    effort: str = typer.Option("standard"),
    threads: int = typer.Option(1),
    seed: int = typer.Option(0),
    rule_files: RuleFiles = [],  # noqa: B006 - typer copies it
    cost_model: CostModelFile = None,
    skip_rules: list[str] = typer.Option([], metavar="a,b"),
    only_rules: list[str] = typer.Option([], metavar="a,b"),
    keep_opset: bool = typer.Option(False, "--keep-opset"),
    provenance: bool = typer.Option(True, "--provenance/--no-provenance"),
    measure: bool = typer.Option(True, "--measure/--no-measure"),
) -> None:
    """Optimize every model below a folder, each in a process of its own, and write a report.

    Killed at any moment, --resume does what is left. With --resume and --rerun, options that are not given are those of
    the run. Exit 0: nothing failed; 1: a model failed (rejected by verification, timeout, out of memory, crashed,
    error), or a --fail-on condition holds; 2: usage, also where there is no model; 130: interrupted, and what is
    finished is kept."""
    _check_words(rerun, fail_on, progress)
    check_outputs(json_file)
    models = discover(folder, Shard.parse(shard) if shard else None)
    before = latest(_records(baseline)) if baseline else None
    with Journal(out) as journal:
        enter_round(journal, folder, _given(context), resume=resume, rerun=rerun)  # type: ignore[arg-type]
        _run(journal, models, jobs, progress)
        every = list(journal.records)
    records = latest(every)
    now = {source.name: records[source.name] for source in models}
    worse = regressions(now, before if before is not None else earlier(every))
    pages = write_report([out], out)
    summary = {**summarize(list(now.values())), "regressions": worse, "report": [str(page) for page in pages]}
    if json_file is not None:
        write_json(json_file, summary)
    if progress == "json":
        typer.echo(json.dumps({"event": "done", "summary": summary}))
    elif json_file != STDOUT:
        _show(summary, list(now.values()))
    raise typer.Exit(_exit_code(summary, fail_on))


def report_command(
    runs: list[Path] = typer.Argument(..., metavar="RUN...", help="Run folders; several are shards of one run."),
    out: Path | None = typer.Option(None, metavar="DIR", help="Where to write; the run folder itself if it is one."),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the summary; - for stdout."),
) -> None:
    """Write results.csv and report.html of a run, also of one that is not finished."""
    if out is None and len(runs) > 1:
        raise UsageError("--out DIR: say where the report of several runs goes")
    check_outputs(json_file)
    records = [record for run in runs for record in latest(_records(run)).values()]
    pages = write_report(runs, out or runs[0])
    summary = {**summarize(records), "report": [str(page) for page in pages]}
    if json_file is not None:
        write_json(json_file, summary)
    if json_file != STDOUT:
        _show(summary, records)


def _run(journal: Journal, models: Sequence[Source], jobs: int, progress: str) -> None:
    try:
        with view(progress) as shown:
            Batch(journal, jobs, on_event=shown).run(models)
    except KeyboardInterrupt:
        stderr.print("egraph-opt: interrupted; what is finished is kept, and --resume does the rest", soft_wrap=True)
        raise typer.Exit(130) from None


def _given(context: typer.Context) -> dict[str, Any]:
    """The settings that stand on the command line."""
    names = [field.name for field in dataclasses.fields(Settings)]
    sources = {n: context.get_parameter_source(n) for n in names}
    chosen = [n for n, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    return {n: _plain(context.params[n]) for n in chosen}


def _plain(value: Any) -> Any:
    """A setting as it is written down: names one by one, paths that hold from any folder."""
    if isinstance(value, Path):
        return str(value.absolute())
    if isinstance(value, list):
        return [_plain(v) for v in value] if any(isinstance(v, Path) for v in value) else split_names(value)
    return value


def _check_words(rerun: str | None, fail_on: Sequence[str], progress: str) -> None:
    for option, words, known in (
        ("--rerun", [rerun] if rerun else [], RERUN),
        ("--fail-on", fail_on, FAIL_ON),
        ("--progress", [progress], PROGRESS),
    ):
        for word in words:
            if word not in known:
                raise UsageError(f"{option} {word}: choose one of {', '.join(known)}")


def _records(run: Path) -> list[Record]:
    read_rounds(run)  # says so where there is no run
    return read_records(run)


def _show(summary: Mapping[str, Any], records: Sequence[Record]) -> None:
    made = table(f"{summary['models']} models", "outcome", "models", right=(1,))
    for outcome, count in summary["outcomes"].items():
        if count:
            made.add_row(outcome, str(count))
    stdout.print(made)
    for record in records:
        if record.outcome.failed or record.outcome is Outcome.UNSUPPORTED:
            stdout.print(f"  {record.model}: {record.outcome}: {record.reason}", markup=False, soft_wrap=True)
    for model, why in summary.get("regressions", {}).items():
        stdout.print(f"  {model}: worse than before: {why}", markup=False, soft_wrap=True)
    if summary["speedup_changed"]:
        stdout.print(
            f"{summary['speed']} speed against the original: {summary['speedup_changed']:.2f} x where it changed,"
            f" {summary['speedup_all']:.2f} x over all (geometric means)",
            soft_wrap=True,
        )
    peak = size(summary["peak_memory"])
    stdout.print(f"{summary['seconds']:.0f} s, CPU {summary['cpu_seconds']:.0f} s; largest process {peak}")
    for page in summary["report"]:
        stdout.print(f"wrote {page}", markup=False, soft_wrap=True)


def _exit_code(summary: Mapping[str, Any], fail_on: Sequence[str]) -> int:
    bad = summary["failed"] > 0
    bad |= "regression" in fail_on and bool(summary["regressions"])
    bad |= "unsupported" in fail_on and summary["outcomes"][Outcome.UNSUPPORTED] > 0
    return 1 if bad else 0
