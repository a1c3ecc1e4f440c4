"""Whether two models are equivalent, and inputs to run a model on."""

from egraph_opt.verification.child import ApartError, apart
from egraph_opt.verification.compare import Numerics
from egraph_opt.verification.feeds import Kind, check_feeds, known_types, random_feeds, symbols
from egraph_opt.verification.interface import interface_difference, overridable_inputs, required_inputs
from egraph_opt.verification.prove import Equality, OutputEquality, prove
from egraph_opt.verification.serialize import Runnable, checker_complaint, runnable
from egraph_opt.verification.sizes import alternative_sizes, default_sizes, likely_sizes
from egraph_opt.verification.verdict import Evidence, Verdict
from egraph_opt.verification.verify import verify

__all__ = [
    "ApartError",
    "Equality",
    "Evidence",
    "Kind",
    "Numerics",
    "OutputEquality",
    "Runnable",
    "Verdict",
    "alternative_sizes",
    "apart",
    "check_feeds",
    "checker_complaint",
    "default_sizes",
    "interface_difference",
    "known_types",
    "likely_sizes",
    "overridable_inputs",
    "prove",
    "random_feeds",
    "required_inputs",
    "runnable",
    "symbols",
    "verify",
]
