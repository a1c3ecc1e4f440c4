"""How long the search takes per network, and what exact extraction gains: TASO's and Tensat's published seconds beside.

    python bench/search_times.py [NAME ...] [--target ort-cpu] [--measure] [--limit S] [--json FILE]

Saturation and extraction are wall seconds with the worker process already up; its start is in a column of its own.
CPU seconds are those of both steps, of this process and of workers, starts included.
Published: the table of Tensat's authors (MLSys 2021, T4 GPU; ``facts/taso.md``, section 3.9). Tensat's BERT is TASO's
example graph, here ``bert-taso``; its ResNet-like graphs have no BatchNorm, ours do. ``--measure`` runs the greedy and
the exact graph in ONNX Runtime against the original.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from models import NETWORKS, build
from rich.console import Console
from rich.table import Table

from egraph_opt.extraction import Extraction, extract
from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io import Imported, export_model, import_model, to_ir
from egraph_opt.pipeline.pricing import price
from egraph_opt.rewrites.library import all_rules, select_rules
from egraph_opt.runtime import get_cost_model, race
from egraph_opt.saturation import Frozen, Worker, fold_constants, rebuild, saturate
from egraph_opt.verification import random_feeds, runnable

TENSAT = {
    "BERT": 1.4, "ResNeXt-50": 0.7, "NasNet-A": 10.6, "NasRNN": 0.5, "Inception-v3": 5.1, "SqueezeNet": 0.3,
    "VGG-19": 0.4,
}  # fmt: skip
TASO = {
    "BERT": 13.6, "ResNeXt-50": 25.3, "NasNet-A": 1226.0, "NasRNN": 177.3, "Inception-v3": 68.6, "SqueezeNet": 16.4,
    "VGG-19": 8.9,
}  # fmt: skip
WARM_SECONDS = 4.0
"""What a worker gets to start before the clock runs."""


@dataclass(frozen=True)
class Row:
    """One network; costs and latencies in seconds, ``None`` where nothing was measured."""

    network: str
    nodes: int
    enodes: int
    start: float
    saturate: float
    stop: str
    price: float
    greedy_s: float
    exact_s: float
    before: float
    greedy: float
    exact: float
    gap: float
    status: str
    cpu: float
    measured: tuple[float, float, float] | None = None

    @property
    def search(self) -> float:
        """Saturation and exact extraction."""
        return self.saturate + self.exact_s


def run(name: str, target: str, limit: float, *, measure: bool) -> Row:
    """Saturates, prices and extracts one network."""
    proto = build(name)
    imported = import_model(to_ir(proto))
    graph = fold_constants(imported.graph)
    rules = select_rules(all_rules())
    cpu, begin = _cpu_seconds(), time.monotonic()
    with Worker() as worker:
        start = _warm(worker, begin)
        saturation = saturate(graph, rules, worker=worker)
    cpu = _cpu_seconds() - cpu
    begin = time.monotonic()
    prices = price(saturation.frozen, get_cost_model(target), {})
    priced = time.monotonic() - begin
    answers: dict[str, tuple[float, Extraction]] = {}
    for extractor in ("tree-greedy", "portfolio"):
        used, begin = _cpu_seconds(), time.monotonic()
        found = extract(saturation.frozen.egraph, prices.seconds, extractor=extractor, time_limit=limit)
        answers[extractor] = time.monotonic() - begin, found
        cpu += _cpu_seconds() - used if extractor == "portfolio" else 0.0
    (greedy_s, greedy), (exact_s, exact) = answers["tree-greedy"], answers["portfolio"]
    frozen = saturation.frozen
    before = float(prices.seconds[frozen.original_enodes()].sum())
    timed = _measured(imported, frozen, [greedy, exact]) if measure else None
    return Row(
        name, len(graph.live()), frozen.egraph.node_count, start, saturation.report.seconds,
        str(saturation.report.reason), priced, greedy_s, exact_s, before, greedy.cost, exact.cost, exact.gap,
        str(exact.status), cpu, timed,
    )  # fmt: skip


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def _warm(worker: Worker, begin: float) -> float:
    """Waits until the worker has imported what it needs; how long its start took."""
    process = worker.process
    path = Path(f"/proc/{process.pid}/stat")
    last, started = -1.0, 0.0
    while time.monotonic() - begin < WARM_SECONDS:
        time.sleep(0.05)
        fields = path.read_text().rsplit(")", 1)[1].split()
        used = float(fields[11]) + float(fields[12])
        if used != last:
            last, started = used, time.monotonic() - begin
    return started


def _measured(imported: Imported, frozen: Frozen, answers: list[Extraction]) -> tuple[float, float, float]:
    """Latency of the original and of both answers, raced."""
    graphs: list[TensorGraph] = [rebuild(frozen, a.selection) for a in answers]
    models = [imported.model, *(export_model(imported, g) for g in graphs)]
    feeds = random_feeds(imported.model, {}, 0)
    sources: dict[str, bytes | Path] = {}
    for name, model in zip(("original", "greedy", "exact"), models, strict=True):
        with runnable(model) as source:
            sources[name] = source.source
    found = race(sources, feeds, budget_seconds=20.0, sessions=1)
    before, greedy, exact = (found.lap(name).b10 for name in sources)
    return before, greedy, exact


def show(rows: list[Row]) -> None:
    console = Console(width=170)
    table = Table("network", "nodes", "e-nodes", "stop", "start s", "saturate s", "price s", "extract s", "search s",
                  "CPU s", "Tensat s", "TASO s", "gap", "status", title="Search times")  # fmt: skip
    costs = Table("network", "before ms", "greedy ms", "exact ms", "greedy / exact", "measured: before", "greedy",
                  "exact", title="Greedy against exact")  # fmt: skip
    for r in rows:
        published = NETWORKS[r.network].published
        table.add_row(
            r.network, str(r.nodes), str(r.enodes), r.stop, f"{r.start:.2f}", f"{r.saturate:.2f}", f"{r.price:.2f}",
            f"{r.exact_s:.2f}", f"{r.search:.2f}", f"{r.cpu:.2f}",
            str(TENSAT.get(published, "")), str(TASO.get(published, "")), f"{r.gap:.3%}", r.status,
        )  # fmt: skip
        shown = [f"{s * 1e3:.3f}" for s in r.measured] if r.measured else [""] * 3
        costs.add_row(r.network, f"{r.before * 1e3:.4f}", f"{r.greedy * 1e3:.4f}", f"{r.exact * 1e3:.4f}",
                      f"{r.greedy / r.exact:.4f}", *shown)  # fmt: skip
    console.print(table)
    console.print(costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--target", default="analytic")
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[Row] = []
    for name in arguments.names or NETWORKS:
        rows.append(run(name, arguments.target, arguments.limit, measure=arguments.measure))
        print(f"{name}: {rows[-1].search:.2f} s", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
