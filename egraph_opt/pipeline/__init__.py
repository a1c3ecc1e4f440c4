"""From a model to a faster one: everything above, in order."""

from egraph_opt.pipeline.options import OnProgress, Options, Progress
from egraph_opt.pipeline.report import Candidate, ModelFacts, Outcome, Report
from egraph_opt.pipeline.run import Run

__all__ = ["Candidate", "ModelFacts", "OnProgress", "Options", "Outcome", "Progress", "Report", "Run"]
