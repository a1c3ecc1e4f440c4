"""``egraph-opt rules bisect``."""

from __future__ import annotations

from pathlib import Path

import typer

from egraph_opt.cli.console import ProgressLine, parse_shape_sets, split_names, stdout
from egraph_opt.cli.options import CostModelFile, RuleFiles
from egraph_opt.cli.output import STDOUT, check_outputs, write_json
from egraph_opt.errors import UsageError
from egraph_opt.onnx_io import load_model, save_model
from egraph_opt.pipeline import Options
from egraph_opt.pipeline.bisect import Bisection, bisect
from egraph_opt.pipeline.checks import Command, Disagreement, Slower
from egraph_opt.pipeline.choose import Check
from egraph_opt.rewrites.validation import effective_status


def bisect_command(
    model: Path = typer.Argument(..., metavar="IN", help="An ONNX file."),
    check: str = typer.Option("", metavar="COMMAND", help="Its status decides; {model} is the model. 0: no fault."),
    slower: bool = typer.Option(False, "--slower", help="The fault is to be slower than the original."),
    output: Path | None = typer.Option(None, "-o", "--output", metavar="DIR", help="Write the pair of models there."),
    seconds: float = typer.Option(300.0, metavar="S", help="Time after which no further set of rules is tried."),
    target: str = typer.Option("ort-cpu", help="This and what follows: as for optimize."),
    extractor: str = typer.Option("ilp"),
    numerics: str = typer.Option("standard"),
    effort: str = typer.Option("standard"),
    measure_shape: list[str] = typer.Option([], metavar="NAME:1,3,224,224"),
    rule_files: RuleFiles = [],  # noqa: B006 - typer copies it
    cost_model: CostModelFile = None,
    skip_rules: list[str] = typer.Option([], metavar="a,b"),
    only_rules: list[str] = typer.Option([], metavar="a,b"),
    keep_opset: bool = typer.Option(False, "--keep-opset"),
    json_file: Path | None = typer.Option(None, "--json", metavar="FILE", help="Write the answer; - for stdout."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="No progress."),
) -> None:
    """Find the smallest set of rules that leads to a fault: wrong results (the default), less speed, or whatever a
    command finds fault with.

    The model is optimized again and again with fewer rules, by estimated costs. Exit 0: no fault shows; 1: it does, and
    the rules are named if it shows again. With -o a pair of models that shows it is written: a part of the model, if
    that is enough."""
    if check and slower:
        raise UsageError("--check and --slower are two ways to find fault: choose one")
    options = Options(
        target=target,
        extractor=extractor,
        numerics=numerics,  # type: ignore[arg-type]
        effort=effort,  # type: ignore[arg-type]
        measure_shapes=parse_shape_sets("--measure-shape", measure_shape),
        rule_files=rule_files,
        cost_model=cost_model or "",
        skip_rules=split_names(skip_rules),
        only_rules=split_names(only_rules),
        keep_opset=keep_opset,
    )
    options.check()
    check_outputs(json_file, apart_from=(model, cost_model, *rule_files))
    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(f"cannot write {output}: it is no folder")
    asked: Check = Command(check) if check else Slower(options) if slower else Disagreement(options)
    with ProgressLine(quiet) as line:
        found = bisect(load_model(model), asked, options, seconds=seconds, on_progress=line)
    written = _write(found, output) if output is not None and found.pair is not None else []
    if json_file is not None:
        write_json(json_file, _as_json(found, written))
    if json_file != STDOUT:
        _show(found, written)
    raise typer.Exit(1 if found.fault else 0)


def _show(found: Bisection, written: list[Path]) -> None:
    if not found.fault:
        _print(f"No fault shows in what {found.loaded} rules lead to.")
        return
    _print(f"The fault, with all {found.loaded} rules: {found.fault}")
    if not found.again:
        _print("It did not show a second time with the rules that fired: by chance, or since it takes longer to find.")
        _print("No rule is named.")
    elif not found.rules:
        _print("It shows without any rule: the model is read or written wrongly; please report this.")
    else:
        sure = "none of them can be left out" if found.minimal else "time ran out, so there may be fewer"
        _print(f"{len(found.rules)} of them are enough ({sure}; {found.tried} sets tried):")
    for rule in found.rules:
        _print(f"  {rule.name}: {rule.equation}")
        _print(f"    family {rule.family}, {effective_status(rule)}, rounding: {rule.float_class}")
    if found.pair is not None and found.rules:
        of = "A part of the model" if found.is_part else "Only the whole model"
        nodes = [sum(1 for _ in m.graph.all_nodes()) for m in (found.pair.original, found.pair.faulty)]
        _print(f"{of} shows it, with {nodes[0]} nodes before and {nodes[1]} after: {found.pair.said}")
        _print(f"Without: egraph-opt optimize ... --skip-rules {','.join(r.name for r in found.rules)}")
    for path in written:
        _print(f"wrote {path}")


def _write(found: Bisection, folder: Path) -> list[Path]:
    assert found.pair is not None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from None
    paths = [folder / "original.onnx", folder / "faulty.onnx"]
    for path, model in zip(paths, (found.pair.original, found.pair.faulty), strict=True):
        save_model(model, path)
    return paths


def _as_json(found: Bisection, written: list[Path]) -> dict[str, object]:
    rules = [{"name": r.name, "equation": r.equation, "when": list(r.when), "family": r.family} for r in found.rules]
    return {
        "fault": found.fault,
        "loaded": found.loaded,
        "rules": rules,
        "minimal": found.minimal,
        "tried": found.tried,
        "again": found.again,
        "part": found.is_part,
        "said of the pair": found.pair.said if found.pair else "",
        "written": [str(path) for path in written],
    }


def _print(text: str) -> None:
    stdout.print(text, markup=False, soft_wrap=True)
