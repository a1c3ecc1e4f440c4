"""Files: external data, replacement in one step, and what is not a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from egraph_opt.errors import InvalidModelError, UsageError
from egraph_opt.onnx_io import export_model, import_model, load_model, save_model, to_ir
from egraph_opt.onnx_io import save as saving

X = np.array([-1.5, 2.0], np.float32)


def _model(size: int = 300) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=(size,)).astype(np.float32), n) for n in ("w", "v")]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", "v"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [size])],
        weights,
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def _external(path: Path, location: str = "weights.bin") -> onnx.ModelProto:
    """A model at ``path`` whose weights lie in another file; returns it with the weights inside."""
    inside = _model()
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(
        _model(),
        str(path),
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=location,
        size_threshold=0,
    )
    return inside


def _files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def _same_results(a: Path, b: onnx.ModelProto, tools: Any) -> None:
    x = np.arange(300, dtype=np.float32)
    for new, old in zip(tools.run(onnx.load(str(a)), {"x": x}), tools.run(b, {"x": x}), strict=True):
        np.testing.assert_array_equal(new, old)


# --- external data


def test_external_data_stays_on_disk_and_comes_out_inside(tmp_path: Path, tools: Any) -> None:
    inside = _external(tmp_path / "in" / "m.onnx")
    (tmp_path / "out").mkdir()
    model = load_model(tmp_path / "in" / "m.onnx")
    assert all(isinstance(v.const_value, onnx_ir.ExternalTensor) for v in model.graph.initializers.values())
    imported = import_model(model)
    save_model(export_model(imported, imported.graph), tmp_path / "out" / "m.onnx")
    assert _files(tmp_path / "out") == ["m.onnx"]
    _same_results(tmp_path / "out" / "m.onnx", inside, tools)


@pytest.mark.parametrize(
    ("largest", "files"),
    [
        (10_000, ["m.onnx", "m.onnx.data"]),
        (1500, ["m-00001-of-00002.onnx.data", "m-00002-of-00002.onnx.data", "m.onnx"]),
    ],
)
def test_external_data_is_written_beside_a_large_model(
    largest: int, files: list[str], tmp_path: Path, tools: Any
) -> None:
    inside = _external(tmp_path / "in" / "m.onnx")
    (tmp_path / "out").mkdir()
    save_model(load_model(tmp_path / "in" / "m.onnx"), tmp_path / "out" / "m.onnx", inline=100, largest=largest)
    assert _files(tmp_path / "out") == files
    os.rename(tmp_path / "in", tmp_path / "gone")
    _same_results(tmp_path / "out" / "m.onnx", inside, tools)
    onnx.checker.check_model(str(tmp_path / "out" / "m.onnx"))


@pytest.mark.parametrize("limit", [100, 10**9])
@pytest.mark.parametrize("location", ["weights.bin", "m.onnx.data"])
def test_output_is_the_input_with_external_data(limit: int, location: str, tmp_path: Path, tools: Any) -> None:
    path = tmp_path / "m.onnx"
    inside = _external(path, location)
    model = load_model(path)
    imported = import_model(model)
    save_model(export_model(imported, imported.graph), path, inline=limit)
    _same_results(path, inside, tools)


def test_external_data_stays_where_it_is_until_it_is_written(tmp_path: Path) -> None:
    """A weight that is in the result as it was is never read: no file of weights needs to fit into memory."""
    _external(tmp_path / "m.onnx")
    imported = import_model(load_model(tmp_path / "m.onnx"))
    tensors = [v.const_value for v in export_model(imported, imported.graph).graph.initializers.values()]
    assert len(tensors) == 2
    assert all(isinstance(tensor, onnx_ir.ExternalTensor) and tensor.raw is None for tensor in tensors)


def test_a_file_holds_what_the_model_holds(tmp_path: Path) -> None:
    """Weights are written one by one; read back, the message is the same, whatever the lengths of its parts."""
    for size in (0, 1, 127, 5000, 600_000):
        model = onnx_ir.from_proto(_model(size))
        model.metadata_props["size"] = str(size)
        save_model(model, tmp_path / "m.onnx")
        assert onnx.load(str(tmp_path / "m.onnx")) == onnx_ir.to_proto(model)


def test_data_in_a_folder_below(tmp_path: Path, tools: Any) -> None:
    (tmp_path / "data").mkdir()
    inside = _external(tmp_path / "m.onnx", "data/weights.bin")
    save_model(load_model(tmp_path / "m.onnx"), tmp_path / "n.onnx")
    _same_results(tmp_path / "n.onnx", inside, tools)


def test_two_models_with_data_of_the_same_name(tmp_path: Path, tools: Any) -> None:
    """Constants in external files are told apart by folder, not by name alone."""
    _external(tmp_path / "a" / "m.onnx")
    _external(tmp_path / "b" / "m.onnx")
    keys = {
        frozenset(c.key for c in import_model(load_model(tmp_path / n / "m.onnx")).graph.constants) for n in ("a", "b")
    }
    assert len(keys) == 2


def test_external_data_inside_a_subgraph(tmp_path: Path, tools: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    model = tools.parse(
        "g (float[2] x, bool c) => (float[2] y) { r = Relu(x) y = If(c) <"
        "then_branch = t () => (float[2] z) <float[2] w={3,4}> { z = Add(r, w) },"
        "else_branch = e () => (float[2] z2) { k = Constant<value = float[2] {1,2}>() z2 = Mul(r, k) }> }"
    )
    inside = onnx.ModelProto()
    inside.CopyFrom(model)
    then = model.graph.node[1].attribute[0].g
    (tmp_path / "in" / "w.bin").write_bytes(np.array([3, 4], np.float32).tobytes())
    tensor = then.initializer[0]
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "0", "length": "8"}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    (tmp_path / "in" / "m.onnx").write_bytes(model.SerializeToString())
    loaded = load_model(tmp_path / "in" / "m.onnx")
    imported = import_model(loaded)
    save_model(export_model(imported, imported.graph), tmp_path / "out" / "m.onnx")
    after = onnx.load(str(tmp_path / "out" / "m.onnx"))
    for c in (True, False):
        (new,), (old,) = (tools.run(m, {"x": X, "c": c}) for m in (after, inside))
        np.testing.assert_array_equal(new, old)


@pytest.mark.parametrize("location", ["../secret.bin", "a/../../secret.bin", "/etc/hostname"])
def test_a_path_outside_the_folder_is_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(1200 * 2))
    (tmp_path / "in" / "a").mkdir(parents=True)
    path = tmp_path / "in" / "m.onnx"
    _external(path)
    model = onnx.load(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        next(e for e in tensor.external_data if e.key == "location").value = location
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InvalidModelError) as caught:
        load_model(path)
    assert _is_one_sentence(str(caught.value))


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(2400))
    path = tmp_path / "in" / "m.onnx"
    _external(path)
    (tmp_path / "in" / "weights.bin").unlink()
    (tmp_path / "in" / "weights.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(InvalidModelError):
        load_model(path)


def test_missing_external_data(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    _external(path)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(InvalidModelError, match=r"weights\.bin") as caught:
        load_model(path)
    assert _is_one_sentence(str(caught.value))


def test_external_data_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    _external(path)
    os.truncate(tmp_path / "weights.bin", 600)
    with pytest.raises(InvalidModelError, match=r"weights\.bin"):
        load_model(path)


# --- not a model


def _is_one_sentence(message: str) -> bool:
    return "\n" not in message and 10 < len(message) < 400


BAD = {
    "empty": b"",
    "text": b"this is no model\n",
    "zeros": bytes(500),
    "json": b'{"a": 1}',
    "random": np.random.default_rng(0).bytes(4000),
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "truncated": _model().SerializeToString()[:-700],
    "half": _model().SerializeToString()[:200],
    "no graph": onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)]).SerializeToString(),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("suffix", [".onnx", ".json", ".onnxtxt", ".textproto", ".pb", ""])
def test_not_a_model(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"m{suffix}"
    path.write_bytes(BAD[name])
    with pytest.raises(InvalidModelError) as caught:
        load_model(path)
    assert _is_one_sentence(str(caught.value)), str(caught.value)
    assert path.name in str(caught.value)


def test_a_model_under_any_name(tmp_path: Path) -> None:
    for name in ("m.pb", "m", "m.model", "mödel é.onnx", "m.json"):
        (tmp_path / name).write_bytes(_model().SerializeToString())
        assert load_model(tmp_path / name).graph.num_nodes() == 2


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        load_model(tmp_path / "missing.onnx")
    with pytest.raises(UsageError, match="folder"):
        load_model(tmp_path)


@pytest.mark.parametrize("kind", ["path", "proto", "ir"])
@pytest.mark.parametrize(
    ("opset", "said"),
    [
        (onnx.defs.onnx_opset_version() + 1, "upgrade onnx"),
        (8, "convert it to 9"),
        (1, "convert"),
        (0, "opset"),
        (None, "opset"),
    ],
)
def test_unknown_opsets(opset: int | None, said: str, kind: str, tmp_path: Path) -> None:
    model = _model()
    del model.opset_import[:]
    if opset is not None:
        model.opset_import.append(helper.make_opsetid("", opset))
    given: Any = model
    if kind == "path":
        given = tmp_path / "m.onnx"
        given.write_bytes(model.SerializeToString())
    elif kind == "ir":
        given = onnx_ir.from_proto(model)
    with pytest.raises(InvalidModelError, match=said) as caught:
        to_ir(given)
    assert _is_one_sentence(str(caught.value))


def _faulty() -> dict[str, onnx.ModelProto]:
    made: dict[str, onnx.ModelProto] = {}
    for name in ("duplicate name", "cycle", "unknown operator", "missing input", "no such attribute", "no name"):
        made[name] = _model()
    nodes = {name: model.graph.node for name, model in made.items()}
    nodes["duplicate name"][1].output[0] = "a"
    nodes["cycle"][0].input[0] = "y"
    nodes["unknown operator"][0].op_type = "Addd"
    nodes["missing input"][0].input[0] = "nowhere"
    nodes["no such attribute"][0].attribute.append(helper.make_attribute("axis", 1))
    made["no name"].graph.input[0].name = ""
    return made


@pytest.mark.parametrize(
    "name", ["duplicate name", "cycle", "unknown operator", "missing input", "no such attribute", "no name"]
)
@pytest.mark.parametrize("kind", ["path", "proto"])
def test_what_the_checker_rejects(name: str, kind: str, tmp_path: Path) -> None:
    model = _faulty()[name]
    given: Any = model
    if kind == "path":
        given = tmp_path / "m.onnx"
        given.write_bytes(model.SerializeToString())
    with pytest.raises(InvalidModelError) as caught:
        to_ir(given)
    assert _is_one_sentence(str(caught.value)), str(caught.value)


# --- writing


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving.onnx_ir, "save", full)
    with pytest.raises(UsageError, match="No space left"):
        save_model(onnx_ir.from_proto(_model()), path, inline=0)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m.onnx"]


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(model: object, path: Path, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(saving.onnx_ir, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_model(onnx_ir.from_proto(_model()), tmp_path / "m.onnx", inline=0)
    assert os.listdir(tmp_path) == []


def test_unwritable_targets(tmp_path: Path) -> None:
    model = onnx_ir.from_proto(_model())
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "missing" / "m.onnx", tmp_path / "folder", Path("/proc/m.onnx")):
        with pytest.raises(UsageError) as caught:
            save_model(model, target)
        assert _is_one_sentence(str(caught.value))
    assert os.listdir(tmp_path / "folder") == []


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        save_model(onnx_ir.from_proto(_model()), tmp_path / "m.onnx")
    finally:
        os.umask(mask)
    assert (tmp_path / "m.onnx").stat().st_mode & 0o777 == 0o644


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(onnx_ir.from_proto(_model()), "m.onnx")
    assert load_model("m.onnx").graph.num_nodes() == 2


def test_saving_does_not_change_the_model(tmp_path: Path) -> None:
    _external(tmp_path / "in" / "m.onnx")
    for limit in (100, 10**9):
        model = load_model(tmp_path / "in" / "m.onnx")
        before = {n: v.const_value for n, v in model.graph.initializers.items()}
        save_model(model, tmp_path / "m.onnx", inline=limit)
        assert {n: v.const_value for n, v in model.graph.initializers.items()} == before
