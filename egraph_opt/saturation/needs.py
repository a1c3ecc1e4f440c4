"""What must be in an e-graph before a rule can match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from egraph_opt.ir import Interner
from egraph_opt.rewrites import Rule, constructor
from egraph_opt.saturation.bindings import bindings
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
    def links(self) -> tuple[Link, ...]:
        """Asked only of rules whose tables have rows: most never get so far."""
        return tuple(
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


@dataclass
class Links:
    """The links of one e-graph that were found; they stay, for classes only grow.

    Of a rule that lacks some, the one that was missing last is looked for first, so that most are asked one question
    each time (as clauses of a SAT solver are by their watched literals).
    """

    _found: set[Link] = field(default_factory=set[Link])
    _missing: dict[int, Link] = field(default_factory=dict[int, Link])

    def complete(self, wanted: Mapping[int, Needs], egraph: bindings.EGraph) -> list[int]:
        """Those of the numbered needs all of whose links are in the e-graph by now."""
        seen = _Seen(egraph)
        for number, needs in wanted.items():
            last = self._missing.pop(number, None)
            links = needs.links if last is None else (last, *needs.links)
            missing = next((link for link in links if not self._has(link, seen)), None)
            if missing is not None:
                self._missing[number] = missing
        return [number for number in wanted if number not in self._missing]

    def _has(self, link: Link, seen: _Seen) -> bool:
        if link not in self._found and seen.has(link):
            self._found.add(link)
        return link in self._found


@dataclass
class _Seen:
    """What an e-graph holds now, read table by table as it is asked for."""

    egraph: bindings.EGraph
    _rows: dict[str, list[list[bindings.Value]]] = field(default_factory=dict)
    _operands: dict[tuple[str, int], set[bindings.Value]] = field(default_factory=dict)
    _members: dict[str, set[bindings.Value]] = field(default_factory=dict)

    @cached_property
    def _functions(self) -> dict[str, bindings.FrozenFunction]:
        return self.egraph.freeze().functions

    def has(self, link: Link) -> bool:
        """Whether a class of the one table is an operand in the other."""
        parent, place, child = link
        if parent not in self._rows:
            self._rows[parent] = [row.inputs for row in self._functions[parent].rows]
        if (parent, place) not in self._operands:
            self._operands[parent, place] = {row[place] for row in self._rows[parent]}
        if child not in self._members:
            self._members[child] = set(_classes(self._functions[child].rows, child))
        return not self._members[child].isdisjoint(self._operands[parent, place])


def _classes(rows: Iterable[bindings.FrozenRow], table: str) -> Iterable[bindings.Value]:
    """What is in a relation of classes, or has an e-node of a constructor."""
    return (row.inputs[0] if table.startswith("is_") else row.output for row in rows)
