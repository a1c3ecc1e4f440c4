"""``egraph-opt``: commands, and what happens to errors."""

from __future__ import annotations

import sys

import typer

from egraph_opt import __version__
from egraph_opt.cli import (
    axioms,
    bisect,
    compare,
    costs,
    doctor,
    explain,
    extract,
    generate,
    optimize,
    record,
    rules,
    verify,
    zoo,
)
from egraph_opt.cli.console import stderr
from egraph_opt.errors import EgraphOptError

app = typer.Typer(
    name="egraph-opt",
    help="Turns an ONNX model into a faster one that computes the same, and shows the evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("optimize")(optimize.optimize_command)
app.command("verify")(verify.verify_command)
app.command("explain")(explain.explain_command)
app.command("extract")(extract.extract_command)
app.command("compare")(compare.compare_command)
rules.app.command("generate")(generate.generate_command)
rules.app.command("record")(record.record_command)
rules.app.command("bisect")(bisect.bisect_command)
app.add_typer(rules.app, name="rules")
app.add_typer(axioms.app, name="axioms")
app.add_typer(costs.app, name="costs")
app.command("zoo")(zoo.zoo_command)
app.command("report")(zoo.report_command)
app.command("doctor")(doctor.doctor_command)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"egraph-opt {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 the answer is no, 2 usage, 3 invalid model, 4 internal, 5 nothing verified, 6
    budget, 130 interrupted."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except EgraphOptError as error:
        stderr.print(f"egraph-opt: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        stderr.print("egraph-opt: interrupted; nothing was written", markup=False)
        sys.exit(130)
    except Exception as error:
        message = getattr(error, "format_message", None)  # what is wrong with the words on the command line
        if message is None:
            raise
        stderr.print(f"egraph-opt: {message()}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
