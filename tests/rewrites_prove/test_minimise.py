"""Of the many instances that a search tries, a proof keeps those that it needs."""

from __future__ import annotations

import pytest

from egraph_opt.axioms import all_axioms
from egraph_opt.rewrites.library import all_rules
from egraph_opt.rewrites.prove import Proof, Rejected, check
from egraph_opt.rewrites.prove.minimise import minimise
from egraph_opt.rewrites.prove.proof import by_name
from egraph_opt.rewrites.prove.search import search
from egraph_opt.rewrites.prove.world import World
from egraph_opt.rewrites.rule import Rule
from egraph_opt.rewrites.validation import proof_of

AXIOMS = by_name(all_axioms())
GOALS = [r for r in all_rules() if (proof := proof_of(r)) is not None and len(proof.instances) in (2, 3)][:6]


@pytest.mark.parametrize("goal", GOALS, ids=lambda r: r.name)
def test_what_is_kept_closes_the_goal_and_none_of_it_can_be_left_out(goal: Rule) -> None:
    near = [a for a in all_axioms() if a.heads <= goal.heads]
    world = World(goal, 6, 0)
    found = search(goal, near, world)
    if not found.proved:
        found = search(goal, all_axioms(), world)
    assert found.proved
    kept = minimise(goal, found.instances, AXIOMS, world)
    assert set(kept) <= set(found.instances)
    check(goal, Proof(goal.name, kept), AXIOMS)
    for instance in kept:
        with pytest.raises(Rejected, match="do not show"):
            check(goal, Proof(goal.name, tuple(i for i in kept if i != instance)), AXIOMS)


def test_a_goal_that_nothing_closes_keeps_nothing() -> None:
    goal = GOALS[0]
    assert minimise(goal, (), AXIOMS, World(goal, 6, 0)) == ()
