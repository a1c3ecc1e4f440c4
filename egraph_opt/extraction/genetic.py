"""A genetic algorithm whose individuals are acyclic selections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from egraph_opt.extraction.board import Board
from egraph_opt.extraction.dag_greedy import area_flow
from egraph_opt.extraction.local import LocalSearch
from egraph_opt.extraction.problem import Choice, Problem
from egraph_opt.extraction.result import Answer, Clock, Guarantee
from egraph_opt.extraction.shares import open_parts
from egraph_opt.extraction.tree_greedy import complete


@dataclass(frozen=True)
class Genetic:
    """Crossover of selections by regions, repair, local improvement, survival of the cheapest distinct ones.

    A memetic algorithm: Moscato, "On evolution, search, optimization, genetic algorithms and martial arts" (1989).
    A child takes from one parent what lies around a random class, and the rest from the other; what has a cycle or
    is open is repaired with cheapest trees that favour the parents' e-nodes.

    Attributes:
        population: individuals that survive.
        children: individuals made per part of the problem, in all.
        mutation: share of the e-nodes of a child that are drawn at random.
        effort: bound on the work of local improvement per child: edges visited.
    """

    population: int = 16
    children: int = 120
    mutation: float = 0.01
    effort: int = 150_000

    name: ClassVar[str] = "genetic"
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    description: ClassVar[str] = "genetic algorithm: selections crossed by regions, repaired and improved locally"
    takes_negative_costs: ClassVar[bool] = True

    def solve(self, problem: Problem, clock: Clock, *, seed: int, warm_start: Choice | None) -> Answer:
        """Never worse than ``dag-greedy`` or ``warm_start``."""
        board = Board(problem, clock, warm_start)
        random = Random(seed)
        for index, used_up in open_parts(board):
            with clock.stage("search"):
                self._evolve(board, index, random, used_up)
        return board.answer(timed_out=not clock.left)

    def _evolve(self, board: Board, index: int, random: Random, stop: Callable[[], bool]) -> None:
        part = board.parts[index].problem
        people = [board.best[index]]
        while len(people) < self.population and not stop():
            prior = [random.lognormvariate(0.0, 0.7) for _ in part.nodes]
            start = area_flow(part, board.best[index], 2.0 ** random.uniform(-2.0, 6.0), prior)
            people.append(self._improved(part, start, stop))
            board.offer(index, people[-1])
        for _ in range(self.children):
            if stop():
                return
            # Two of the better half more often than others: each parent wins a tournament of two.
            one, other = (min(random.sample(people, 2), key=part.rank) for _ in range(2))
            child = self._improved(part, complete(part, self._cross(part, one, other, random)), stop)
            board.offer(index, child)
            if child not in people:
                people = sorted([*people, child], key=part.rank)[: self.population]

    def _cross(self, part: Problem, one: Choice, other: Choice, random: Random) -> Choice:
        child = [a if a >= 0 else b for a, b in zip(one, other, strict=True)]
        for cls in _region(part, random):
            if other[cls] >= 0:
                child[cls] = other[cls]
        for cls, members in enumerate(part.nodes):
            if random.random() < self.mutation:
                child[cls] = random.choice(members)
        return child

    def _improved(self, part: Problem, start: Choice, stop: Callable[[], bool]) -> Choice:
        search = LocalSearch(part, self.effort, stop)
        search.load(start)
        search.descend(self.effort // 3)
        if search.sweep():
            search.descend()
        return part.trim(search.choice)


def _region(part: Problem, random: Random) -> set[int]:
    """Up to half of the classes around a random one, along operands and users, in random order."""
    start = random.randrange(len(part.nodes))
    wanted = random.randint(1, max(1, len(part.nodes) // 2))
    region, frontier = {start}, [start]
    while frontier and len(region) < wanted:
        place = random.randrange(len(frontier))
        cls, frontier[place] = frontier[place], frontier[-1]
        frontier.pop()
        around = {part.owner[user] for user in part.users[cls]}.union(part.successors[cls])
        new = sorted(around.difference(region))
        region.update(new)
        frontier.extend(new)
    return region
