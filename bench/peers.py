"""Real models and packs through egraph-opt and the other ONNX optimizers: time, memory, speed, nodes, faults.

    python bench/peers.py --out DIR [--small] [--only PATTERN] [--tools a,b] [--no-latency] [--time-limit S]

Each tool optimizes each model in a process of its own, with a time limit; memory is the resident size of its largest
process, and seconds are those of the optimization alone, without imports. Another process judges the result (valid,
same signature, same values at both levels of ONNX Runtime), and a third one races all results of a model that are
good against the original in ONNX Runtime at its highest level: one thread, random order, warm-up, fastest tenth of the
samples, A/A control. What is done is kept, a line each, in DIR/results.jsonl: the same command goes on where it was
stopped. DIR/peers.json and the plot (peers.svg, peers.png) are made from that at the end.

``--small`` leaves out the light models but SqueezeNet and ShuffleNet, the slow DNSMOS models, magika and
basic-pitch, and packs without a mark; else only models of hundreds of megabytes are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packs import PACKS
from peer_report import show, write_plot
from peer_tools import PEERS, is_installed
from zoo_models import LARGE, files, zoo_folder

OURS = "egraph-opt"
NOT_SMALL = (
    "onnx__light_densenet121", "onnx__light_inception_v1", "onnx__light_inception_v2", "onnx__light_resnet50",
    "speechmos__sig", "speechmos__bak_ovr", "speechmos__sig_bak_ovr", "speechmos__model_v8", "magika__standard_v3_3",
    "basic_pitch__nmp",
)  # fmt: skip
JUDGE_SECONDS, RACE_SECONDS = 180.0, 240.0
CHILD = Path(__file__).with_name("peer_child.py")

Row = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """A model: of the zoo, or a pack."""

    kind: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


def subjects(pattern: str, *, small: bool) -> Iterator[Subject]:
    """What is optimized, packs last."""
    for path in files(zoo_folder()):
        if pattern in path.stem and path.stem not in LARGE and not (small and path.stem in NOT_SMALL):
            yield Subject("zoo", path.stem)
    for name, pack in PACKS.items():
        if pattern in name and not (small and pack.mark is None and not pack.control):
            yield Subject("pack", name)


@dataclass(frozen=True)
class Bench:
    """A run in a folder: which results there are, and how to get the others."""

    folder: Path
    time_limit: float

    @property
    def journal(self) -> Path:
        return self.folder / "results.jsonl"

    def rows(self) -> dict[tuple[str, ...], Row]:
        """What is done: by (``made``, model, tool) and (``race``, model, tools)."""
        if not self.journal.exists():
            return {}
        rows = map(json.loads, self.journal.read_text().splitlines())
        return {tuple(row["key"]): row for row in rows}

    def mend(self) -> None:
        """Drops a last line that was cut short."""
        if self.journal.exists():
            text = self.journal.read_text()
            self.journal.write_text(text[: text.rfind("\n") + 1])

    def keep(self, key: tuple[str, ...], row: Row) -> None:
        with self.journal.open("a") as stream:
            stream.write(json.dumps({"key": key, **row}) + "\n")

    def path(self, subject: Subject, tool: str) -> Path:
        return self.folder / "models" / f"{subject.kind}-{subject.name}" / f"{tool}.onnx"

    def made(self, subject: Subject, tool: str) -> Row:
        """Optimizes and judges: seconds, memory, nodes, and the fault, if there is one."""
        out = self.path(subject, tool)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.unlink(missing_ok=True)
        row, memory, ended = _child(self.time_limit, "make", subject.key, tool, str(out))
        row = {"fault": ended, **row, "memory": memory}
        if not row["fault"]:
            verdict, _, ended = _child(JUDGE_SECONDS, "judge", subject.key, tool, str(out))
            row |= {"fault": ended and f"judged: {ended}", **verdict}
        return row

    def race(self, subject: Subject, tools: list[str]) -> Row:
        """Ratios of all results that are good and another model than the original."""
        row, _, ended = _child(RACE_SECONDS, "race", subject.key, *(str(self.path(subject, t)) for t in tools))
        return {"fault": ended, **row}


def _child(limit: float, *arguments: str) -> tuple[Row, float, str]:
    """The answer of a process of its own, the resident bytes of its largest part, and how it ended if not well."""
    process = subprocess.Popen(
        [sys.executable, str(CHILD), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    late = threading.Event()

    def stop() -> None:
        late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit, stop)
    timer.start()
    assert process.stdout is not None
    said = process.stdout.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    code = os.waitstatus_to_exitcode(status)
    if late.is_set():
        return {}, memory, "timeout"
    lines = [line for line in said.splitlines() if line.startswith('{"answer":')]  # tools print, too
    if code or not lines:
        return {}, memory, f"crash: exit {code}"
    return json.loads(lines[-1])["answer"], memory, ""


def run(bench: Bench, chosen: list[Subject], tools: list[str], *, latency: bool) -> dict[tuple[str, ...], Row]:
    """Does what is not done yet; every result of the folder."""
    bench.mend()
    for number, subject in enumerate(chosen, 1):
        done = bench.rows()
        print(f"[{number}/{len(chosen)}] {subject.key}", file=sys.stderr, flush=True)
        for tool in tools:
            key = ("made", subject.key, tool)
            if key not in done:
                bench.keep(key, bench.made(subject, tool))
        done = bench.rows()
        racing = [t for t in tools if not done["made", subject.key, t]["fault"]]
        racing = [t for t in racing if not done["made", subject.key, t].get("same")]
        key = ("race", subject.key, ",".join(racing))
        if latency and racing and key not in done:
            bench.keep(key, bench.race(subject, racing))
    return bench.rows()


def table(found: dict[tuple[str, ...], Row], chosen: list[Subject], tools: list[str]) -> list[Row]:
    """One row per model and tool. A model that a tool leaves as it is has the ratio 1."""
    rows: list[Row] = []
    for subject in chosen:
        races = [row for key, row in found.items() if key[:2] == ("race", subject.key)]
        raced = races[-1] if races else {}
        for tool in tools:
            made = found.get(("made", subject.key, tool))
            if made is None:
                continue
            lap = raced.get("laps", {}).get(tool, {})
            plain = {k: v for k, v in made.items() if k != "key"}
            ratio = 1.0 if made.get("same") else lap.get("ratio")
            rows.append(
                {"model": subject.name, "kind": subject.kind, "tool": tool, **plain, "ratio": ratio,
                 "median": 1.0 if made.get("same") else lap.get("median"), "spread": raced.get("spread"),
                 "milliseconds": raced.get("milliseconds")}
            )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default="", metavar="PATTERN", help="models whose name contains this")
    parser.add_argument("--tools", default=",".join((OURS, *PEERS)))
    parser.add_argument("--no-latency", action="store_true")
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds for one tool and model")
    arguments = parser.parse_args()
    tools = [t for t in arguments.tools.split(",") if t == OURS or is_installed(t)]
    chosen = list(subjects(arguments.only, small=arguments.small))
    arguments.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.out, arguments.time_limit)
    rows = table(run(bench, chosen, tools, latency=not arguments.no_latency), chosen, tools)
    (arguments.out / "peers.json").write_text(json.dumps(rows, indent=1) + "\n")
    show(rows, tools)
    for kind in ("svg", "png"):
        write_plot(rows, tools, arguments.out / f"peers.{kind}")


if __name__ == "__main__":
    main()
