"""Backtracking search over whole graphs (Jia et al., "TASO", SOSP 2019, algorithm 2; after MetaFlow, MLSys 2019).

A queue of graphs, the cheapest first; each is rewritten by every rule at every place, and what costs less than
``alpha`` times the best so far joins the queue. The same rules and the same costs as in the e-graph, so that what
differs is the search alone.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from egraph_opt.ir import TensorGraph, TensorType
from egraph_opt.rewrites import Rule
from egraph_opt.runtime import SECONDS_PER_STORED_BYTE, Cost, CostModel, Signature
from egraph_opt.search.match import Subject, apply, matches


@dataclass(frozen=True)
class SearchResult:
    """What the search found.

    Attributes:
        graph: the cheapest graph; constants are not folded yet.
        cost, original: estimated seconds of it, and of the graph that the search began with.
        expanded: graphs whose every rewriting was tried (TASO's budget counts these).
        generated: graphs that rewriting made; ``distinct`` of them were new.
        finished: whether the queue ran empty, rather than the budget or the time.
        trace: (seconds since the start, cost) whenever the best improved.
        rules: the rules on the way from the original to the result, in order.
    """

    graph: TensorGraph
    cost: float
    original: float
    expanded: int
    generated: int
    distinct: int
    finished: bool
    seconds: float
    trace: tuple[tuple[float, float], ...]
    rules: tuple[str, ...]


@dataclass
class Pricer:
    """Sums of operator costs; each distinct operator is priced once. What weights alone decide costs its bytes."""

    model: CostModel
    _known: dict[Signature, float] = field(default_factory=dict[Signature, float])

    def price(self, subject: Subject) -> float:
        """Estimated seconds of the live part of a graph whose sizes are numbers."""
        graph, constant = subject.graph, subject.constant
        signatures: list[Signature] = []
        stored: set[int] = set()
        for index in subject.live:
            node = graph.nodes[index]
            if not constant[index]:
                types = tuple(graph.types[i] for i in node.operands)
                signatures.append(Signature(node.op, node.attrs, types, tuple(constant[i] for i in node.operands)))
                stored.update(i for i in node.operands if constant[i])
        stored.update(i for i in graph.outputs if constant[i])
        missing = [s for s in dict.fromkeys(signatures) if s not in self._known]
        costs: list[Cost] = self.model.price(missing)
        self._known.update((s, c.seconds) for s, c in zip(missing, costs, strict=True))
        return sum(self._known[s] for s in signatures) + SECONDS_PER_STORED_BYTE * sum(_bytes(graph, i) for i in stored)


def _bytes(graph: TensorGraph, index: int) -> int:
    type_ = graph.types[index]
    return int(str(type_.bytes)) if isinstance(type_, TensorType) else 0


def backtrack(
    graph: TensorGraph,
    rules: Sequence[Rule],
    pricer: Pricer,
    *,
    alpha: float = 1.0,
    budget: int = 100,
    time_limit: float = 60.0,
    on_progress: Callable[[int, float], None] | None = None,
) -> SearchResult:
    """The cheapest graph that the search meets. Deterministic, but for the time limit.

    Args:
        graph: all sizes are numbers.
        alpha: graphs that cost less than ``alpha`` times the best are followed (TASO: 1.0 to 1.05).
        budget: graphs that are expanded at most (TASO: 30 to 100 for its examples).
        time_limit: seconds.
        on_progress: called with the number of expanded graphs and the best cost.
    """
    return _Search(graph, rules, pricer, alpha, budget, time_limit, on_progress).run()


@dataclass
class _Search:
    start_graph: TensorGraph
    rules: Sequence[Rule]
    pricer: Pricer
    alpha: float
    budget: int
    time_limit: float
    on_progress: Callable[[int, float], None] | None

    def __post_init__(self) -> None:
        self.begin = time.monotonic()
        first = Subject(self.start_graph)
        self.best, self.original = first, self.pricer.price(first)
        self.cost = self.original
        self.path: tuple[str, ...] = ()
        self.queue: list[tuple[float, int, Subject, tuple[str, ...]]] = [(self.cost, 0, first, ())]
        self.seen = {self.start_graph.fingerprint()}
        self.trace = [(0.0, self.cost)]
        self.expanded = self.generated = 0

    def run(self) -> SearchResult:
        while self.queue and self.expanded < self.budget and not self._late():
            _, _, subject, path = heapq.heappop(self.queue)
            self._expand(subject, path)
            self.expanded += 1
            if self.on_progress is not None:
                self.on_progress(self.expanded, self.cost)
        return SearchResult(
            self.best.graph,
            self.cost,
            self.original,
            self.expanded,
            self.generated,
            len(self.seen),
            not self.queue and not self._late(),
            time.monotonic() - self.begin,
            tuple(self.trace),
            self.path,
        )

    def _expand(self, subject: Subject, path: tuple[str, ...]) -> None:
        for rule in self.rules:
            for match in matches(subject, rule):
                if self._late():
                    return
                made = apply(subject, match)
                self.generated += 1
                if made is not None and (mark := made.fingerprint()) not in self.seen:
                    self.seen.add(mark)
                    self._consider(Subject(made), (*path, rule.name))

    def _consider(self, subject: Subject, path: tuple[str, ...]) -> None:
        cost = self.pricer.price(subject)
        if cost < self.cost:
            self.best, self.cost, self.path = subject, cost, path
            self.trace.append((time.monotonic() - self.begin, cost))
        if cost < self.alpha * self.cost or cost == self.cost:
            heapq.heappush(self.queue, (cost, len(self.seen), subject, path))

    def _late(self) -> bool:
        return time.monotonic() - self.begin > self.time_limit
