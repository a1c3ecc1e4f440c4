"""Axioms: properties of operators that rules are proved from, each validated on many shapes before it may be used.

An axiom says an equation between operators and when it holds, in the language of ``egraph_opt.terms``; the equations
are data, one family per file in ``laws/``. ``egraph-opt axioms validate`` holds each against the table in
``egraph_opt.ops``: exactly on small shapes, modulo a prime or on signed numbers on every combination of a space that
``space.py`` writes down.
"""

from egraph_opt.axioms.library import all_axioms
from egraph_opt.axioms.record import Axiom, axiom

__all__ = ["Axiom", "all_axioms", "axiom"]
