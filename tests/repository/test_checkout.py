"""The files of the repository as git tracks them: links, imports, and nothing that belongs to one machine."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("rewrites", "extraction", "runtime", "axioms")
HERE = Path(__file__).relative_to(ROOT)
MACHINE_PATH = re.compile(r"(?<![\w.~}-])/(?:work|root|tmp|home|mnt|opt|Users)/\w")
REGISTRY = re.compile(r"pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|anaconda\.(?:org|com)", re.IGNORECASE)


def tracked_files() -> list[Path]:
    """Everything that git tracks and that is still there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def tracked_texts() -> dict[Path, str]:
    """Text of the tracked files by path below the root; links and binary files are left out."""
    files = {path.relative_to(ROOT): path.read_bytes() for path in tracked_files() if not path.is_symlink()}
    return {path: data.decode() for path, data in files.items() if b"\0" not in data and path != HERE}


@pytest.mark.parametrize("room", ROOMS)
def test_top_level_link_leads_to_the_room(room: str) -> None:
    link = ROOT / room
    assert link.is_symlink()
    assert link.readlink() == Path("egraph_opt", room)
    assert (link / "__init__.py").samefile(ROOT / "egraph_opt" / room / "__init__.py")


def test_rooms_are_imported_by_their_full_name() -> None:
    found: list[str] = []
    for path, text in tracked_texts().items():
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(text, str(path))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            else:
                continue
            found += [f"{path}:{node.lineno}: {name}" for name in names if name.split(".")[0] in ROOMS]
    assert not found


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["machine-path", "registry"])
def test_no_file_names_a_machine_or_a_registry(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in tracked_texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found


def test_every_test_file_is_found_by_pytest() -> None:
    """A file of tests with another name would never run."""
    stray = [
        str(path)
        for path, text in tracked_texts().items()
        if path.parts[0] == "tests" and path.suffix == ".py" and re.search(r"^def test_", text, re.MULTILINE)
        if not path.name.startswith("test_")
    ]
    assert not stray
