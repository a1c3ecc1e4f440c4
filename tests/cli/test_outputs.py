"""Files that commands write, and those of the user's that they must leave alone."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from egraph_opt.cli.output import check_outputs, write_text
from egraph_opt.errors import UsageError, meant
from egraph_opt.onnx_io.save import is_special
from egraph_opt.runtime import CostDatabase

FAST = ("--target", "analytic", "-q")
PROGRAM = [sys.executable, "-c", "from egraph_opt.cli import main; main()"]


def _untouched(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "arguments",
    [
        ("optimize", "M", "--json", "M"),
        ("optimize", "M", "--save-egraph", "M"),
        ("optimize", "M", "-o", "new", "--json", "new"),
        ("optimize", "M", "-o", "new", "--save-egraph", "./new"),
        ("optimize", "M", "--json", "new", "--save-egraph", "new"),
        ("optimize", "M", "--rules", "RULES", "-o", "RULES"),
        ("verify", "M", "M", "--json", "M"),
        ("explain", "M", "--json", "M"),
        ("compare", "M", "--json", "M"),
        ("compare", "M", "--json", "new", "--csv", "new"),
        ("extract", "M", "--trace", "M"),
        ("rules", "bisect", "M", "--json", "M"),
        ("rules", "bisect", "M", "-o", "M"),
        ("costs", "export", "DB", "--database", "DB"),
    ],
)
def test_a_file_of_another_role_is_never_written(
    arguments: tuple[str, ...], tmp_path: Path, model: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    CostDatabase.open(tmp_path / "DB").close()
    (tmp_path / "RULES").write_text("")
    model.rename(tmp_path / "M")
    before = _untouched(tmp_path)
    cli(*arguments).complains(2, "cannot write")
    assert _untouched(tmp_path) == before


@pytest.mark.parametrize("where", ["folder", "missing/out", "M/out", "/proc/out"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("optimize", "M", "--json"),
        ("verify", "M", "M", "--json"),
        ("explain", "M", "--json"),
        ("compare", "M", "--csv"),
        ("compare", "M", "--json"),
        ("compare", "M", "--plot"),
        ("extract", "M", "--trace"),
        ("extract", "M", "--json"),
        ("rules", "list", "--json"),
        ("rules", "bisect", "M", "--json"),
        ("rules", "generate", "--json"),
        ("axioms", "list", "--json"),
        ("axioms", "validate", "--json"),
        ("costs", "export"),
        ("zoo", ".", "--out", "run", "--json"),
    ],
)
def test_every_output_is_checked_before_the_work(
    arguments: tuple[str, ...], where: str, tmp_path: Path, model: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "folder").mkdir()
    model.rename(tmp_path / "M")
    cli(*arguments, where).complains(2, f"cannot write {where}")
    assert {p.name for p in tmp_path.iterdir()} <= {"folder", "M", "cache"}


def test_the_model_may_be_replaced_by_its_result(model: Path, cli: Any) -> None:
    before = len(onnx.load(str(model)).graph.node)
    assert cli("optimize", model, "-o", model, *FAST).code == 0
    assert len(onnx.load(str(model)).graph.node) < before


def test_pipes_devices_and_open_files_are_written_to_and_not_replaced(tmp_path: Path, cli: Any, model: Path) -> None:
    (tmp_path / "null").symlink_to(os.devnull)
    (tmp_path / "out").symlink_to("/dev/stdout")
    (tmp_path / "circle").symlink_to("circle")
    for path in (Path(os.devnull), Path("/dev/stdout"), Path("/dev/fd/1"), tmp_path / "null", tmp_path / "out"):
        assert is_special(path), path
    for path in (tmp_path, model, tmp_path / "new", tmp_path / "circle"):
        assert not is_special(path), path
    write_text(tmp_path / "null", "gone")
    assert (tmp_path / "null").is_symlink()
    cli("optimize", model, "-o", tmp_path / "null", *FAST).complains(2, "no regular file")
    os.mkfifo(tmp_path / "pipe")
    command = [*PROGRAM, "optimize", str(model), *FAST, "--json", str(tmp_path / "pipe")]
    with subprocess.Popen(command) as process:
        assert json.loads((tmp_path / "pipe").read_text())["outcome"] == "optimized"
    assert process.returncode == 0
    assert is_special(tmp_path / "pipe")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str, **_: object) -> None:
        path.write_bytes(text[:1].encode())
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "r.json").write_bytes(b"old")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UsageError, match="No space left"):
        write_text(tmp_path / "r.json", "new")
    assert _untouched(tmp_path) == {"r.json": b"old"}
    check_outputs(tmp_path / "r.json", None, Path("-"), apart_from=(None, Path("-")))


def test_two_commands_may_write_one_file(tmp_path: Path) -> None:
    """Each writes a file of its own first: the last one to finish is there, whole."""
    text = "from egraph_opt.cli.output import write_text; from pathlib import Path; import sys\n"
    text += "for i in range(300): write_text(Path(sys.argv[1]), sys.argv[2] * 5000)"
    runs = [subprocess.Popen([sys.executable, "-c", text, str(tmp_path / "r"), letter]) for letter in "ab"]
    assert [run.wait() for run in runs] == [0, 0]
    assert (tmp_path / "r").read_text() in ("a" * 5000, "b" * 5000)
    assert os.listdir(tmp_path) == ["r"]


def test_a_full_stdout_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*PROGRAM, "rules", "list"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("egraph-opt: cannot read or write: No space left")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_has_gone_is_no_error() -> None:
    with subprocess.Popen([*PROGRAM, "axioms", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""


def test_an_interrupt_says_so(tmp_path: Path, model: Path) -> None:
    """While libraries load, and while a command works: typer would end without a word."""
    for started in (False, True):
        command = [*PROGRAM, "optimize", str(model), "-o", str(tmp_path / "out.onnx"), "--target", "analytic"]
        if not started:
            command[2] = (
                "import _thread, importlib.abc, sys\n"
                "class Now(importlib.abc.MetaPathFinder):\n"
                "    def find_spec(self, name, path=None, target=None):\n"
                "        if name == 'egraph_opt.cli.app': raise KeyboardInterrupt\n"
                "sys.meta_path.insert(0, Now())\n" + command[2]
            )
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            if started:
                assert "..." in process.stderr.readline()
                process.send_signal(signal.SIGINT)
            said = process.stderr.read()
        assert process.returncode == 130
        assert said.splitlines()[-1] == "egraph-opt: interrupted; nothing was written"
        assert "Traceback" not in said
        assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("arguments", [("show",), ("export", "new"), ("import", "lines")])
def test_a_file_that_is_no_database_stays_where_it_is(
    arguments: tuple[str, ...], tmp_path: Path, model: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines").write_text("")
    before = _untouched(tmp_path)
    cli("costs", *arguments, "--database", model).complains(2, model.name, "no database")
    if arguments[0] != "import":
        cli("costs", *arguments, "--database", tmp_path / "missing").complains(2, "missing")
    assert _untouched(tmp_path) == before


def test_names_that_are_nearly_right(cli: Any, model: Path) -> None:
    for command in (
        ("rules", "show", "relu-idempotnt"),
        ("rules", "check", "relu-idempotnt"),
        ("optimize", model, "--skip-rules", "relu-idempotnt"),
        ("explain", model, "--only-rules", "relu-idempotnt"),
    ):
        cli(*command).complains(2, "do you mean relu-idempotent?")
    cli("axioms", "validate", "add-comutes").complains(2, "add-comutes")
    assert meant(["xyz"], ["relu"]) == ""
    assert meant(["rel", "ad"], ["relu", "add"]) == " (do you mean relu or add?)"


@pytest.mark.parametrize("content", [b"\x81\x82", b'{"name": "\xff"}'])
def test_rules_that_are_no_text(content: bytes, tmp_path: Path, cli: Any, model: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(content)
    cli("optimize", model, "--rules", tmp_path / "r.jsonl").complains(2, "r.jsonl", "no text")
    cli("rules", "check", "--file", tmp_path / "r.jsonl").complains(2, "r.jsonl", "no text")


def test_numbers_beyond_all_memory(tmp_path: Path, cli: Any, model: Path) -> None:
    for option in ("--shape", "--measure-shape"):
        cli("optimize", model, *FAST, option, f"x:{10**20},4").complains(2, option, "sizes are numbers")
    done = cli("optimize", model, "--target", "analytic", "--measure-shape", f"x:{10**11},4", "-o", tmp_path / "o.onnx")
    assert done.code in (5, 6)  # nothing verified, or not even that was reached
    assert "not enough memory" in " ".join(done.out.split())
    assert (tmp_path / "o.onnx").exists()  # the original
    assert cli("optimize", model, *FAST, "--memory-limit", "1e30").code == 0


def test_quiet_is_silent(cli: Any, model: Path) -> None:
    done = cli("optimize", model, *FAST)
    assert (done.code, done.out, done.err) == (0, "", "")
