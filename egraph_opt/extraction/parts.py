"""Splits a problem into independent parts: classes that no chain of e-nodes connects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from egraph_opt.extraction.problem import Choice, Problem


@dataclass(frozen=True)
class Part:
    """A problem with its own numbering.

    Attributes:
        problem: classes and e-nodes numbered from 0; each class has an e-node, each e-node is usable.
        classes: the number in the whole problem of each class.
        members: the number in the whole problem of each e-node.
    """

    problem: Problem
    classes: list[int]
    members: list[int]

    def narrow(self, choice: Sequence[int]) -> Choice:
        """The part's share of a choice for the whole problem; e-nodes that are not usable become -1."""
        local = {node: index for index, node in enumerate(self.members)}
        return [local.get(choice[cls], -1) for cls in self.classes]

    def widen(self, local: Sequence[int], choice: Choice) -> None:
        """Writes a choice for the part into ``choice``, one for the whole problem."""
        for cls, node in zip(self.classes, local, strict=True):
            choice[cls] = self.members[node] if node >= 0 else -1


def split(problem: Problem) -> list[Part]:
    """The independent parts, smallest first. All classes with e-nodes must be reachable from the roots."""
    neighbours: list[list[int]] = [list(below) for below in problem.successors]
    for cls, below in enumerate(problem.successors):
        for child in below:
            neighbours[child].append(cls)
    seen = [not members for members in problem.nodes]
    groups: list[list[int]] = []
    for root in problem.roots:
        if seen[root]:
            continue
        seen[root] = True
        group = [root]
        for cls in group:  # grows while it is walked
            for neighbour in neighbours[cls]:
                if not seen[neighbour]:
                    seen[neighbour] = True
                    group.append(neighbour)
        groups.append(sorted(group))
    root_set = set(problem.roots)
    parts = [_part(problem, group, [cls for cls in group if cls in root_set]) for group in groups]
    return sorted(parts, key=lambda part: len(part.members))


def _part(problem: Problem, classes: list[int], roots: list[int]) -> Part:
    local = {cls: index for index, cls in enumerate(classes)}
    members = [node for cls in classes for node in problem.nodes[cls]]
    nodes: list[list[int]] = [[] for _ in classes]
    for index, node in enumerate(members):
        nodes[local[problem.owner[node]]].append(index)
    return Part(
        Problem(
            [problem.costs[node] for node in members],
            [tuple(local[child] for child in problem.operands[node]) for node in members],
            [local[problem.owner[node]] for node in members],
            nodes,
            [local[root] for root in roots],
        ),
        classes,
        members,
    )
