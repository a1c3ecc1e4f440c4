"""Fewer instances: the smallest set that still closes the goal, as far as deletion finds it."""

from __future__ import annotations

from collections.abc import Sequence

from egraph_opt.rewrites.prove.closure import Closure
from egraph_opt.rewrites.prove.proof import Axioms, Instance, spell_out
from egraph_opt.rewrites.prove.terms import Term, schema
from egraph_opt.rewrites.prove.world import World
from egraph_opt.terms import Equation

Equalities = tuple[tuple[Term, Term], ...]


def minimise(equation: Equation, instances: Sequence[Instance], axioms: Axioms, world: World) -> tuple[Instance, ...]:
    """A subset of ``instances`` that closes the goal and none of which can be left out.

    The last instance of the shortest prefix that closes the goal is necessary; it is moved to the front, and so on:
    one binary search per instance that is kept.
    """
    spelled = {i: spell_out(axioms[i.axiom], i).equalities for i in instances}
    kept: list[Instance] = []
    rest = list(instances)
    while not _closes(equation, [spelled[i] for i in kept], world):
        low, high = 1, len(rest)
        while low < high:
            middle = (low + high) // 2
            if _closes(equation, [spelled[i] for i in (*kept, *rest[:middle])], world):
                high = middle
            else:
                low = middle + 1
        kept.append(rest[high - 1])
        rest = rest[: high - 1]
    for instance in tuple(kept):
        fewer = [i for i in kept if i != instance]
        if _closes(equation, [spelled[i] for i in fewer], world):
            kept = fewer
    order = {instance: n for n, instance in enumerate(instances)}
    return tuple(sorted(kept, key=order.__getitem__))


def _closes(equation: Equation, equalities: Sequence[Equalities], world: World) -> bool:
    made = schema(equation)
    closure = Closure(world.key)
    goal = [(closure.add(a), closure.add(b)) for a, b in zip(made.lhs, made.rhs, strict=True)]
    for left, right in (pair for equal in equalities for pair in equal):
        closure.merge(closure.add(left), closure.add(right))
    closure.close()
    return all(closure.find(a) == closure.find(b) for a, b in goal)
