"""A proof as a person follows it: left side, one replacement after another, right side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from egraph_opt.rewrites.prove.check import CASES, SEED, Rejected, check_instance
from egraph_opt.rewrites.prove.proof import Axioms, Instance, Proof
from egraph_opt.rewrites.prove.terms import Term, schema
from egraph_opt.rewrites.prove.world import World
from egraph_opt.terms import Equation

STATES = 20_000
"""Terms to look at before giving up on a chain (the congruence closure has accepted the proof before)."""
Tree = tuple[str, tuple[str, ...], tuple["Tree", ...]]
"""A term up to the values of its attributes."""


@dataclass(frozen=True)
class Step:
    """``term`` is what an instance of ``axiom`` makes of the term before; ``backwards`` if read from right to left.
    The first step of a chain has no axiom."""

    term: Term
    axiom: str = ""
    backwards: bool = False

    def __str__(self) -> str:
        if not self.axiom:
            return str(self.term)
        return f"= {self.term}   [{self.axiom}{', backwards' if self.backwards else ''}]"


class Chains:
    """Chains of replacements in the cases on which proofs are checked; every term of a chain is type-checked."""

    def __init__(self, equation: Equation, proof: Proof, axioms: Axioms) -> None:
        self.world = World(equation, CASES, SEED)
        self.made = schema(equation)
        self.moves: list[tuple[Tree, Term, Instance, bool]] = []
        for instance in proof.instances:
            for left, right in check_instance(equation, instance, axioms, self.world)[0]:
                self.moves.append((self.tree(left), right, instance, False))
                self.moves.append((self.tree(right), left, instance, True))

    def tree(self, term: Term) -> Tree:
        """What tells terms apart."""
        keys = tuple(self.world.key(text) for text in term.attrs)
        return (term.head, keys, tuple(self.tree(o) for o in term.operands or ()))

    def roots(self) -> list[list[Step]]:
        """One chain for each root; an empty one where none was found within ``STATES`` terms."""
        return [self._chain(a, b) for a, b in zip(self.made.lhs, self.made.rhs, strict=True)]

    def _chain(self, start: Term, end: Term) -> list[Step]:
        target, first = self.tree(end), self.tree(start)
        came: dict[Tree, tuple[Tree, Step] | None] = {first: None}
        queue = deque([start])
        while queue and len(came) < STATES:
            term = queue.popleft()
            here = self.tree(term)
            if here == target:
                return self._back(came, here, start, end)
            for step in self._replacements(term):
                there = self.tree(step.term)
                if there not in came:
                    came[there] = (here, step)
                    queue.append(step.term)
        return []

    def _back(self, came: dict[Tree, tuple[Tree, Step] | None], here: Tree, start: Term, end: Term) -> list[Step]:
        steps: list[Step] = []
        at = came[here]
        while at is not None:
            steps.append(at[1])
            at = came[at[0]]
        if steps:
            steps[0] = Step(end, steps[0].axiom, steps[0].backwards)
        chain = [Step(start), *reversed(steps)]
        wanted = self.world.types(start)
        for step in chain:
            if self.world.types(step.term) != wanted:
                raise Rejected(f"{step.term} has another type than {start}")
        return chain

    def _replacements(self, term: Term) -> Iterator[Step]:
        here = self.tree(term)
        for tree, other, instance, backwards in self.moves:
            if tree == here:
                yield Step(other, instance.axiom, backwards)
        operands = term.operands or ()
        for i, operand in enumerate(operands):
            for step in self._replacements(operand):
                changed = (*operands[:i], step.term, *operands[i + 1 :])
                yield Step(Term(term.head, term.attrs, changed), step.axiom, step.backwards)
