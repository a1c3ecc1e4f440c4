"""The command line: one file per command, and one table of exit codes."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from egraph_opt.startup import quick_start

INTERRUPTED = "egraph-opt: interrupted; nothing was written"


def main() -> None:
    """Entry point; see ``app.main`` for the exit codes. ``costs measure`` runs without what other commands need."""
    try:
        _main()
    except KeyboardInterrupt:  # while libraries load
        print(INTERRUPTED, file=sys.stderr)
        sys.exit(130)


def _main() -> None:
    quick_start()
    if sys.argv[1:3] == ["costs", "measure"] and not all(map(find_spec, ("typer", "rich", "onnx_ir", "onnxruntime"))):
        from egraph_opt.cli.bare import main as bare

        sys.exit(bare())
    from egraph_opt.cli.app import main as run

    run()


__all__ = ["INTERRUPTED", "main"]
