"""``prove``: an equation from axioms. Instances by matching, then Z3, then the checker; all three must agree."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from egraph_opt.rewrites.prove.check import Rejected, check
from egraph_opt.rewrites.prove.minimise import minimise
from egraph_opt.rewrites.prove.proof import Proof, by_name
from egraph_opt.rewrites.prove.search import Found, Limits, Spelled, search
from egraph_opt.rewrites.prove.world import Untyped, World
from egraph_opt.terms import Equation

if TYPE_CHECKING:
    from egraph_opt.rewrites.prove.smt import Oracle

CASES = 6
LIMITS = Limits()
SEED = 0
_MOVES = frozenset({"Concat", "Get", "Split", "Slice", "Transpose", "Reshape", "Expand"})


@dataclass(frozen=True)
class Attempt:
    """What came of trying to prove an equation.

    Attributes:
        proof: minimised and checked; ``None`` where there is none.
        core: axioms in Z3's core, where it was asked.
        reason: why there is no proof.
        milliseconds: of the search, of Z3, of minimising and checking.
    """

    proof: Proof | None
    core: tuple[str, ...] = ()
    reason: str = ""
    milliseconds: tuple[float, float, float] = field(default=(0.0, 0.0, 0.0), compare=False)


def prove(
    equation: Equation, axioms: Sequence[Equation], *, z3: bool = True, limits: Limits = LIMITS, seed: int = SEED
) -> Proof | None:
    """A checked proof of ``equation``, or ``None`` where none was found. Deterministic."""
    return attempt(equation, axioms, z3=z3, limits=limits, seed=seed).proof


def attempt(
    equation: Equation, axioms: Sequence[Equation], *, z3: bool = True, limits: Limits = LIMITS, seed: int = SEED
) -> Attempt:
    """A proof of ``equation``, or why there is none.

    Args:
        z3: ask Z3 too, which gets the quantified axioms and not the instances; without it the proof is checked all
            the same.
        seed: of the cases of the search; proofs are checked on others.
    """
    failed = Attempt(None, reason="not found")
    for cases in (CASES, 4 * CASES):  # more where the first ones took different attributes for the same
        try:
            failed = _attempt(equation, axioms, World(equation, cases, seed), limits, z3)
        except Untyped as error:
            return Attempt(None, reason=str(error))
        if failed.proof is not None or not failed.reason.startswith("rejected"):
            break
    return failed


def _attempt(equation: Equation, axioms: Sequence[Equation], world: World, limits: Limits, z3: bool) -> Attempt:
    clock = [time.perf_counter()]
    found = _search(equation, axioms, world, limits)
    clock.append(time.perf_counter())
    if found is None:
        return Attempt(None, reason="not found", milliseconds=_differences(clock))
    core: tuple[str, ...] = ()
    if z3:
        answer = oracle(tuple(axioms)).ask(equation, world, found.instances, second=True)
        core = answer.core
        clock.append(time.perf_counter())
        if answer.status != "proved":
            return Attempt(None, reason="Z3 does not agree", milliseconds=_differences(clock))
    table = by_name(axioms)
    try:
        proof = check(equation, Proof(equation.name, minimise(equation, found.instances, table, world)), table).proof
    except Rejected as error:
        return Attempt(None, reason=f"rejected: {error}")
    if not z3:
        clock.append(clock[-1])
    clock.append(time.perf_counter())
    return Attempt(proof, core, milliseconds=_differences(clock))


@lru_cache(4)
def oracle(axioms: tuple[Equation, ...]) -> Oracle:
    """Z3 with these axioms, kept for the next question."""
    from egraph_opt.rewrites.prove.smt import Oracle

    return Oracle(axioms)


def _differences(clock: Sequence[float]) -> tuple[float, float, float]:
    parts = [1e3 * (b - a) for a, b in pairwise(clock)]
    return (*parts, 0.0, 0.0, 0.0)[:3]  # type: ignore[return-value]


def _search(equation: Equation, axioms: Sequence[Equation], world: World, limits: Limits) -> Found | None:
    """Tries few axioms first: those about operators of the goal, then those that move data as well, then all."""
    mine, spelled = equation.heads, Spelled(axioms, world)
    tried: list[Equation] = []
    for allowed in (mine, mine | _MOVES, None):
        chosen = [a for a in axioms if allowed is None or a.heads <= allowed]
        if len(chosen) == len(tried):
            continue
        tried = chosen
        found = search(equation, chosen, world, limits=limits, spelled=spelled)
        if found.proved:
            return found
    return None
