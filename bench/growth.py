"""What the shipped rules cost in saturation, against the rules written by hand that they replaced.

    python bench/growth.py [--small] [--only NAME,NAME] [--rounds N] [--later-laws] [--json FILE]

Each model is saturated with both sets in turn, ``--rounds`` times, and the quicker time of each counts: CPU seconds of
this process and of the worker, its start included; wall seconds stand beside. The old set is
``bench/data/rules_before.jsonl``, or any artefact given as ``--before``. The target: at most 1.2 x the seconds and
2 x the e-nodes.

Laws were written by hand since, which find more and cost something too. With ``--later-laws`` the old set has them as
well, so that the difference is what the generated rules cost.
"""

from __future__ import annotations

import argparse
import json
import resource
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx_ir
import zoo_models

from egraph_opt.ir import TensorGraph
from egraph_opt.onnx_io import import_model
from egraph_opt.rewrites import Rule
from egraph_opt.rewrites.artefact import read_rules
from egraph_opt.rewrites.library import all_rules, hand_rules, select_rules
from egraph_opt.saturation import SaturationReport, saturate
from egraph_opt.saturation.fold import fold_constants

BEFORE = Path(__file__).parent / "data" / "rules_before.jsonl"
SECONDS, NODES = 1.2, 2.0
"""The largest ratios that are good."""


@dataclass
class Row:
    """E-nodes, CPU seconds and wall seconds of one model under both sets."""

    model: str
    nodes: int
    before_nodes: int = 0
    before_seconds: float = float("inf")
    after_nodes: int = 0
    after_seconds: float = float("inf")
    before_wall: float = float("inf")
    after_wall: float = float("inf")

    @property
    def ratios(self) -> tuple[float, float]:
        """Of CPU seconds and of e-nodes."""
        return self.after_seconds / self.before_seconds, self.after_nodes / self.before_nodes

    @property
    def good(self) -> bool:
        """Whether both are within the target."""
        seconds, nodes = self.ratios
        return seconds <= SECONDS and nodes <= NODES


def measure(name: str, graph: TensorGraph, before: tuple[Rule, ...], after: tuple[Rule, ...], rounds: int) -> Row:
    """Saturates in alternation."""
    row = Row(name, len(graph.nodes))
    for _ in range(rounds):
        (old, old_cpu), (new, new_cpu) = (_saturated(graph, rules) for rules in (before, after))
        row.before_nodes, row.after_nodes = old.nodes, new.nodes
        row.before_seconds = min(row.before_seconds, old_cpu)
        row.after_seconds = min(row.after_seconds, new_cpu)
        row.before_wall = min(row.before_wall, old.seconds)
        row.after_wall = min(row.after_wall, new.seconds)
    return row


def _saturated(graph: TensorGraph, rules: tuple[Rule, ...]) -> tuple[SaturationReport, float]:
    """The report and the CPU seconds."""
    begin = _cpu_seconds()
    report = saturate(graph, rules).report
    return report, _cpu_seconds() - begin


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def main() -> None:
    """Prints the table; exit 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="leave out models that are large or slow")
    parser.add_argument("--only", default="", help="only models whose file name holds one of these, with commas")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--before", type=Path, default=BEFORE)
    parser.add_argument("--later-laws", action="store_true", help="the old set has the later laws by hand, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    old = read_rules(options.before)
    if options.later_laws:
        names = {rule.name for rule in old}
        old += tuple(r for r in hand_rules() if r.effort == "standard" and r.name not in names)
    before, after = select_rules(old), select_rules(all_rules())
    print(f"{len(before)} rules before, {len(after)} after")
    print(f"{'':44}{'nodes':>7}{'e-nodes':>18}{'ratio':>7}{'CPU seconds':>16}{'ratio':>7}{'wall seconds':>16}")
    rows: list[Row] = []
    for path in zoo_models.files(zoo_models.zoo_folder(), small=options.small):
        if any(part in path.stem for part in options.only.split(",")):
            graph = fold_constants(import_model(onnx_ir.from_proto(zoo_models.load(path))).graph)
            row = measure(path.stem, graph, before, after, options.rounds)
            rows.append(row)
            seconds, nodes = row.ratios
            print(
                f"{row.model:44}{row.nodes:7}{row.before_nodes:9}{row.after_nodes:9}{nodes:7.2f}"
                f"{row.before_seconds:8.2f}{row.after_seconds:8.2f}{seconds:7.2f}"
                f"{row.before_wall:8.2f}{row.after_wall:8.2f}{'' if row.good else '  over'}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in rows], indent=1) + "\n")
    raise SystemExit(0 if all(r.good for r in rows) else 1)


if __name__ == "__main__":
    main()
