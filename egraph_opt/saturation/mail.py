"""The mailboxes in which egglog asks what only Python can compute: types, conditions, attributes of results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from egraph_opt.rewrites.emit import declare_mailbox, mailbox
from egraph_opt.saturation.bindings import bindings


class Mailboxes:
    """Those of one e-graph. To read one takes as long as there are letters in it; a frozen e-graph has every row of
    every table."""

    def __init__(self, egraph: bindings.EGraph) -> None:
        self._egraph = egraph
        self._names: list[str] = []
        self._answered: set[tuple[int, ...]] = set()

    def open(self, lengths: Iterable[int]) -> None:
        """Declares those for questions of these lengths, as far as there are none."""
        new = sorted({length for length in lengths if mailbox(length) not in self._names})
        self._names += map(mailbox, new)
        self._egraph.parse_and_run_program("\n".join(map(declare_mailbox, new)))

    def read(self) -> list[tuple[int, tuple[int, ...]]]:
        """Who asks, and what, in a fixed order; without what was asked before. The mailboxes are empty afterwards."""
        counted = self._egraph.parse_and_run_program("\n".join(f"(print-size {name})" for name in self._names))
        full = [
            name
            for name, size in zip(self._names, counted, strict=True)
            if isinstance(size, bindings.PrintFunctionSize) and size.size
        ]
        if not full:
            return []
        shown = self._egraph.parse_and_run_program("\n".join(f"(print-function {name})" for name in full))
        self._egraph.parse_and_run_program("(run-schedule (run clear))")
        rows = {row for table in shown if isinstance(table, bindings.PrintFunctionOutput) for row in _rows(table)}
        new = sorted(rows - self._answered)
        self._answered.update(new)
        return [(row[0], row[1:]) for row in new]


def _rows(table: bindings.PrintFunctionOutput) -> Iterator[tuple[int, ...]]:
    """The rows of a table of numbers."""
    term = table.termdag.get
    for row, _ in table.terms:
        yield tuple(term(cell).value.value for cell in term(row).args)  # type: ignore[union-attr]
