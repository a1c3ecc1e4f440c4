"""Where the original is kept, the file that is written is its copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from egraph_opt import UsageError, optimize_file

QUICK = {"target": "analytic", "measure": False}
UNKNOWN = b"\xfa\x7f\x03new"
"""A field that a later ONNX may have; a library that reads the message and writes it again may drop or move it."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    text = '<ir_version: 8, opset_import: ["" : 17], doc_string: "d"> g (float[N,4] x) => (float[N,4] y) { y = Exp(x) }'
    path = tmp_path / "in.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString() + UNKNOWN)
    return path


def test_every_byte_is_kept(source: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    assert optimize_file(source, tmp_path / "out.onnx", **QUICK).outcome == "unchanged"
    assert (tmp_path / "out.onnx").read_bytes() == source.read_bytes()
    cli("optimize", source, "-o", tmp_path / "again.onnx", "--target", "analytic", "--no-measure", "-q")
    assert (tmp_path / "again.onnx").read_bytes() == source.read_bytes()


def test_onto_itself(source: Path, tmp_path: Path) -> None:
    before, node = source.read_bytes(), source.stat().st_ino
    optimize_file(source, source, **QUICK)
    assert (source.read_bytes(), source.stat().st_ino) == (before, node)
    (tmp_path / "link.onnx").symlink_to(source)
    optimize_file(source, tmp_path / "link.onnx", **QUICK)
    assert source.read_bytes() == before


def test_what_is_to_change_does(source: Path, tmp_path: Path) -> None:
    optimize_file(source, tmp_path / "out.onnx", shapes={"x": (2, 4)}, **QUICK)
    made = onnx.load(tmp_path / "out.onnx").graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_value for d in made] == [2, 4]


def test_weights_elsewhere_come_along(tmp_path: Path) -> None:
    folder, w = tmp_path / "in", np.arange(400, dtype=np.float32).reshape(20, 20)
    folder.mkdir()
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N,20] x) => (float[N,20] y) { y = MatMul(x, w) }'
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert optimize_file(folder / "m.onnx", tmp_path / "out.onnx", **QUICK).outcome == "unchanged"
    shutil.rmtree(folder)
    got = ort.InferenceSession(tmp_path / "out.onnx").run(None, {"x": np.eye(20, dtype=np.float32)})
    np.testing.assert_array_equal(got[0], w)


def test_a_failed_copy_leaves_the_old_file(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    target = tmp_path / "out.onnx"
    target.write_bytes(b"old")
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(UsageError, match="No space"):
        optimize_file(source, target, **QUICK)
    assert target.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.onnx", "out.onnx"]
