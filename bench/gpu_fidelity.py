"""Estimated against measured latency of many graphs of each network, on this machine's GPU.

    python bench/recipes.py --out DIR --dtype float16
    python bench/gpu_fidelity.py --pool DIR [NAME ...] [--numerics fp16] [--choices FILE] [--json FILE] [--steps FILE]

The estimate of a graph is made of the seconds of its steps, each timed alone, and the schedule of the executor. Printed
per network: how far the measured times span (in turns, medians over several places in memory), the rank correlation
(Spearman's rho) of estimates with them, and how much slower than the best the graph with the least estimate is.
``--steps`` writes the seconds of every step.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import models
import numpy as np
import recipes
from gpu_networks import error, feeds_of
from gpu_turns import in_turns

from egraph_opt.errors import EgraphOptError
from egraph_opt.runtime import cuda
from egraph_opt.runtime.cuda.prices import room_of, write_steps
from egraph_opt.runtime.cuda.steps import Convolution, Product, Step

PLACES = 5
"""In how many places weights that fit into an L2 cache are timed: what of them stays there depends on the place."""
Timed = tuple[Step, bool, int, float]


@dataclass
class Fidelity:
    """One network; times in ms, the first graph is the original, errors relative to its outputs on the GPU."""

    network: str
    numerics: str
    why: list[str] = field(default_factory=list[str])
    estimated: list[float] = field(default_factory=list[float])
    measured: list[float] = field(default_factory=list[float])
    errors: list[float] = field(default_factory=list[float])
    notes: list[str] = field(default_factory=list[str])

    @property
    def span(self) -> float:
        return max(self.measured) / min(self.measured)

    @property
    def correlation(self) -> float:
        """Spearman's rho."""
        left, right = (np.argsort(np.argsort(np.array(v), kind="stable")) for v in (self.estimated, self.measured))
        return float(np.corrcoef(left, right)[0, 1])

    @property
    def loss(self) -> float:
        """How much slower than the best measured one the best estimated one is."""
        return self.measured[int(np.argmin(self.estimated))] / min(self.measured) - 1

    def __str__(self) -> str:
        if not self.measured:
            return f"{self.network:13} {self.numerics}: nothing measured {self.notes}"
        ratio = np.median(np.array(self.estimated) / np.array(self.measured))
        wrong = max(self.errors)
        return (
            f"{self.network:13} {self.numerics} {len(self.measured):3} graphs  {min(self.measured):.4f} ms  "
            f"span {self.span:.2f}  rho {self.correlation:.3f}  best estimated +{self.loss:.1%}  "
            f"median estimated/measured {ratio:.3f}  original {self.measured[0]:.4f}  worst error {wrong:.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--pool", type=Path, required=True)
    parser.add_argument("--numerics", default="fp16")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=1e9, help="per network, after which no further graph starts")
    parser.add_argument("--choices", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--steps", type=Path)
    arguments = parser.parse_args()
    print(cuda.machine(), flush=True)
    rows, steps = list[Fidelity](), list[Timed]()
    for name in arguments.names or recipes.EIGHT:
        for numerics in arguments.numerics.split(","):
            tuner = cuda.Tuner(cuda.Choices(arguments.choices), again=True)
            begin = time.perf_counter()
            rows.append(measure(name, numerics, arguments, tuner, steps))
            tuner.choices.save()
            print(rows[-1], f"[{time.perf_counter() - begin:.0f} s]", flush=True)
            print(*(f"    {note}" for note in rows[-1].notes[:3]), sep="\n", end="")
            if arguments.json:
                arguments.json.write_text(json.dumps([asdict(row) for row in rows]))
            if arguments.steps:
                found = cuda.machine()
                write_steps(arguments.steps, (f"cuda: {found.name}", found.versions), steps)


def measure(name: str, numerics: str, arguments: argparse.Namespace, tuner: cuda.Tuner, steps: list[Timed]) -> Fidelity:
    """Runs the graphs of one network's pool."""
    dtype, fast = "float16" if numerics == "fp16" else "float32", numerics == "tf32"
    row, model = Fidelity(name, numerics), models.build(name, dtype=dtype)
    records = json.loads(gzip.decompress((arguments.pool / f"{name}.{dtype}.json.gz").read_bytes()))[: arguments.count]
    plans = [cuda.make_plan(recipes.load(record, model), exact=not fast) for record in records]
    tuner.compile(step for plan in plans for step in plan.steps)
    programs: list[cuda.Program] = []
    wanted: list[np.ndarray] | None = None
    end = time.monotonic() + arguments.seconds
    for record, plan in zip(records, plans, strict=True):
        if time.monotonic() > end:
            row.notes.append("time is up")
            break
        names = tuple(f"output{i}" for i in range(len(plan.outputs)))
        try:
            program = cuda.Program(plan, names, fast=fast, tuner=tuner)
            got = list(program.run(feeds_of(model)).values())
        except EgraphOptError as problem:
            row.notes.append(f"{record['why']}: {problem}")
            continue
        wanted = wanted or got
        programs.append(program)
        row.why.append(record["why"])
        row.errors.append(error(got, wanted))
        row.estimated.append(program.schedule.seconds * 1e3)
        room = room_of(plan.buffers)
        steps += [(step, fast, room, _alone(step, plan, fast, tuner)) for step in plan.steps]
    row.measured = [seconds * 1e3 for seconds in _measured(programs, tuner)]
    return row


def _measured(programs: list[cuda.Program], tuner: cuda.Tuner) -> list[float]:
    """Seconds of each: all in turns, in several places where an L2 cache holds weights."""
    rounds, kept = [in_turns(programs, replays=20, rounds=5)], [tuner.weights]
    while len(kept) < PLACES and any(room_of(program.plan.buffers) for program in programs):
        tuner.weights = {}
        for program in programs:
            program.rebuild(tuner)
        kept.append(tuner.weights)
        rounds.append(in_turns(programs, replays=20, rounds=5))
    tuner.weights = kept[0]
    return [median(seconds) for seconds in zip(*rounds, strict=True)]


def _alone(step: Step, plan: cuda.Plan, fast: bool, tuner: cuda.Tuner) -> float:
    """Seconds of a step by itself, its weight in the better of two layouts."""
    from egraph_opt.runtime.cuda.executor import other_layout

    known, buffers = tuner.choices.known, plan.buffers
    if not isinstance(step, Product | Convolution):
        return known[tuner.key(step, True, buffers)][1]
    ways = [step, other_layout(plan, step)] if isinstance(step, Product) else [step]
    keys = [tuner.key(way, fast, buffers) for way in ways if way is not None]
    return min(known[key][1] for key in keys if key in known)


if __name__ == "__main__":
    main()
