"""Fewer instances: the smallest set that still closes the goal, as far as deletion finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from egraph_opt.rewrites.prove.closure import Closure
from egraph_opt.rewrites.prove.proof import Axioms, Instance, spell_out
from egraph_opt.rewrites.prove.terms import Term, schema
from egraph_opt.rewrites.prove.world import World
from egraph_opt.terms import Equation

Numbered = tuple[int, ...]
"""The number of an operator with its attributes, and the classes of its operands."""
Equalities = tuple[tuple[Term, Term], ...]


def minimise(equation: Equation, instances: Sequence[Instance], axioms: Axioms, world: World) -> tuple[Instance, ...]:
    """A subset of ``instances`` that closes the goal and none of which can be left out.

    The last instance of the shortest prefix that closes the goal is necessary; it is moved to the front, and so on:
    one binary search per instance that is kept.
    """
    goal = _Goal(equation, {i: spell_out(axioms[i.axiom], i).equalities for i in instances}, world)
    kept: list[Instance] = []
    rest = list(instances)
    while not goal.closes(kept):
        low, high = 1, len(rest)
        while low < high:
            middle = (low + high) // 2
            if goal.closes((*kept, *rest[:middle])):
                high = middle
            else:
                low = middle + 1
        kept.append(rest[high - 1])
        rest = rest[: high - 1]
    for instance in tuple(kept):
        fewer = [i for i in kept if i != instance]
        if goal.closes(fewer):
            kept = fewer
    order = {instance: n for n, instance in enumerate(instances)}
    return tuple(sorted(kept, key=order.__getitem__))


class _Goal:
    """The terms of an equation and of all instances, to ask again and again which instances close it.

    Terms of instances that are left out do no harm: without their equality they only are there. Since it is asked some
    hundred times, congruence is propagated along the operands that change (Downey, Sethi and Tarjan, JACM 1980).
    """

    def __init__(self, equation: Equation, spelled: Mapping[Instance, Equalities], world: World) -> None:
        made = schema(equation)
        closure = Closure(world.key)
        self.sides = [(closure.add(a), closure.add(b)) for a, b in zip(made.lhs, made.rhs, strict=True)]
        self.pairs = {i: [(closure.add(a), closure.add(b)) for a, b in equal] for i, equal in spelled.items()}
        heads: dict[tuple[str, tuple[str, ...]], int] = {}
        self.nodes: dict[Numbered, int] = {}
        self.uses: list[list[tuple[Numbered, int]]] = [[] for _ in closure.parents]
        for (head, keys, operands), class_ in closure.nodes.items():
            node = (heads.setdefault((head, keys), len(heads)), *operands)
            self.nodes[node] = class_
            for operand in dict.fromkeys(operands):
                self.uses[operand].append((node, class_))

    def closes(self, instances: Sequence[Instance]) -> bool:
        """Whether the sides of the equation fall together by these instances."""
        parents = list(range(len(self.uses)))
        uses: dict[int, list[tuple[Numbered, int]]] = {}
        table: dict[Numbered, int] = {}

        def find(class_: int) -> int:
            while parents[class_] != class_:
                parents[class_] = class_ = parents[parents[class_]]
            return class_

        waiting = [pair for i in instances for pair in self.pairs[i]]
        while waiting:
            a, b = (find(c) for c in waiting.pop())
            if a == b:
                continue
            if len(uses.get(a, self.uses[a])) > len(uses.get(b, self.uses[b])):
                a, b = b, a
            moved, held = uses.pop(a, self.uses[a]), uses.get(b, self.uses[b])
            parents[a] = b
            for (head, *operands), class_ in moved:
                node = (head, *(find(o) for o in operands))
                same = table.get(node, self.nodes.get(node))
                if same is None:
                    table[node] = class_
                else:
                    waiting.append((class_, same))
            uses[b] = held + moved
        return all(find(a) == find(b) for a, b in self.sides)
