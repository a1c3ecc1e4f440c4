"""Which files are models of a zoo, and when one counts as changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from egraph_opt.errors import UsageError
from egraph_opt.zoo import Journal, Shard, discover, enter_round
from egraph_opt.zoo.discover import digest


def names(folder: Path, shard: Shard | None = None) -> list[str]:
    return [source.name for source in discover(folder, shard)]


def test_models_at_any_depth_by_name(folder: Path) -> None:
    (folder / "notes.txt").write_text("no model")
    (folder / "UPPER.ONNX").write_bytes(b"")
    assert names(folder) == ["UPPER.ONNX", "deep/deeper/nothing.onnx", "deep/transpose.onnx", "relu.onnx", "scale.onnx"]


def test_hidden_folders_and_runs_are_passed_over(folder: Path) -> None:
    shutil.copytree(folder / "deep", folder / ".hidden")
    with Journal(folder / "out") as journal:
        enter_round(journal, folder, {})
    shutil.copytree(folder / "deep", folder / "out" / "models")
    assert len(names(folder)) == 4


def test_names_can_always_be_written(folder: Path) -> None:
    path = os.fsencode(folder) + b"/odd\xff.onnx"
    os.close(os.open(path, os.O_CREAT))
    assert "odd\\xff.onnx" in names(folder)
    assert all(source.path.exists() for source in discover(folder))


def test_shards_are_a_partition(folder: Path) -> None:
    for count in (1, 2, 3, 4):
        parts = [names(folder, Shard(index, count)) for index in range(1, count + 1)]
        assert sorted(name for part in parts for name in part) == names(folder)
    assert names(folder, Shard(5, 5)) == []


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/2/3", "-1/2", "1/0"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(UsageError, match="i/n"):
        Shard.parse(text)


def test_nothing_to_do_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        discover(tmp_path / "absent")
    with pytest.raises(UsageError, match=r"no \.onnx file"):
        discover(tmp_path)


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """A model with a weight in another file, in a branch of an If."""
    weight = numpy_helper.from_array(np.arange(1000, dtype=np.float32), "w")
    branch = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["b"])],
        "then",
        [],
        [helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [1000])],
        [weight],
    )
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "else", [], list(branch.output))
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1000]) for n in "xy")
    condition = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    model = helper.make_model(helper.make_graph([node], "g", [x, condition], [y]))
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").stat().st_size == 4000
    return path


def test_external_data_is_content(external: Path) -> None:
    before = digest(external)
    assert digest(external) == before
    data = bytearray((external.parent / "weights.bin").read_bytes())
    data[1234] ^= 1
    (external.parent / "weights.bin").write_bytes(data)
    assert digest(external) != before


def test_content_does_not_depend_on_the_name(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copy(folder / "relu.onnx", tmp_path / "other.onnx")
    assert digest(Path(copied)) == digest(folder / "relu.onnx") != digest(folder / "scale.onnx")


def test_a_file_that_is_no_model_has_a_digest(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"\xff\xff\xff")
    assert len(digest(tmp_path / "broken.onnx")) == 64
