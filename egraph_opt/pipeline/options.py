"""What a user can ask of the optimizer. The fields are the options of the command line and of ``optimize``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from egraph_opt.errors import UsageError
from egraph_opt.extraction import get_extractor
from egraph_opt.pipeline.layouts import Strategy
from egraph_opt.rewrites import Effort, Numerics
from egraph_opt.rewrites.user import read_user_rules
from egraph_opt.runtime import CostModel, get_cost_model
from egraph_opt.runtime.user import load_cost_model

Feeds = Mapping[str, NDArray[np.generic]]
Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Options:
    """How to optimize.

    Attributes:
        target: whose costs count: ``ort-cpu`` (measured here), ``analytic`` or ``analytic:h100`` (formulas),
            ``cuda`` (this machine's GPU) or ``cuda:h100`` (shipped measurements).
        extractor: how the cheapest graph is picked.
        layout: where values may lie in several orders (``cuda``): graph and layouts at once (``joint``), or for
            comparison only one after the other, only layouts, or only the graph: see ``pipeline.layouts``.
        numerics: which rules may load: ``exact``, ``standard`` or ``fast``.
        effort: ``standard``, or ``thorough``: also rules that enlarge the e-graph, for small models or much time.
        shapes: inputs whose shape becomes fixed in the result.
        measure_shapes: shapes at which symbolic inputs are measured; the result keeps its symbols. Several of them:
            operators are measured at the first, candidates are timed at all, and none is taken that is slower at one.
        threads: threads of ONNX Runtime in every measurement.
        time_limit: seconds for everything; None lets every stage take its own default.
        memory_limit: GB for the saturation worker.
        rule_files: files of the user's own rules (``rewrites.artefact``), used besides those that ship.
        cost_model: a file with a cost model of the user's own (``runtime.user``), which prices instead of the target's.
        skip_rules, only_rules: names of rules or families.
        keep_opset: never raise the model's opset.
        provenance: say in the metadata of each node of the result which nodes it comes from, and by which rules.
        seed: of every random choice.
        verify_inputs: inputs of the user's own to verify on, besides random ones.
        measure: time candidates end to end, and keep the original unless one is faster.
        candidates: how many different graphs are timed at most.
        lazy_costs: measure only operators that can still change the answer (the estimate of the best graph is the
            same); takes more extractions.
    """

    target: str = "ort-cpu"
    extractor: str = "ilp"
    layout: Strategy = "joint"
    numerics: Numerics = "standard"
    effort: Effort = "standard"
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    measure_shapes: Shapes | Sequence[Shapes] = field(default_factory=dict[str, Sequence[int]])
    threads: int = 1
    time_limit: float | None = None
    memory_limit: float = 8.0
    rule_files: Sequence[str | Path] = ()
    cost_model: str | Path = ""
    skip_rules: Sequence[str] = ()
    only_rules: Sequence[str] = ()
    keep_opset: bool = False
    provenance: bool = True
    seed: int = 0
    verify_inputs: Feeds | None = None
    measure: bool = True
    candidates: int = 6
    lazy_costs: bool = False

    def check(self) -> None:
        """Says what is wrong before any work is done.

        Raises:
            UsageError: an option has a value that cannot be used.
        """
        if self.numerics not in get_args(Numerics):
            raise UsageError(f"--numerics {self.numerics}: choose one of {', '.join(get_args(Numerics))}")
        if self.effort not in get_args(Effort):
            raise UsageError(f"--effort {self.effort}: choose one of {', '.join(get_args(Effort))}")
        if self.layout not in get_args(Strategy):
            raise UsageError(f"--layout {self.layout}: choose one of {', '.join(get_args(Strategy))}")
        get_extractor(self.extractor)
        if self.threads < 1:
            raise UsageError("--threads must be 1 or more")
        get_cost_model(self.target)
        self.prices_by()
        read_user_rules(self.rule_files)
        if self.time_limit is not None and not self.time_limit > 0:  # NaN is not above 0 either
            raise UsageError("--time-limit must be a positive number of seconds")
        if not 0 < self.memory_limit < float("inf"):
            raise UsageError("--memory-limit must be a positive number of GB")
        if self.seed < 0:
            raise UsageError("--seed must be 0 or more")

    def prices_by(self) -> CostModel:
        """The cost model: that of the target, or of the user's file.

        Raises:
            UsageError: the file holds none.
        """
        if self.cost_model:
            return load_cost_model(self.cost_model, self.target, self._prices_of, threads=self.threads)
        return self._prices_of(self.target)

    def _prices_of(self, target: str) -> CostModel:
        more = {"fast": True} if target == "cuda" and self.numerics == "fast" else {}
        return get_cost_model(target, threads=self.threads, **more)

    @property
    def memory_bytes(self) -> int:
        """``memory_limit`` in bytes, as far as the system can count them."""
        return int(min(self.memory_limit * 2**30, 2**62))

    @property
    def shape_sets(self) -> tuple[Shapes, ...]:
        """The shapes to measure at, one mapping after the other; at least one, which may be empty."""
        given = self.measure_shapes
        return (given,) if isinstance(given, Mapping) else tuple(given) or ({},)

    @property
    def measures(self) -> bool:
        """Whether candidates are timed: only where the target is this machine."""
        return self.measure and self.target in ("ort-cpu", "cuda")


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the work is: a stage, and how much of it is done where that is known."""

    stage: str
    done: int = 0
    total: int = 0
    detail: str = ""


OnProgress = Callable[[Progress], None]
