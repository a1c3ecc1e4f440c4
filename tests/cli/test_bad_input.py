"""Whatever a user gets wrong ends with one sentence, the right exit code, and nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

FAST = ("--target", "analytic", "-q")


def _graph() -> onnx.ModelProto:
    weights = numpy_helper.from_array(np.ones(300, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [300])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [300])],
        [weights],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def _write(path: Path, how: str) -> None:
    model = _graph()
    data = model.SerializeToString()
    match how:
        case "empty":
            data = b""
        case "text":
            data = b"hello\n"
        case "truncated":
            data = data[:-500]
        case "checker":
            model.graph.node[1].op_type = "Reluu"
        case "duplicate names":
            model.graph.node[1].output[0] = "a"
        case "cycle":
            model.graph.node[0].input[0] = "y"
        case "new opset":
            model.opset_import[0].version = 99
        case "old opset":
            model.opset_import[0].version = 8
        case "no opset":
            del model.opset_import[:]
        case "missing data" | "outside":
            tensor = model.graph.initializer[0]
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            location = "../weights.bin" if how == "outside" else "weights.bin"
            for key, value in {"location": location, "offset": "0", "length": "1200"}.items():
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value
            if how == "outside":
                (path.parent.parent / "weights.bin").write_bytes(bytes(1200))
        case _:
            raise AssertionError(how)
    path.write_bytes(data if how in ("empty", "text", "truncated") else model.SerializeToString())


INVALID = {
    "empty": "empty",
    "text": "no ONNX model",
    "truncated": "cut off",
    "checker": "Reluu",
    "duplicate names": "'a'",
    "cycle": "topologically sorted",
    "new opset": "upgrade onnx",
    "old opset": "convert",
    "no opset": "opset",
    "missing data": "weights.bin",
    "outside": "..",
}


@pytest.mark.parametrize("how", INVALID)
def test_an_invalid_model(how: str, tmp_path: Path, cli: Any) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    _write(folder / "in.onnx", how)
    out = tmp_path / "out"
    out.mkdir()
    (out / "old.onnx").write_bytes(b"old")
    for target in ("new.onnx", "old.onnx"):
        done = cli("optimize", folder / "in.onnx", "-o", out / target, "--json", out / "report.json", *FAST)
        done.complains(3, "in.onnx", INVALID[how])
    assert sorted(os.listdir(out)) == ["old.onnx"]
    assert (out / "old.onnx").read_bytes() == b"old"


@pytest.mark.parametrize("how", INVALID)
def test_verify_an_invalid_model(how: str, tmp_path: Path, cli: Any, model: Path) -> None:
    (tmp_path / "models").mkdir()
    _write(tmp_path / "models" / "in.onnx", how)
    cli("verify", tmp_path / "models" / "in.onnx", model).complains(3, "in.onnx")
    cli("verify", model, tmp_path / "models" / "in.onnx").complains(3, "in.onnx")


WRONG: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unknown option": (("--fast",), ("--fast",)),
    "unknown target": (("--target", "tpu"), ("tpu", "ort-cpu")),
    "unknown device": (("--target", "analytic:abacus"), ("abacus",)),
    "unknown extractor": (("--extractor", "magic"), ("magic", "ilp")),
    "unknown level": (("--numerics", "sloppy"), ("sloppy", "standard")),
    "unknown rule": (("--skip-rules", "no-such-rule"), ("no-such-rule", "rules list")),
    "unknown rule, only": (("--only-rules", "relu-idempotent,no-such-rule"), ("no-such-rule",)),
    "no threads": (("--threads", "0"), ("--threads",)),
    "threads in words": (("--threads", "two"), ("--threads",)),
    "no time": (("--time-limit", "0"), ("--time-limit",)),
    "time that is no number": (("--time-limit", "nan"), ("--time-limit",)),
    "negative memory": (("--memory-limit", "-1"), ("--memory-limit",)),
    "memory that is no number": (("--memory-limit", "nan"), ("--memory-limit",)),
    "negative seed": (("--seed", "-1"), ("--seed",)),
    "shape of nothing": (("--shape", "q:1,4"), ("--shape", "q", "x")),
    "shape without a name": (("--shape", "1,4"), ("--shape", "NAME:1,3,224,224")),
    "shape in words": (("--shape", "x:one,4"), ("--shape", "NAME:1,3,224,224")),
    "shape of another rank": (("--shape", "x:1,4,1"), ("--shape", "rank 2")),
    "shape without sizes": (("--shape", "x:"), ("--shape",)),
    "shape that contradicts": (("--shape", "x:1,5"), ("--shape", "axis 1", "4")),
    "negative shape": (("--shape", "x:-1,4"), ("--shape", "x")),
    "measure nothing": (("--measure-shape", "q:1,4"), ("--measure-shape", "q", "x")),
    "measure another rank": (("--measure-shape", "x:4"), ("--measure-shape", "rank 2")),
    "measure a contradiction": (("--measure-shape", "x:1,5"), ("--measure-shape", "axis 1", "4")),
    "measure a negative shape": (("--measure-shape", "x:-2,4"), ("--measure-shape", "x")),
    "measure in words": (("--measure-shape", "x:a,4"), ("--measure-shape",)),
    "no such inputs": (("--verify-inputs", "missing.npz"), ("--verify-inputs", "missing.npz")),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_option(name: str, tmp_path: Path, cli: Any, model: Path) -> None:
    given, said = WRONG[name]
    before = sorted(os.listdir(tmp_path))
    done = cli("optimize", model, "-o", tmp_path / "out.onnx", "--json", tmp_path / "r.json", *FAST, *given)
    done.complains(2, *said)
    assert sorted(os.listdir(tmp_path)) == before


def test_two_shapes_that_contradict_each_other(tmp_path: Path, cli: Any) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x, float[N] z) => (float[N] y) { y = Add(x, z) }'
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    cli("optimize", path, *FAST, "--measure-shape", "x:3", "--measure-shape", "z:4").complains(2, "N", "3", "4")
    cli("optimize", path, *FAST, "--shape", "x:3", "--shape", "z:4").complains(2, "N", "3", "4")


def test_a_missing_file(tmp_path: Path, cli: Any) -> None:
    cli("optimize", tmp_path / "none.onnx", "-o", tmp_path / "out.onnx").complains(2, "none.onnx")
    cli("verify", tmp_path / "none.onnx", tmp_path / "none.onnx").complains(2, "none.onnx")
    cli("optimize", tmp_path).complains(2, "folder")
    cli("extract", tmp_path / "none.json").complains(2, "none.json")


def test_no_arguments(cli: Any) -> None:
    cli("optimize").complains(2, "IN")
    cli("optimise", "x").complains(2, "optimise")


@pytest.mark.parametrize("option", ["-o", "--json", "--save-egraph"])
def test_an_output_that_cannot_be_written(option: str, tmp_path: Path, cli: Any, model: Path) -> None:
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "folder", tmp_path / "missing" / "out", model / "out", Path("/proc/out.onnx")):
        cli("optimize", model, *FAST, option, target).complains(2, str(target))
    assert sorted(os.listdir(tmp_path)) == ["folder", "model.onnx"]
    assert os.listdir(tmp_path / "folder") == []


def test_outputs_are_checked_before_the_work(cli: Any, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egraph_opt.cli.optimize.Run", None)  # any work would fail
    cli("optimize", model, "-o", "/proc/out.onnx").complains(2, "/proc/out.onnx")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04cut"])
def test_inputs_for_verification_that_are_none(content: bytes, tmp_path: Path, cli: Any, model: Path) -> None:
    (tmp_path / "in.npz").write_bytes(content)
    cli("optimize", model, *FAST, "--verify-inputs", tmp_path / "in.npz").complains(2, "in.npz")


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"x": np.ones((2, 4), np.float32), "q": np.ones(2)}, ("q", "inputs of the model are x")),
        ({}, ("lacks x",)),
        ({"x": np.ones((2, 4))}, ("x", "float64", "float32")),
        ({"x": np.ones((2, 4), np.int64)}, ("x", "int64", "float32")),
        ({"x": np.ones((2, 5), np.float32)}, ("x", "(2, 5)")),
        ({"x": np.ones(4, np.float32)}, ("x", "(4,)")),
    ],
    ids=["unknown", "missing", "double", "integers", "another size", "another rank"],
)
def test_inputs_for_verification_that_do_not_fit(
    inputs: dict[str, Any], said: tuple[str, ...], tmp_path: Path, cli: Any, model: Path
) -> None:
    np.savez(tmp_path / "in.npz", **inputs)
    cli("optimize", model, *FAST, "--verify-inputs", tmp_path / "in.npz").complains(2, "--verify-inputs", *said)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"nodes": 3}', '{"nodes": {"a": {"op": "f", "children": ["b"], "eclass": "0"}}}']
)
def test_an_egraph_file_that_is_none(content: str, tmp_path: Path, cli: Any) -> None:
    (tmp_path / "e.json").write_text(content)
    cli("extract", tmp_path / "e.json").complains(2, "e.json")


def test_rules_that_do_not_exist(cli: Any) -> None:
    cli("rules", "show", "no-such-rule").complains(2, "no-such-rule")
    cli("rules", "check", "no-such-rule").complains(2, "no-such-rule")
    cli("rules", "list", "--family", "no-such-family").complains(2, "no-such-family")


@pytest.mark.parametrize("arguments", [("optimize", "in.onnx", "-o", "out.onnx"), ("optimize", "missing.onnx")])
def test_the_real_program(arguments: tuple[str, ...], tmp_path: Path) -> None:
    _write(tmp_path / "in.onnx", "truncated")
    command = [sys.executable, "-c", "from egraph_opt.cli import main; main()", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == (3 if "in.onnx" in arguments else 2)
    assert done.stdout == ""
    assert done.stderr.startswith("egraph-opt: ")
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["in.onnx"]
