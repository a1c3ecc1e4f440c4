"""Extraction strategies side by side, on e-graph files and on models: table, CSV, JSON, and a page of plots."""

from egraph_opt.compare.page import check_suffix, write_page
from egraph_opt.compare.plots import figures
from egraph_opt.compare.run import BACKTRACKING, Comparison, Row, compare
from egraph_opt.compare.subjects import Subject, open_subject
from egraph_opt.compare.tables import to_csv, to_json

__all__ = [
    "BACKTRACKING",
    "Comparison",
    "Row",
    "Subject",
    "check_suffix",
    "compare",
    "figures",
    "open_subject",
    "to_csv",
    "to_json",
    "write_page",
]
