"""What strategies are compared on: an e-graph from a file, or the e-graph of a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx_ir
from numpy.typing import NDArray

from egraph_opt.egraph import EGraph
from egraph_opt.egraph.serialize import read_egraph
from egraph_opt.ir import evaluate
from egraph_opt.onnx_io import load_model
from egraph_opt.onnx_io.shapes import specialise
from egraph_opt.pipeline import OnProgress, Options, Run
from egraph_opt.pipeline.run import Explored
from egraph_opt.pipeline.sizes import measured_sizes
from egraph_opt.verification import known_types


@dataclass(frozen=True)
class Subject:
    """One thing to extract from.

    Attributes:
        costs: (n,) cost of each e-node; seconds for a model, the file's own unit for an e-graph.
        model, run, explored: of a model: itself with fixed sizes, its way through the pipeline, and what that found.
        original: of a model: estimated seconds as it was.
    """

    name: str
    egraph: EGraph
    costs: NDArray[np.float64]
    model: onnx_ir.Model | None = None
    run: Run | None = None
    explored: Explored | None = None
    original: float | None = None

    @property
    def is_model(self) -> bool:
        return self.model is not None


def open_subject(path: Path, options: Options, on_progress: OnProgress | None = None) -> Subject:
    """The subject in a file: ``.json`` is an e-graph, anything else a model, which is saturated and priced.

    Symbolic sizes of a model become the numbers at which it is measured, so that every strategy, and the search over
    whole graphs, sees the same graph.

    Raises:
        UsageError: the file is neither, or an option does not fit the model.
        BudgetError: the model does not fit into the limits.
    """
    if path.suffix.lower() == ".json":
        stored = read_egraph(path)
        return Subject(path.stem, stored.egraph, stored.costs)
    model = load_model(path)
    _fix_sizes(model, options)
    run = Run(model, replace(options, lazy_costs=False), on_progress)
    found = run.explore()
    original = float(found.prices.seconds[found.frozen.original_enodes()].sum())
    return Subject(path.stem, found.frozen.egraph, found.prices.seconds, model, run, found, original)


def _fix_sizes(model: onnx_ir.Model, options: Options) -> None:
    numbers = measured_sizes(model, options.shape_sets[0])
    types = {name: t for name, t in known_types(model).items() if not t.is_static}
    specialise(model, {name: [evaluate(size, numbers) for size in t.shape] for name, t in types.items()})
