"""Which rules there are for the operator of a node, and what stopped each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from egraph_opt.explanation.misses import Finder, Obstacle
from egraph_opt.explanation.records import RuleAt, Stop
from egraph_opt.explanation.text import Words
from egraph_opt.pipeline.options import Options
from egraph_opt.rewrites import LEVELS, Rule
from egraph_opt.rewrites.validation import effective_status
from egraph_opt.saturation import Frozen
from egraph_opt.search.match import Subject
from egraph_opt.terms import App

HELPERS = frozenset({"commutative"})
"""Families that only put operands into the order that another rule wants."""
_STOPS = {Obstacle.FORM: Stop.FORM, Obstacle.PARTNER: Stop.FORM}


@dataclass(frozen=True)
class Attempts:
    """Rules at nodes.

    Attributes:
        offered: every rule there is; those that were loaded are in ``frozen.rules``.
        ended: why saturation ended.
    """

    frozen: Frozen
    offered: Sequence[Rule]
    options: Options
    ended: str

    def at(self, index: int, makers: Collection[str]) -> Iterator[RuleAt]:
        """What became of each rule for the operator of a node, those that came furthest first.

        ``makers``: rules behind what the node became.
        """
        fired = set(self.frozen.fired.get(self.frozen.original[index], ()))
        found = [self._one(rule, index, fired, makers) for rule in self._by_op.get(self._key(index), ())]
        order = list(Stop)
        yield from sorted((f for f in found if f), key=lambda f: (order.index(f.stop), -f.share, f.rule))

    def closest(self, index: int) -> RuleAt | None:
        """The rule that came furthest of those that did not fire."""
        return next((a for a in self.at(index, ()) if a.stop in (Stop.CONDITION, Stop.FORM, Stop.LIMIT)), None)

    def _one(self, rule: Rule, index: int, fired: Collection[str], makers: Collection[str]) -> RuleAt | None:
        loaded = rule.name in self.frozen.rules
        if rule.name in makers:
            return self._told(rule, Stop.MADE, 1, "")
        if rule.name in fired:
            return self._told(rule, Stop.COST, 1, "it fired, and what it made is not in the cheapest graph")
        miss = self._finder.miss(rule, index)
        if not loaded:
            held = miss.obstacle is Obstacle.NOTHING
            return self._told(rule, Stop.NOT_LOADED, 1, self._why_not_loaded(rule)) if held else None
        if miss.obstacle is Obstacle.NOTHING:
            return self._told(rule, Stop.LIMIT, 1, self._why_not_applied(index))
        return self._told(rule, _STOPS.get(miss.obstacle, Stop.CONDITION), miss.share, miss.reason)

    def _told(self, rule: Rule, stop: Stop, share: float, reason: str) -> RuleAt:
        return RuleAt(rule.name, rule.equation, rule.float_class, effective_status(rule), stop, share, reason)

    def _why_not_loaded(self, rule: Rule) -> str:
        if rule.float_class not in LEVELS[self.options.numerics]:
            level = next(level for level, classes in LEVELS.items() if rule.float_class in classes)
            return f"it is of class {rule.float_class}: --numerics {level} loads it"
        if rule.effort == "thorough" and self.options.effort != "thorough":
            return "it enlarges e-graphs: --effort thorough loads it"
        return "--only-rules or --skip-rules leave it out"

    def _why_not_applied(self, index: int) -> str:
        if self._finder.subject.constant[index]:
            return "the node depends on constants alone, and is evaluated instead"
        return f"it would hold here, but saturation ended before it was applied ({self.ended}), or it gave nothing new"

    def _key(self, index: int) -> tuple[str, int]:
        node = self.frozen.graph.nodes[index]
        return node.op, len(node.operands)

    @cached_property
    def _finder(self) -> Finder:
        swaps = frozenset(p.op for r in self.offered if r.family in HELPERS for p in r.lhs if isinstance(p, App))
        words = Words(self.frozen)
        labels = {index: words.node(index) for index in range(len(self.frozen.graph.nodes))}
        return Finder(Subject(self.frozen.graph), swaps, labels)

    @cached_property
    def _by_op(self) -> dict[tuple[str, int], list[Rule]]:
        found: dict[tuple[str, int], list[Rule]] = {}
        for rule in self.offered:
            first = rule.lhs[0]
            if isinstance(first, App) and rule.family not in HELPERS:
                found.setdefault((first.op, len(first.operands)), []).append(rule)
        return found
