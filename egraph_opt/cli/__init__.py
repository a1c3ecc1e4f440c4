"""The command line: one file per command, and one table of exit codes."""

from egraph_opt.cli.app import main

__all__ = ["main"]
