"""Fewer instances: the smallest set that still closes the goal, as far as deletion finds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from egraph_opt.rewrites.prove.closure import Closure
from egraph_opt.rewrites.prove.proof import Axioms, Instance, equalities
from egraph_opt.rewrites.prove.terms import Term, schema
from egraph_opt.rewrites.prove.world import World
from egraph_opt.terms import Equation

Numbered = tuple[int, ...]
"""The number of an operator with its attributes, and the classes of its operands."""
Uses = list[tuple[Numbered, int]]
"""Operators that a class is an operand of, and their classes."""
Equalities = tuple[tuple[Term, Term], ...]


def minimise(equation: Equation, instances: Sequence[Instance], axioms: Axioms, world: World) -> tuple[Instance, ...]:
    """A subset of ``instances`` that closes the goal and none of which can be left out.

    The last instance of the shortest prefix that closes the goal is necessary; it is moved to the front, and so on:
    one pass over the instances per instance that is kept.
    """
    goal = _Goal(equation, {i: equalities(schema(axioms[i.axiom]), dict(i.binding)) for i in instances}, world)
    kept: list[Instance] = []
    rest = list(instances)
    while count := goal.missing(kept, rest):
        kept.append(rest[count - 1])
        rest = rest[: count - 1]
    for instance in tuple(kept):
        fewer = [i for i in kept if i != instance]
        if goal.missing(fewer) == 0:
            kept = fewer
    order = {instance: n for n, instance in enumerate(instances)}
    return tuple(sorted(kept, key=order.__getitem__))


class _Goal:
    """The terms of an equation and of all instances, to ask again and again which instances close it.

    Terms of instances that are left out do no harm: without their equality they only are there.
    """

    def __init__(self, equation: Equation, spelled: Mapping[Instance, Equalities], world: World) -> None:
        made = schema(equation)
        closure = Closure(world.key)
        self.sides = [(closure.add(a), closure.add(b)) for a, b in zip(made.lhs, made.rhs, strict=True)]
        self.pairs = {i: [(closure.add(a), closure.add(b)) for a, b in equal] for i, equal in spelled.items()}
        heads: dict[tuple[str, tuple[str, ...]], int] = {}
        self.nodes: dict[Numbered, int] = {}
        self.uses: list[Uses] = [[] for _ in closure.parents]
        for (head, keys, operands), class_ in closure.nodes.items():
            node = (heads.setdefault((head, keys), len(heads)), *operands)
            self.nodes[node] = class_
            for operand in dict.fromkeys(operands):
                self.uses[operand].append((node, class_))

    def missing(self, kept: Sequence[Instance], rest: Sequence[Instance] = ()) -> int | None:
        """How many of ``rest``, from its first on, close the goal beside ``kept``; ``None`` where all do not."""
        merging = _Merging(self.nodes, self.uses)
        merging.add(pair for i in kept for pair in self.pairs[i])
        for count, instance in enumerate(rest):
            if merging.equal(self.sides):
                return count
            merging.add(self.pairs[instance])
        return len(rest) if merging.equal(self.sides) else None


class _Merging:
    """Classes that fall together, pair by pair. Since it is done some hundred times, congruence is propagated along the
    operands that change (Downey, Sethi and Tarjan, JACM 1980)."""

    def __init__(self, nodes: Mapping[Numbered, int], uses: Sequence[Uses]) -> None:
        self.nodes, self.all_uses = nodes, uses
        self.parents = list(range(len(uses)))
        self.uses: dict[int, Uses] = {}
        self.table: dict[Numbered, int] = {}

    def equal(self, pairs: Iterable[tuple[int, int]]) -> bool:
        """Whether the classes of each pair are one."""
        return all(self._find(a) == self._find(b) for a, b in pairs)

    def add(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Makes the classes of each pair one, and those that follow."""
        parents, uses, table, find = self.parents, self.uses, self.table, self._find
        waiting = list(pairs)
        while waiting:
            a, b = (find(c) for c in waiting.pop())
            if a == b:
                continue
            if len(uses.get(a, self.all_uses[a])) > len(uses.get(b, self.all_uses[b])):
                a, b = b, a
            moved, held = uses.pop(a, self.all_uses[a]), uses.get(b, self.all_uses[b])
            parents[a] = b
            for (head, *operands), class_ in moved:
                node = (head, *(find(o) for o in operands))
                same = table.get(node, self.nodes.get(node))
                if same is None:
                    table[node] = class_
                else:
                    waiting.append((class_, same))
            uses[b] = held + moved

    def _find(self, class_: int) -> int:
        parents = self.parents
        while parents[class_] != class_:
            parents[class_] = class_ = parents[parents[class_]]
        return class_
