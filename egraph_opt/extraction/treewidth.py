"""Exact extraction by dynamic programming over a tree decomposition, where that is narrow enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, NamedTuple

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.graph import strongly_connected
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee
from egraph_opt.extraction.shares import open_parts


@dataclass(frozen=True)
class Treewidth:
    """Classes are eliminated one by one; tables tell what any partial selection offers to and asks of the rest.

    After Goharshady, Lam, Parreaux, "Fast and optimal extraction for sparse equality graphs" (2024) and Sun, Zhang,
    Ni, "E-graphs as circuits, and optimal extraction via treewidth" (2024). Where the width or a table exceeds its
    limit, that part of the problem keeps its greedy answer, without proof; the notes say how many parts do
    (``too wide``) and how wide the widest is (``width``).

    Attributes:
        width: largest number of classes beside the eliminated one that a table may speak of.
        states: largest number of partial selections in a table.
    """

    width: int = 24
    states: int = 60_000

    name: ClassVar[str] = "treewidth"
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    description: ClassVar[str] = "dynamic programming over a tree decomposition: proven where that is narrow enough"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Never worse than ``dag-greedy`` or ``warm_start``; has no use for ``seed``."""
        board = Board(problem, clock, warm_start)
        widest, too_wide = 0, 0
        for index, used_up in open_parts(board):
            part = board.parts[index].problem
            with clock.stage("order"):
                order, width = elimination_order(part, self.width, used_up)
            widest = max(widest, width)
            with clock.stage("tables"):
                upper = part.rank(board.best[index])[0]
                solved = order is not None and _Tables(part, order, upper, self.states, used_up)
                if not solved or not solved.finished:
                    too_wide += 1
                    continue
            if solved.choice is not None:
                board.offer(index, solved.choice)
            board.prove(index, part.rank(board.best[index])[0])
        board.notes |= {"width": widest, "too wide": too_wide}
        return board.answer(timed_out=not clock.left)


def elimination_order(
    problem: Problem, limit: int, stop: Callable[[], bool] = lambda: False
) -> tuple[list[int] | None, int]:
    """The classes in an order of small width, and that width; None if it is over ``limit`` or ``stop()`` says so.

    Always the class of fewest neighbours, then of fewest missing edges among these (*minimum degree*). The width is
    the largest number of neighbours at elimination, which bounds the treewidth from above.
    """
    neighbours: list[set[int]] = [set() for _ in problem.nodes]
    for cls, members in enumerate(problem.nodes):
        for node in members:
            clique = {cls, *problem.operands[node]}
            for one in clique:
                neighbours[one] |= clique
    for cls, around in enumerate(neighbours):
        around.discard(cls)
    buckets: list[set[int]] = [set() for _ in range(len(neighbours) + 1)]
    for cls, around in enumerate(neighbours):
        buckets[len(around)].add(cls)
    order: list[int] = []
    width = 0
    while len(order) < len(neighbours):
        degree = next(size for size, bucket in enumerate(buckets) if bucket)
        width = max(width, degree)
        if degree > limit or stop():
            return None, width
        cls = min(buckets[degree], key=lambda cls: (_missing(neighbours, cls), cls))
        buckets[degree].discard(cls)
        order.append(cls)
        around = neighbours[cls]
        for one in around:
            buckets[len(neighbours[one])].discard(one)
            neighbours[one] |= around
            neighbours[one] -= {one, cls}
            buckets[len(neighbours[one])].add(one)
    return order, width


def _missing(neighbours: Sequence[set[int]], cls: int) -> int:
    around = neighbours[cls]
    return sum(len(around) - 1 - len(around & neighbours[one]) for one in around)


class _State(NamedTuple):
    """What a partial selection offers to and asks of the rest; class sets are bit masks.

    Attributes:
        computed: classes outside that it computes.
        wanted: classes outside that it needs.
        paths: ``(class, classes that it leads to)`` for classes outside, inside components; ascending.
    """

    computed: int
    wanted: int
    paths: tuple[tuple[int, int], ...]


_NOTHING = _State(0, 0, ())


class _Pick(NamedTuple):
    """How a state came about: the states of two tables, or one e-node."""

    first: _Pick | None
    second: _Pick | None
    node: int


_Table = dict[_State, tuple[float, _Pick | None]]


class _Tables:
    """The elimination. ``finished`` tells whether it ran to its end; ``choice`` is the cheapest selection then.

    ``choice`` is None if no selection is cheaper than ``upper``.
    """

    def __init__(
        self, problem: Problem, order: Sequence[int], upper: float, states: int, stop: Callable[[], bool]
    ) -> None:
        self.problem = problem
        self.limit = states
        self.stop = stop
        # With negative costs a partial selection may cost more than the whole.
        self.enough = inf if problem.has_negative_costs else upper - 1e-12 * abs(upper)
        self.component = strongly_connected(problem.successors)
        self.rank = {cls: place for place, cls in enumerate(order)}
        self.choice: Choice | None = None
        self.finished = self._run(order)

    def _run(self, order: Sequence[int]) -> bool:
        """Per class: join all tables that speak of it, close it, and hand the result to the class that is next."""
        waiting: dict[int, list[_Table]] = {cls: [] for cls in order}
        for node, table in self._leaf_tables():
            classes = [self.problem.owner[node], *self.problem.operands[node]]
            waiting[min(classes, key=self.rank.__getitem__)].append(table)
        roots = sum(1 << cls for cls in self.problem.roots)
        result: _Table = {_NOTHING: (0.0, None)}
        for cls in order:
            bit = 1 << cls
            table: _Table = {_State(0, roots & bit, ()): (0.0, None)}
            for other in sorted(waiting.pop(cls), key=len):
                joined = self._join(table, other)
                if joined is None:
                    return False
                table = joined
            table = self._close(table, bit, cls)
            scope = 0
            for state in table:
                scope |= state.computed | state.wanted
            if not table:
                return True  # nothing is cheaper than the known selection
            if scope:
                waiting[min(_bits(scope), key=self.rank.__getitem__)].append(table)
            else:
                joined = self._join(result, table)
                if joined is None:
                    return False
                result = joined
        if _NOTHING in result:
            self.choice = self._read(result[_NOTHING][1])
        return True

    def _leaf_tables(self) -> Iterator[tuple[int, _Table]]:
        """For each e-node, the table of not taking and of taking it."""
        problem, component = self.problem, self.component
        for cls, members in enumerate(problem.nodes):
            for node in members:
                inside = sum(1 << child for child in set(problem.operands[node]) if component[child] == component[cls])
                wanted = sum(1 << child for child in set(problem.operands[node]))
                if not inside >> cls & 1:
                    taken = _State(1 << cls, wanted, ((cls, inside),) if inside else ())
                    yield node, {_NOTHING: (0.0, None), taken: (problem.costs[node], _Pick(None, None, node))}

    def _join(self, one: _Table, other: _Table) -> _Table | None:
        """All pairs that do not compute a class twice or close a cycle; None if there are too many, or no time."""
        joined: _Table = {}
        for state, (cost, pick) in one.items():
            if self.stop():
                return None
            for more, (further, added) in other.items():
                total = cost + further
                if state.computed & more.computed or total >= self.enough:
                    continue
                paths = _merged(state.paths, more.paths)
                if paths is None:
                    continue
                key = _State(state.computed | more.computed, state.wanted | more.wanted, paths)
                if key not in joined or total < joined[key][0]:
                    both = _Pick(pick, added, -1) if pick and added else pick or added
                    joined[key] = total, both
            if len(joined) > self.limit:
                return None
        return joined

    def _close(self, table: _Table, bit: int, cls: int) -> _Table:
        """The states in which the class is computed and wanted, or neither, without the class."""
        closed: _Table = {}
        for state, (cost, pick) in table.items():
            computed, wanted = state.computed & bit, state.wanted & bit
            if computed != wanted:
                continue
            paths = tuple((up, low & ~bit) for up, low in state.paths if up != cls and low & ~bit)
            key = _State(state.computed & ~bit, state.wanted & ~bit, paths)
            if key not in closed or cost < closed[key][0]:
                closed[key] = cost, pick
        return closed

    def _read(self, pick: _Pick | None) -> Choice:
        choice = [-1] * len(self.problem.nodes)
        stack = [pick]
        while stack:
            pick = stack.pop()
            if pick is not None:
                if pick.node >= 0:
                    choice[self.problem.owner[pick.node]] = pick.node
                stack += [pick.first, pick.second]
        return choice


def _merged(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...] | None:
    """The transitive closure of two relations that are transitive themselves; None if it has a cycle."""
    if not one or not other:
        return one or other
    paths = dict(one)
    for up, low in other:
        low |= _reached(paths, low)
        if low >> up & 1:
            return None
        for above, reached in list(paths.items()):
            if reached >> up & 1:
                if low >> above & 1:
                    return None
                paths[above] = reached | low
        paths[up] = paths.get(up, 0) | low
    return tuple(sorted(paths.items()))


def _reached(paths: dict[int, int], classes: int) -> int:
    """What the relation reaches from any of ``classes``."""
    reached = 0
    for up, low in paths.items():
        if classes >> up & 1:
            reached |= low
    return reached


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
