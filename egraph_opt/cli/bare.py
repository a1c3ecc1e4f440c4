"""``costs measure`` for a machine that has a GPU and little else: it needs NumPy, CuPy, cuDNN and nvmath."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from egraph_opt.errors import EgraphOptError


def main(words: Sequence[str] | None = None) -> int:
    """Runs ``costs measure ...``; returns the exit code. The options are those of ``egraph-opt costs measure``."""
    parser = argparse.ArgumentParser("egraph-opt costs measure", description="Measure operators on this machine's GPU.")
    parser.add_argument("--signatures", type=Path, required=True, metavar="FILE", help="signatures, one a line")
    parser.add_argument("--database", type=Path, required=True, metavar="FILE", help="where measurements are kept")
    parser.add_argument("--choices", type=Path, metavar="FILE", help="the fastest library calls, read and written")
    parser.add_argument("--time-limit", type=float, metavar="S", help="stop after so many seconds")
    parser.add_argument("--fast", action="store_true", help="let float32 products and convolutions use TF32")
    given = parser.parse_args(sys.argv[3:] if words is None else words)
    from egraph_opt.runtime.cuda.measure import measure_into

    try:
        print(measure_into(given.database, given.signatures, choices=given.choices, time_limit=given.time_limit,
                           fast=given.fast))  # fmt: skip
    except EgraphOptError as error:
        print(f"egraph-opt: {error}", file=sys.stderr)
        return error.exit_code
    return 0
