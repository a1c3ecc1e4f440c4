"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RuleFiles = Annotated[
    list[Path],
    typer.Option("--rules", metavar="FILE", help="Rules of your own, besides those that ship; checked once."),
]
CostModelFile = Annotated[
    Path | None,
    typer.Option("--cost-model", metavar="FILE", help="Prices of your own: a .toml or .json table, or a .py file."),
]
