"""Time and memory of large models, by analytic costs: a deep transformer at four depths, and gigabytes of weights.

    python bench/scale.py [--blocks 6,12,24,48] [--json FILE]
    python bench/scale.py --large [--folder DIR] [--json FILE]

The transformer has 37 nodes a block (1,776 for 48 blocks), symbolic batch and length. Each depth is optimized by the
command itself, from file to file. ``choose`` is verification here, for nothing is timed; it is left out of the sum.
Memory is each process's largest resident size as the system counts it, mapped files included; ``own`` is the largest
sampled part of it that is no mapped file. Published for 48 blocks: onnxsim 4.9 s, ONNX Runtime 4.7 s, onnxscript 17 s,
onnxslim 24 s; for 2.4 GB of weights: onnxscript 101 MB and 43 s, ONNX Runtime 823 MB and 59 s, onnxsim 2.7 GB and
38 s, onnxslim 7.5 GB and 83 s. ``--large`` takes 5 GB of disk for as long as it runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from processes import Peak, watch
from rich.console import Console
from rich.table import Table
from scale_models import stack, transformer

PARENT, WORKER, CHILD = "", "saturation.worker", "verification.child"
VERIFICATION = "choose"
MEGABYTE = 1e6
LARGE = (("Identity",), ("Relu", "Relu"))
"""What comes after each product of the large models: that of the published figures, and one in which a rule fires."""
LARGE_NEEDS = 6e9
"""Bytes of free disk for the large model, twice, and its e-graph."""


@dataclass(frozen=True)
class Row:
    """One model: seconds by stage, of the whole command (wall and CPU), and peaks by process."""

    model: str
    nodes: tuple[int, int]
    enodes: int
    outcome: str
    stages: dict[str, float]
    wall: float
    cpu: float
    peaks: dict[str, Peak]

    @property
    def seconds(self) -> float:
        """Wall seconds of the command without verification: start, load and save are in it."""
        return self.wall - self.stages.get(VERIFICATION, 0.0)


def measure(model: Path, *, folder: Path) -> Row:
    """Optimizes one file."""
    report = folder / "report.json"
    entry = "from egraph_opt.cli import main; main()"
    options = ["--target", "analytic", "-q", "--json", str(report)]
    done = watch([sys.executable, "-c", entry, "optimize", str(model), "-o", str(folder / "optimized.onnx"), *options])
    if done.status:
        raise SystemExit(f"optimizing {model} ended with exit status {done.status}")
    found = json.loads(report.read_text())
    stages = {name: seconds for name, seconds in found["seconds"].items() if name != "total"}
    peaks = {"parent": done.peak(), "saturation": done.peak(WORKER), "child": done.peak(CHILD)}
    nodes = (found["before"]["nodes"], found["after"]["nodes"])
    return Row(model.stem, nodes, found["saturation"]["e-nodes"], found["outcome"], stages, done.seconds,
               done.cpu_seconds, peaks)  # fmt: skip


def show(rows: list[Row]) -> None:
    stages = list(dict.fromkeys(name for row in rows for name in row.stages if name != VERIFICATION))
    table = Table("model", "nodes", "e-nodes", *stages, "start, load, save", "sum", "x", "verify", "CPU s",
                  "parent MB (own)", "saturation", "child")  # fmt: skip
    before = None
    for row in rows:
        rest = row.seconds - sum(row.stages.get(name, 0.0) for name in stages)
        table.add_row(
            row.model, f"{row.nodes[0]} -> {row.nodes[1]}", str(row.enodes),
            *(f"{row.stages.get(name, 0.0):.2f}" for name in stages), f"{rest:.2f}", f"{row.seconds:.1f}",
            f"{row.seconds / before.seconds:.2f}" if before else "", f"{row.stages.get(VERIFICATION, 0.0):.1f}",
            f"{row.cpu:.1f}", *(_size(peak) for peak in row.peaks.values()),
        )  # fmt: skip
        before = row
    Console(width=180).print(table)


def _size(peak: Peak) -> str:
    return f"{peak.resident / MEGABYTE:.0f} ({peak.private / MEGABYTE:.0f})" if peak.resident else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", default="6,12,24,48")
    parser.add_argument("--large", action="store_true", help="nine matrices of 8192 x 8192 instead: 2.4 GB")
    parser.add_argument("--folder", type=Path, help="where temporary files go")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="egraph-opt-scale-", dir=arguments.folder) as temporary:
        folder = Path(temporary)
        if arguments.large:
            if shutil.disk_usage(folder).free < LARGE_NEEDS:
                parser.error(f"{folder} has less than {LARGE_NEEDS / 1e9:.0f} GB free: give --folder")
            for after in LARGE:
                rows.append(measure(stack(folder, *after), folder=folder))
        else:
            for blocks in map(int, arguments.blocks.split(",")):
                path = folder / f"{blocks} blocks.onnx"
                onnx.save(transformer(blocks), path)
                rows.append(measure(path, folder=folder))
                print(f"{path.stem}: {rows[-1].seconds:.1f} s", flush=True)
    show(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
