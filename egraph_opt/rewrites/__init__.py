"""Rules: what they say, where they hold, why they are believed, and their egglog program."""

from egraph_opt.rewrites.emit import Constructor, Question, constructor, declare, emit
from egraph_opt.rewrites.relevant import relevant
from egraph_opt.rewrites.rule import LEVELS, Effort, Numerics, Rule, rule

__all__ = [
    "LEVELS",
    "Constructor",
    "Effort",
    "Numerics",
    "Question",
    "Rule",
    "constructor",
    "declare",
    "emit",
    "relevant",
    "rule",
]
