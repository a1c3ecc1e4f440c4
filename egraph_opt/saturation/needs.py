"""What must be in an e-graph before a rule can match."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from egraph_opt.ir import Interner
from egraph_opt.rewrites import Rule, constructor
from egraph_opt.terms.pattern import App, Number, Pattern, Var, walk

Link = tuple[str, int, str]
"""A constructor, a column of its operands, and the constructor or relation that an operand there is in."""


@dataclass(frozen=True)
class Needs:
    """Rows in the tables of a rule's operators and numbers, and classes of one table as operands in another.

    Attributes:
        literals: the numbers that rules compare with, by their place.
        tables: constructors, and relations of numbers.
    """

    rule: Rule
    literals: Interner
    tables: frozenset[str]

    @staticmethod
    def of(rule: Rule, literals: Interner) -> Needs:
        """Those of ``rule``; its numbers are added to ``literals``."""
        tables: set[str] = set()
        parts = list(rule.lhs)
        for part in parts:  # grows meanwhile
            if isinstance(part, App):
                tables.add(constructor(part.op, len(part.operands)))
                parts += part.operands
            elif isinstance(part, Number):
                tables.add(f"is_literal_{literals.id(part.value)}")
        return Needs(rule, literals, frozenset(tables))

    @cached_property
    def links(self) -> frozenset[Link]:
        """Asked only of rules whose tables have rows: most never get so far."""
        return frozenset(
            (constructor(p.op, len(p.operands)), place, name)
            for q in self.rule.lhs for p in walk(q) if isinstance(p, App)
            for place, operand in enumerate(p.operands, len(p.attrs)) if (name := self._table(operand))
        )  # fmt: skip

    def _table(self, pattern: Pattern) -> str:
        """Where the classes that may stand for a pattern are; empty where any may."""
        match pattern:
            case App(op, _, operands):
                return constructor(op, len(operands))
            case Number(value):
                return f"is_literal_{self.literals.id(value)}"
            case Var(name):
                return "is_const" if name in self.rule.constants else ""
