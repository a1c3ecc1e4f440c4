"""Beam search from the roots down: several partial selections side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import ClassVar, NamedTuple

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.dag_greedy import area_flow
from egraph_opt.extraction.graph import strongly_connected
from egraph_opt.extraction.local import LocalSearch
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee
from egraph_opt.extraction.shares import open_parts
from egraph_opt.extraction.tree_greedy import cheapest_trees, complete


@dataclass(frozen=True)
class Beam:
    """In each step every kept partial selection decides one class that it needs, in all ways; the best are kept.

    Lowerre, "The HARPY speech recognition system" (1976). Partial selections are compared by what they cost and an
    estimate for the classes that they need and have not decided: cheapest trees whose shared parts are split among
    their users (*area flow*). A choice that closes a cycle is not made.

    Attributes:
        width: partial selections that are kept.
        effort: bound on the work of local improvement of each selection in the end: edges visited.
    """

    width: int = 24
    effort: int = 300_000

    name: ClassVar[str] = "beam"
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    description: ClassVar[str] = "beam search from the roots down, then local improvement"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Never worse than ``dag-greedy`` or ``warm_start``; has no use for ``seed``."""
        board = Board(problem, clock, warm_start)
        for index, used_up in open_parts(board):
            part = board.parts[index].problem
            with clock.stage("search"):
                for choice in _Descent(part, board.best[index], self.width).run(used_up):
                    if used_up():
                        break
                    search = LocalSearch(part, self.effort, used_up)
                    search.load(complete(part, choice))
                    search.descend(self.effort // 3)
                    if search.sweep():
                        search.descend()
                    board.offer(index, part.trim(search.choice))
        return board.answer(timed_out=not clock.left)


class _Partial(NamedTuple):
    """A partial selection: ``chosen`` and ``node`` are its e-nodes by class, ``wanted`` are the classes to decide."""

    estimate: float
    cost: float
    wanted: frozenset[int]
    chosen: dict[int, int]
    node: int = -1


class _Descent:
    """The search in one part."""

    def __init__(self, problem: Problem, best: Choice, width: int) -> None:
        self.problem = problem
        self.width = width
        self.component = strongly_connected(problem.successors)
        sharing = area_flow(problem, best, 1.0)
        costs = [max(cost, 0.0) for cost in problem.costs]
        self.value = _shared_values(problem, costs, sharing)
        # Users before operands: by component, and inside one by the height of the cheapest tree.
        trees = cheapest_trees(problem, costs)[1]
        self.height = [(self.component[cls], trees[cls], cls) for cls in range(len(problem.nodes))]

    def run(self, stop: Callable[[], bool]) -> list[Choice]:
        """The choices of the beam's end, the cheapest first; none if it was stopped or died out."""
        roots = frozenset(self.problem.roots)
        beam = [_Partial(0.0, 0.0, roots, {})]
        finished: list[_Partial] = []
        while beam:
            if stop():
                return []
            grown: dict[tuple[frozenset[int], float], _Partial] = {}
            for partial in beam:
                for child in self._children(partial):
                    if not child.wanted:
                        finished.append(self._settled(child))
                        continue
                    key = (child.wanted, round(child.cost, 9))  # no difference for what is still to be decided
                    grown.setdefault(key, child)
            kept = nsmallest(self.width, grown.values(), key=lambda partial: partial.estimate)
            beam = [self._settled(partial) for partial in kept]
        cheapest = nsmallest(self.width, finished, key=lambda partial: partial.cost)
        return [[partial.chosen.get(cls, -1) for cls in range(len(self.problem.nodes))] for partial in cheapest]

    def _children(self, partial: _Partial) -> Iterator[_Partial]:
        problem, value = self.problem, self.value
        cls = max(partial.wanted, key=self.height.__getitem__)
        for node in problem.nodes[cls]:
            if self._closes_cycle(partial.chosen, node, cls):
                continue
            fresh = {child for child in problem.operands[node] if child not in partial.chosen}
            fresh -= partial.wanted
            cost = partial.cost + problem.costs[node]
            estimate = partial.estimate + problem.costs[node] - value[cls] + sum(value[child] for child in fresh)
            yield _Partial(estimate, cost, (partial.wanted | fresh) - {cls}, partial.chosen, node)

    def _settled(self, partial: _Partial) -> _Partial:
        """With ``node`` among the chosen: copied only for those that are kept."""
        chosen = partial.chosen | {self.problem.owner[partial.node]: partial.node}
        return partial._replace(chosen=chosen, node=-1)

    def _closes_cycle(self, chosen: dict[int, int], node: int, cls: int) -> bool:
        component, operands = self.component, self.problem.operands
        stack = [child for child in set(operands[node]) if component[child] == component[cls]]
        seen = set(stack)
        while stack:
            child = stack.pop()
            if child == cls:
                return True
            for below in operands[chosen[child]] if child in chosen else ():
                if component[below] == component[cls] and below not in seen:
                    seen.add(below)
                    stack.append(below)
        return False


def _shared_values(problem: Problem, costs: list[float], choice: Choice) -> list[float]:
    """Per class, the cost of its tree under ``choice`` if each of its users there paid one share."""
    users = [0] * len(problem.nodes)
    for node in problem.trim(choice):
        if node >= 0:
            for child in problem.operands[node]:
                users[child] += 1
    sharing = [float(max(count, 1)) for count in users]
    return cheapest_trees(problem, costs, sharing=sharing)[1]
