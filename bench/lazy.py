"""Lazy costs against measuring everything: how many operators, how many seconds, and whether the answer is the same.

    python bench/lazy.py [NAME|FILE.onnx ...] [--effort thorough] [--first] [--json FILE]

Each network is saturated once. ``lazy`` and ``full`` each start from an empty database of measurements; seconds are of
pricing and extraction together. For the comparison of answers everything that the lazy run did not measure is measured
after it, into its own database, so that noise between two measurements of one operator is no difference. Answers are
those of the optimizer: the cheapest graph, that of fewest nodes, and those without some rules; with ``--first`` only
the cheapest. Operators of the network as it is are always measured.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import zoo_models
from models import NETWORKS, build
from rich.console import Console
from rich.table import Table

from egraph_opt.onnx_io import to_ir
from egraph_opt.pipeline import Options, Run
from egraph_opt.pipeline.candidates import Proposal, Proposer
from egraph_opt.pipeline.pricing import Prices, price
from egraph_opt.pipeline.run import EXTRACTION_SECONDS, Explored
from egraph_opt.rewrites import Rule
from egraph_opt.runtime import CostDatabase, CostModel, OrtCpu
from egraph_opt.runtime.ort_cpu import PROBES

DEFAULT = ("squeezenet", "resnet50", "nasrnn", "bert-taso")


@dataclass(frozen=True)
class Row:
    """One network. ``same``: every answer of the replayed lazy run costs what that of the full run costs."""

    network: str
    enodes: int
    signatures: int
    original: int
    measured: int
    saved: int
    batches: int
    false_bounds: int
    unproven: int
    full_wall: float
    full_cpu: float
    lazy_wall: float
    lazy_cpu: float
    answers: int
    worst: float

    @property
    def same(self) -> bool:
        return self.worst <= 1e-8


def run(name: str, effort: str, *, first: bool) -> Row:
    found, rules = _explore(name, effort)
    database = CostDatabase.in_memory()
    lazy, answers, lazy_wall, lazy_cpu = _answers(found, rules, OrtCpu(database=database), first, lazy=True)
    _, wanted, _, _ = _answers(found, rules, OrtCpu(database=database), first, lazy=False)
    _, _, full_wall, full_cpu = _answers(found, rules, OrtCpu(database=CostDatabase.in_memory()), first, lazy=False)
    costs = {p.name: p.extraction.cost for p in wanted}
    common = [p for p in answers if p.name in costs]
    worst = max((abs(p.extraction.cost / costs[p.name] - 1) for p in common), default=0.0)
    everything = len(database.rows()) - len(PROBES)
    return Row(
        name, found.frozen.egraph.node_count, everything, everything - lazy.asked, everything - lazy.saved, lazy.saved,
        lazy.batches, len(lazy.violated), sum(str(p.ended) != "proven" for p in answers), full_wall, full_cpu,
        lazy_wall, lazy_cpu, len(common), worst,
    )  # fmt: skip


def _explore(name: str, effort: str) -> tuple[Explored, tuple[Rule, ...]]:
    model = to_ir(build(name) if name in NETWORKS else zoo_models.load(Path(name)))
    shapes = zoo_models.SHAPES.get(Path(name).stem, {})
    way = Run(model, Options(target="analytic", effort=effort, measure_shapes=shapes))  # type: ignore[arg-type]
    return way.explore(), way.rules


def _answers(
    found: Explored, rules: tuple[Rule, ...], model: CostModel, first: bool, *, lazy: bool
) -> tuple[Prices, list[Proposal], float, float]:
    """Prices and proposals, and the wall and CPU seconds that they took."""
    wall, cpu = time.monotonic(), time.process_time()
    prices = price(found.frozen, model, found.sizes, lazy=lazy)
    proposer = Proposer(found.frozen, prices, rules, "ilp", found.imported.opset, True, 0, EXTRACTION_SECONDS)
    proposals = list(proposer.proposals(1 if first else 6))
    return prices, proposals, time.monotonic() - wall, time.process_time() - cpu


def show(rows: Sequence[Row]) -> None:
    table = Table("network", "e-nodes", "operators", "of the original", "measured lazily", "saved", "batches",
                  "false bounds", "unproven", "full s (CPU)", "lazy s (CPU)", "answers", "same",
                  title="Lazy costs")  # fmt: skip
    for r in rows:
        table.add_row(
            r.network, str(r.enodes), str(r.signatures), str(r.original), str(r.measured),
            f"{r.saved} ({r.saved / max(r.signatures, 1):.0%})", str(r.batches), str(r.false_bounds), str(r.unproven),
            f"{r.full_wall:.1f} ({r.full_cpu:.1f})", f"{r.lazy_wall:.1f} ({r.lazy_cpu:.1f})", str(r.answers),
            "yes" if r.same else f"off by {r.worst:.1e}",
        )  # fmt: skip
    Console(width=170).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[Row] = []
    for name in arguments.names or DEFAULT:
        rows.append(run(name, arguments.effort, first=arguments.first))
        print(f"{name}: {rows[-1].saved} of {rows[-1].signatures} saved", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
