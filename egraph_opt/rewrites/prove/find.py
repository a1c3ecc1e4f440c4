"""``prove``: an equation from axioms."""

from __future__ import annotations

from collections.abc import Sequence

from egraph_opt.rewrites.prove.check import Rejected, check
from egraph_opt.rewrites.prove.minimise import minimise
from egraph_opt.rewrites.prove.proof import Proof, by_name
from egraph_opt.rewrites.prove.search import Found, Limits, operators_in, search
from egraph_opt.rewrites.prove.world import Untyped, World
from egraph_opt.terms import Equation

CASES = 6
SEED = 0
_MOVES = frozenset({"Concat", "Get", "Split", "Slice", "Transpose", "Reshape", "Expand"})


def prove(
    equation: Equation,
    axioms: Sequence[Equation],
    *,
    cases: int = CASES,
    seed: int = SEED,
    limits: Limits = Limits(),  # noqa: B008 - frozen
) -> Proof | None:
    """A checked proof of ``equation``, or ``None`` where none was found. Deterministic.

    Args:
        cases: on how many cases to search; a search whose proof does not check is repeated with more.
        seed: of those cases; proofs are checked on others.
    """
    table = by_name(axioms)
    for count in (cases, 4 * cases):  # more cases where the first ones took different attributes for the same
        try:
            world = World(equation, count, seed)
            found = _search(equation, axioms, world, limits)
        except Untyped:
            return None
        if found is None:
            return None
        instances = minimise(equation, found.instances, table, world)
        try:
            return check(equation, Proof(equation.name, instances), table).proof
        except Rejected:
            continue
    return None


def _search(equation: Equation, axioms: Sequence[Equation], world: World, limits: Limits) -> Found | None:
    """Tries few axioms first: those about operators of the goal, then those that move data as well, then all."""
    mine = operators_in(equation)
    tried: list[Equation] = []
    for allowed in (mine, mine | _MOVES, None):
        chosen = [a for a in axioms if allowed is None or operators_in(a) <= allowed]
        if len(chosen) == len(tried):
            continue
        tried = chosen
        found = search(equation, chosen, world, limits=limits)
        if found.proved:
            return found
    return None
