"""Why a node was or was not rewritten."""

from egraph_opt.explanation.explain import explain
from egraph_opt.explanation.records import Alternative, Explanation, Fate, NodeExplanation, RuleAt, Stop

__all__ = ["Alternative", "Explanation", "Fate", "NodeExplanation", "RuleAt", "Stop", "explain"]
