"""Small models in ONNX's text form, and the shared folder with real ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_ir
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def parse() -> Callable[..., onnx_ir.Model]:
    """A model from ONNX text without its header."""

    def make(text: str, *, ir_version: int = 10, opset: int = 21) -> onnx_ir.Model:
        header = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]> '
        return onnx_ir.from_proto(onnx.parser.parse_model(header + text))

    return make


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The folder of real models; skips where the shared test data is absent."""
    data = Path(os.environ.get("EGRAPH_OPT_DATA", ROOT.parent / "shared"))
    if not (data / "zoo").is_dir():
        pytest.skip(f"no folder {data / 'zoo'}: set EGRAPH_OPT_DATA to the shared test data")
    return data / "zoo"
