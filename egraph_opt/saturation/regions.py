"""What of a graph became what of a selection: the values that both compute cut the two into regions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from egraph_opt.egraph import Selection
from egraph_opt.terms import App, Number, Pattern, Var, walk

if TYPE_CHECKING:
    from egraph_opt.rewrites import Rule
    from egraph_opt.saturation.frozen import Frozen

LEAVES = ("Input", "Const")


@dataclass(frozen=True)
class Region:
    """How one value of the graph, which the selection computes as well, was and is computed.

    Attributes:
        cls: the class of the value.
        old: nodes of the graph that computed it: its own, and those below that nothing computes any more.
        new: selected e-nodes that compute it from other such values, its own first; one may be in several regions.
        rules: those that lead from ``old`` to ``new``; empty where the graph's own nodes are selected.
    """

    cls: int
    old: tuple[int, ...]
    new: tuple[int, ...]
    rules: tuple[str, ...]


def regions(frozen: Frozen, selection: Selection) -> list[Region]:
    """One region for each value of the graph that the selection computes, inputs and constants among them.

    What is gone belongs to the region of each value that it was computed for. Which rules reached a class is known, and
    not in which order: of these, a shortest chain that leads from the operator of the old node to that of the new one.
    """
    cut = _Cut(frozen, selection)
    return [cut.region(cls) for cls in cut.chosen if cls in cut.values]


class _Cut:
    def __init__(self, frozen: Frozen, selection: Selection) -> None:
        self.frozen = frozen
        self.chosen = {frozen.enodes[number].cls: number for number in selection.order(frozen.egraph)}
        self.selected = frozenset(self.chosen.values())
        self.values: dict[int, list[int]] = {}
        for index in frozen.graph.live():
            self.values.setdefault(frozen.original[index], []).append(index)

    def region(self, cls: int) -> Region:
        old, new = tuple(self._old(cls)), tuple(self._new(cls))
        gone = [i for i in old if self.frozen.places[i] not in self.selected]
        return Region(cls, old, new, tuple(self._rules(cls, gone, new)) if gone else ())

    def _new(self, cls: int) -> Iterator[int]:
        seen, stack = {cls}, [cls]
        while stack:
            number = self.chosen[stack.pop()]
            yield number
            below = [c for c in self.frozen.enodes[number].operands if c not in seen and c not in self.values]
            seen.update(below)
            stack += reversed(below)

    def _old(self, cls: int) -> Iterator[int]:
        nodes, stack = self.frozen.graph.nodes, list(reversed(self.values[cls]))
        seen = set(stack)
        while stack:
            index = stack.pop()
            yield index
            for operand in nodes[index].operands:
                here = operand in seen or self.frozen.original[operand] in self.chosen
                if not here and nodes[operand].op not in LEAVES:
                    seen.add(operand)
                    stack.append(operand)

    def _rules(self, cls: int, gone: Collection[int], new: Collection[int]) -> Iterable[str]:
        """The chain of each node that is gone: to the new e-node, or to what the rules after it match inside."""
        wanted = {self.frozen.enodes[number].op for number in new}
        rules: dict[str, None] = {}
        for index in sorted(gone, reverse=True):
            op, here = self.frozen.graph.nodes[index].op, self.frozen.original[index]
            if here != cls and op in wanted:
                continue  # it is matched as it is
            for rule in chain(self.frozen, here, op, wanted):
                rules[rule.name] = None
                wanted |= {p.op for q in rule.lhs for p in walk(q) if isinstance(p, App) and p is not q}
        return rules


def chain(frozen: Frozen, cls: int, start: str, goals: Collection[str]) -> list[Rule]:
    """A shortest chain of rules that reached the class, from an operator to one of ``goals``, or to a variable.

    All of them where there is no such chain. Rules that only put operands into another order are left out.
    """
    fired = [frozen.rules[name] for name in frozen.fired.get(cls, ()) if name in frozen.rules]
    reached = [rule for rule in fired if rule.family != "commutative"]
    rules = [rule for rule in reached if any(occurs(frozen, p, cls) for p in rule.lhs)] or reached
    ways: dict[str, list[Rule]] = {start: []}
    queue = [start]
    for op in queue:  # grows meanwhile
        for rule in rules:
            if op not in {p.op for p in rule.lhs if isinstance(p, App)}:
                continue
            for made in rule.rhs:
                if not isinstance(made, App) or made.op in goals:
                    return [*ways[op], rule]
                if made.op not in ways:
                    ways[made.op] = [*ways[op], rule]
                    queue.append(made.op)
    return rules


def occurs(frozen: Frozen, pattern: Pattern, cls: int) -> bool:
    """Whether the class has an e-node of the form of a pattern; attributes count where the pattern writes them out.

    A stored constant has any form: what it was computed from is not in the e-graph any more.
    """
    here = [frozen.enodes[number] for number in frozen.egraph.nodes_of(cls)]
    match pattern:
        case Var():
            return True
        case Number():
            return any(e.op == "Const" for e in here)
        case App(op, attrs, operands):
            return any(
                e.op == "Const"
                or (
                    (e.op, len(e.operands)) == (op, len(operands))
                    and all(not a.is_literal or repr(a.literal) == repr(v) for a, v in zip(attrs, e.attrs, strict=True))
                    and all(occurs(frozen, o, c) for o, c in zip(operands, e.operands, strict=True))
                )
                for e in here
            )
