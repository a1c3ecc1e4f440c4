"""Which axioms follow from the others, and from which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from egraph_opt.rewrites.prove.find import prove
from egraph_opt.rewrites.prove.proof import Proof
from egraph_opt.rewrites.prove.search import Limits
from egraph_opt.terms import Equation

LIMITS = Limits(rounds=3, nodes=200, instances=1500)


@dataclass(frozen=True)
class Redundant:
    """An axiom, and its proof from others."""

    axiom: str
    proof: Proof


def redundant(axioms: Sequence[Equation], *, limits: Limits = LIMITS) -> Iterator[Redundant]:
    """Axioms with a checked proof from the axioms that are left, the last first: what is found is not used again, so
    those that remain prove all. An axiom that is not found may still follow by a longer proof."""
    left = list(axioms)
    for axiom in reversed(axioms):
        others = [a for a in left if a.name != axiom.name]
        proof = prove(axiom, others, z3=False, limits=limits)
        if proof is not None:
            left = others
            yield Redundant(axiom.name, proof)
