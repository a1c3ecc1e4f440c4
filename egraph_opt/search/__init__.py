"""Search over whole graphs, as it was done before e-graphs: the baseline that extraction is compared with."""

from egraph_opt.search.backtracking import Pricer, SearchResult, backtrack

__all__ = ["Pricer", "SearchResult", "backtrack"]
