"""Proofs of rules from axioms.

``find`` looks for ground instances of axioms (``search``) in a number of cases of the equation (``world``), has Z3
prove the equation from the quantified axioms (``smt``), and minimises what is needed (``minimise``). ``check`` believes
none of them: it has the rules of the game (``proof``, ``terms``, ``closure``) and accepts or rejects. ``steps`` shows a
proof, ``records`` keeps it, ``canaries`` sing when the axioms are inconsistent.
"""

from egraph_opt.rewrites.prove.check import Rejected, Verified, check
from egraph_opt.rewrites.prove.find import Attempt, attempt, prove
from egraph_opt.rewrites.prove.proof import Instance, Justified, Proof
from egraph_opt.rewrites.prove.search import Limits

__all__ = [
    "Attempt",
    "Instance",
    "Justified",
    "Limits",
    "Proof",
    "Rejected",
    "Verified",
    "attempt",
    "check",
    "prove",
]
