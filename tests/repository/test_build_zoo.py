"""``bench/build_zoo.py`` on the files that need no download."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import onnx

SCRIPT = Path(__file__).parents[2] / "bench" / "build_zoo.py"
LIGHT = "backend/test/data/light/light_squeezenet.onnx"


def run(folder: Path, *rows: str) -> subprocess.CompletedProcess[str]:
    manifest = folder / "manifest.csv"
    manifest.write_text("\n".join(["file,package,version,licence,sha256_16,path_in_package", *rows]))
    command = [sys.executable, str(SCRIPT), "--manifest", str(manifest), "--out", str(folder / "zoo")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_builds_keeps_and_skips(tmp_path: Path) -> None:
    wanted = (Path(onnx.__file__).parent / LIGHT).read_bytes()
    rows = (
        f"light.onnx,onnx,{onnx.__version__},Apache-2.0,{hashlib.sha256(wanted).hexdigest()[:16]},onnx/{LIGHT}",
        "export.onnx,exported by hand,1,n/a,0123456789abcdef,",
    )
    first, second = run(tmp_path, *rows), run(tmp_path, *rows)
    assert (first.returncode, first.stdout.splitlines()[-1]) == (0, "1 built, 1 skipped")
    assert (second.returncode, second.stdout.splitlines()[-1]) == (0, "1 kept, 1 skipped")
    assert [path.name for path in (tmp_path / "zoo").iterdir()] == ["light.onnx"]
    assert (tmp_path / "zoo" / "light.onnx").read_bytes() == wanted


def test_refuses_another_content(tmp_path: Path) -> None:
    done = run(tmp_path, f"light.onnx,onnx,{onnx.__version__},Apache-2.0,0123456789abcdef,onnx/{LIGHT}")
    assert done.returncode == 1
    assert "the manifest says 0123456789abcdef" in done.stdout
    assert list((tmp_path / "zoo").iterdir()) == []
