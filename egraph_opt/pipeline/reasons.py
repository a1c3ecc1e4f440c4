"""Why a run kept the original, in words for the user."""

from __future__ import annotations

from collections.abc import Mapping

from egraph_opt.pipeline.choose import MOST_GROWTH, Choice
from egraph_opt.pipeline.options import Options
from egraph_opt.pipeline.report import Outcome


def why_not(choice: Choice, options: Options) -> tuple[Outcome, str]:
    """The outcome of a run that keeps the original, and why no candidate was taken."""
    if choice.refused:
        assert choice.verdict is not None
        return Outcome.REJECTED, f"no candidate verified: {choice.verdict.reason}"
    if not choice.rows:
        return Outcome.UNCHANGED, "no rule leads to a graph that is estimated to be cheaper"
    if choice.races is None and options.measures:
        runner = "the GPU executor" if options.target == "cuda" else "ONNX Runtime"
        why = choice.verdict.reason if choice.verdict is not None and choice.verdict.kind == "unverified" else ""
        timed = f"{runner} cannot run the model here, so nothing could be timed and verified"
        return Outcome.REJECTED, f"{timed} ({why})" if why else timed
    if choice.races is None:
        everywhere = " at every size" if len(options.shape_sets) > 1 else ""
        grown = f" with at most {MOST_GROWTH} times the nodes" if choice.grown else ""
        return Outcome.UNCHANGED, f"no candidate is estimated to be cheaper{everywhere}{grown}"
    races = choice.races
    loses = [name for name in races.names if any(at.verdict == "faster" for at in races.at_sizes(name))]
    best = max(loses or races.names, key=races.ratio, default="")
    lost = next((at for at in races.at_sizes(best) if not at.holds), None) if loses else None
    if lost is not None:
        return Outcome.UNCHANGED, (
            f"no candidate is faster at one size without being slower at another: "
            f"{lost.ratio:.2f} x at {said(lost.sizes)}"
        )
    return Outcome.UNCHANGED, (
        f"no candidate is clearly faster than the original: the best is {races.ratio(best) if best else 0:.2f} x,"
        f" and the original differs from itself by {races.spread:.1%}"
    )


def said(sizes: Mapping[str, int]) -> str:
    """Sizes as a person writes them."""
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())
