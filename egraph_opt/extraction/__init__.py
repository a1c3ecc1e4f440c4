"""Picks the cheapest acyclic graph out of an e-graph. Works on arrays; knows nothing of tensors."""

from egraph_opt.extraction.candidates import extract_several
from egraph_opt.extraction.extract import extract
from egraph_opt.extraction.lazy import Ended, LazyCosts, LazyExtraction, extract_lazily
from egraph_opt.extraction.problem import NoExtractionError
from egraph_opt.extraction.registry import extractors, get_extractor
from egraph_opt.extraction.result import Extraction, Extractor, Guarantee, Moment, Status

__all__ = [
    "Ended",
    "Extraction",
    "Extractor",
    "Guarantee",
    "LazyCosts",
    "LazyExtraction",
    "Moment",
    "NoExtractionError",
    "Status",
    "extract",
    "extract_lazily",
    "extract_several",
    "extractors",
    "get_extractor",
]
