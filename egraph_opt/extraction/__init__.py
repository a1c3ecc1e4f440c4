"""Picks the cheapest acyclic graph out of an e-graph. Works on arrays; knows nothing of tensors."""

from egraph_opt.extraction.extract import extract
from egraph_opt.extraction.problem import NoExtractionError
from egraph_opt.extraction.registry import extractors, get_extractor
from egraph_opt.extraction.result import Extraction, Extractor, Guarantee, Status

__all__ = [
    "Extraction",
    "Extractor",
    "Guarantee",
    "NoExtractionError",
    "Status",
    "extract",
    "extractors",
    "get_extractor",
]
