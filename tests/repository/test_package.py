"""What a user gets: the wheel, and a package that is quick to import."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "egraph_opt"
DATA = (".json", ".jsonl", ".egg", ".j2")
SLOW_TO_IMPORT = ("onnxruntime", "egglog", "z3", "highspy")


def wanted() -> set[str]:
    """Modules and data of the package, as a wheel names them."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {
        path.relative_to(ROOT).as_posix() for path in files if path.suffix in (".py", *DATA) or path.name == "py.typed"
    }


@pytest.fixture(scope="module")
def wheel_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in the wheel, built from a copy: what setuptools leaves behind stays out of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("rewrites", "extraction", "runtime", "axioms"):
        (source / room).symlink_to(Path("egraph_opt", room))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def test_wheel_holds_one_package_and_all_of_it(wheel_files: set[str]) -> None:
    packaged = {name for name in wheel_files if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in packaged} == {"egraph_opt"}
    assert packaged == wanted()


def test_wheel_holds_the_licence(wheel_files: set[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel_files)


def test_import_loads_no_engine_solver_or_runtime() -> None:
    code = f"import egraph_opt, sys; print(*[m for m in {SLOW_TO_IMPORT} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == []


def test_pytest_fails_when_it_finds_no_tests(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    done = subprocess.run([*command, "-p", "no:cacheprovider", str(tmp_path)], capture_output=True, timeout=60)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
