"""``egraph-opt``: commands, and what happens to errors."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from egraph_opt import __version__
from egraph_opt.cli import INTERRUPTED
from egraph_opt.cli.console import stderr
from egraph_opt.errors import EgraphOptError

COMMANDS = {
    "optimize": "optimize:optimize_command",
    "verify": "verify:verify_command",
    "explain": "explain:explain_command",
    "extract": "extract:extract_command",
    "compare": "compare:compare_command",
    "rules": "rules:app",
    "axioms": "axioms:app",
    "costs": "costs:app",
    "zoo": "zoo:zoo_command",
    "report": "zoo:report_command",
    "doctor": "doctor:doctor_command",
}
"""Commands, and groups of them, in the order in which the help shows them: module in this package, and what in it."""


class Commands(TyperGroup):
    """Says of an interrupt that it is one; typer would end with its exit code and no word."""

    def invoke(self, ctx: Any) -> Any:
        """The command that was asked for; ``Abort`` if it is interrupted."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None


def program(words: Sequence[str] = ()) -> typer.Typer:
    """The command line as far as ``words`` need it: with the command that they begin with, or else with all.

    No command waits for the libraries of the others.
    """
    made = typer.Typer(
        name="egraph-opt",
        cls=Commands,
        help="Turns an ONNX model into a faster one that computes the same, and shows the evidence.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback()(_options)
    for name in [word for word in words[:1] if word in COMMANDS] or COMMANDS:
        module, _, member = COMMANDS[name].partition(":")
        found = getattr(import_module(f"egraph_opt.cli.{module}"), member)
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=name)
        else:
            made.command(name)(found)
    return made


def _version(value: bool) -> None:
    if value:
        typer.echo(f"egraph-opt {__version__}")
        raise typer.Exit


def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 the answer is no, 2 usage, 3 invalid model, 4 internal, 5 nothing verified, 6
    budget, 130 interrupted."""
    try:
        sys.exit(program(sys.argv[1:])(standalone_mode=False) or 0)
    except EgraphOptError as error:
        _say(f"egraph-opt: {error}")
        sys.exit(error.exit_code)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except typer.Abort:
        _say(INTERRUPTED)
        sys.exit(130)
    except OSError as error:  # a full disk, a folder that is gone, a pipe that nobody reads
        if error.errno is None:
            raise
        if error.errno != errno.EPIPE:
            where = f" {error.filename}" if error.filename else ""
            _say(f"egraph-opt: cannot read or write{where}: {error.strerror}")
        sys.exit(2)
    except Exception as error:
        message = getattr(error, "format_message", None)  # what is wrong with the words on the command line
        if message is None:
            raise
        _say(f"egraph-opt: {message()}")
        sys.exit(2)


def _say(sentence: str) -> None:
    stderr.print(sentence, markup=False, highlight=False, soft_wrap=True)
