"""Congruence closure over terms: which terms are equal because others are.

Nelson and Oppen, "Fast decision procedures based on congruence closure" (JACM 1980), in its plainest form: a union-find
over classes, and a table of operators applied to classes that is rebuilt until nothing changes. Proofs are small, so
clarity is worth more than speed. Attributes are leaves: two are the same if the world gives them one key.
"""

from __future__ import annotations

from collections.abc import Callable

from egraph_opt.rewrites.prove.terms import Term

Node = tuple[str, tuple[str, ...], tuple[int, ...]]
"""An operator, the keys of its attributes, the classes of its operands; a variable has neither."""


class Closure:
    """Classes of equal terms. ``key`` says which attributes are the same."""

    def __init__(self, key: Callable[[str], str]) -> None:
        self.key = key
        self.parents: list[int] = []
        self.nodes: dict[Node, int] = {}

    def add(self, term: Term) -> int:
        """The class of a term, which is made if need be."""
        operands = tuple(self.add(o) for o in term.operands or ())
        node = (term.head, tuple(self.key(text) for text in term.attrs), operands)
        found = self.nodes.get(node)
        if found is None:
            found = self.nodes[node] = self.fresh(term)
        return self.find(found)

    def fresh(self, term: Term) -> int:
        """A new class, for ``term``."""
        self.parents.append(len(self.parents))
        return len(self.parents) - 1

    def find(self, class_: int) -> int:
        """The representative of a class."""
        while self.parents[class_] != class_:
            self.parents[class_] = self.parents[self.parents[class_]]
            class_ = self.parents[class_]
        return class_

    def merge(self, a: int, b: int) -> bool:
        """Makes two classes one; whether they were two. ``close`` must follow."""
        a, b = sorted((self.find(a), self.find(b)))
        self.parents[b] = a
        return a != b

    def close(self) -> None:
        """Merges whatever is congruent, until nothing is left to merge."""
        changed = True
        while changed:
            changed = False
            table: dict[Node, int] = {}
            for (head, keys, operands), class_ in self.nodes.items():
                node = (head, keys, tuple(self.find(o) for o in operands))
                other = table.setdefault(node, self.find(class_))
                changed |= self.merge(other, class_)
            self.nodes = {node: self.find(class_) for node, class_ in table.items()}

    def equal(self, a: Term, b: Term) -> bool:
        """Whether two terms are known to be equal (after ``close``)."""
        return self.add(a) == self.add(b)
